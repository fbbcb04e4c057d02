//===- LowerStrips.cpp - Collectives and products in strips -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A strip that is gathered, or given to be scattered, has a buffer of its own:
// what travels and what is multiplied meanwhile share no bytes. Products write
// and read the rows of whole tensors in place, so that no order of rows has to
// be put right. docs/sharding.md, "Products and their collectives in strips".
//
//===----------------------------------------------------------------------===//

#include "passes/lower/LowerStrips.h"

#include "dialects/dist/Strips.h"

using namespace mlir;
using namespace dt;
using namespace dt::lower;

namespace {

DimExpr lastDim(Value tensor) { return nn::getShape(tensor.getType()).back(); }

/// Some rows of every matrix of a batch.
struct StripRows {
  Value buffer;
  DimExpr begin = 0; ///< of the first matrix
  DimExpr pitch = 0; ///< rows from one matrix to the next; 0: these are all
};

class StripLowering {
public:
  StripLowering(dist::CollectiveOpInterface collective, FunctionLowering &f)
      : collective(collective), f(f), rows(*dist::getStripedRows(collective)),
        strips(dist::getNumStrips(collective)), batch(rows.outer) {
    const rt::CollectiveForm &form = collective.getForm();
    isBlock = !form.gathers && !form.scatters;
    if (!isBlock)
      batch = batch * DimExpr(collective.getOver());
  }

  void gather(ArrayRef<nn::LinearOp> products);
  void reduce(nn::LinearOp product);

private:
  DimExpr begin(int64_t i) const { return rows.begin(i, strips); }
  DimExpr length(int64_t i) const { return begin(i + 1) - begin(i); }
  /// The rows of strip i in a whole tensor.
  StripRows inWhole(Value buffer, int64_t i) const {
    return {buffer, begin(i), isBlock ? DimExpr(0) : rows.rows};
  }
  /// From the first row on, of `width` elements.
  Value viewOf(const StripRows &part, int64_t i, const DimExpr &width);
  /// A buffer for strip i of all ranks.
  Value allocate(int64_t i, StringRef name);
  void multiply(nn::LinearOp op, int64_t i, const StripRows &from,
                const StripRows &to);
  /// One of `in` and `out` is a strip of a whole tensor.
  void exchange(int64_t i, Value in, Value out);
  void putTogether(ArrayRef<Value> parts);

  dist::CollectiveOpInterface collective;
  FunctionLowering &f;
  dist::StripedRows rows;
  int64_t strips;
  DimExpr batch; ///< matrices of which every strip has rows
  bool isBlock;  ///< all rows are one block on both sides
};

Value StripLowering::viewOf(const StripRows &part, int64_t i,
                            const DimExpr &width) {
  auto type = cast<rt::BufferType>(part.buffer.getType());
  DimExpr offset = part.begin * width;
  DimExpr size = part.pitch == DimExpr(0) ? batch * length(i) * width
                                          : type.getNumElements() - offset;
  return f.view(part.buffer, {size}, collective.getLoc(), offset);
}

Value StripLowering::allocate(int64_t i, StringRef name) {
  Value result = collective.getWhole();
  return f.temporary(
      rt::BufferType::get(cast<RankedTensorType>(result.getType()))
          .getElementType(),
      {batch, length(i), lastDim(result)}, name, collective.getLoc());
}

void StripLowering::multiply(nn::LinearOp op, int64_t i, const StripRows &from,
                             const StripRows &to) {
  DimExpr n = lastDim(op.getResult()), k = lastDim(op.getInput()), zero;
  auto dim = [&](const DimExpr &e) {
    return nn::DimAttr::get(op.getContext(), e);
  };
  auto stride = [&](const StripRows &part, const DimExpr &width) {
    return dim(batch == DimExpr(1)
                   ? zero
                   : (part.pitch == zero ? length(i) : part.pitch) * width);
  };
  auto unit = [&](bool yes) {
    return yes ? UnitAttr::get(op.getContext()) : UnitAttr();
  };
  rt::MatmulOp::create(
      f.builder(), op.getLoc(), viewOf(from, i, k), f.get(op.getWeight()),
      f.get(op.getBias()), viewOf(to, i, n), dim(batch), dim(length(i)), dim(n),
      dim(k), UnitAttr(), unit(!op.getInOut()), stride(from, k), dim(zero),
      stride(to, n), dim(zero), dim(zero), dim(zero), UnitAttr());
}

void StripLowering::exchange(int64_t i, Value in, Value out) {
  MLIRContext *context = f.builder().getContext();
  DimExpr width = lastDim(collective.getResult());
  auto dim = [&](const DimExpr &e) {
    return isBlock ? nn::DimAttr() : nn::DimAttr::get(context, e);
  };
  std::optional<rt::Reduction> reduction = collective.getReduction();
  rt::CollectiveOp::create(
      f.builder(), collective.getLoc(), collective.getCollectiveKind(),
      reduction ? rt::ReductionAttr::get(context, *reduction)
                : rt::ReductionAttr(),
      in, out, dim(length(i) * width), dim(rows.rows * width),
      collective.getOver(), collective.getStride(), rt::Stream::compute);
}

void StripLowering::gather(ArrayRef<nn::LinearOp> products) {
  DimExpr width = lastDim(collective.getResult());
  Value in = f.get(collective.getInput());
  SmallVector<Value> parts, results;
  for (nn::LinearOp product : products)
    results.push_back(f.destination(product.getResult()).buffer);
  auto next = [&] {
    int64_t i = parts.size();
    if (i == strips)
      return;
    parts.push_back(allocate(i, "gathered"));
    exchange(i, viewOf(inWhole(in, i), i, width), parts.back());
  };
  // The next strip is under way before this one is multiplied.
  next();
  for (int64_t i = 0; i < strips; ++i) {
    next();
    for (auto [product, result] : llvm::zip(products, results))
      multiply(product, i, {parts[i]}, inWhole(result, i));
  }
  auto isDone = [&](Operation *user) {
    auto product = dyn_cast<nn::LinearOp>(user);
    return product && llvm::is_contained(products, product);
  };
  if (!llvm::all_of(collective.getResult().getUsers(), isDone))
    putTogether(parts);
}

void StripLowering::putTogether(ArrayRef<Value> parts) {
  DimExpr width = lastDim(collective.getResult());
  Value whole = f.destination(collective.getResult()).buffer;
  for (auto [i, part] : llvm::enumerate(parts)) {
    Shape from{batch, length(i) * width}, to{batch, rows.rows * width};
    KernelBuilder k(f.builder(), collective.getLoc(), "put_together", from);
    Value x = k.load(k.use(part, from), k.indices());
    Value at = k.add(k.index(1), k.size(begin(i) * width));
    k.store(x, k.use(whole, to), {k.index(0), at});
  }
}

void StripLowering::reduce(nn::LinearOp product) {
  DimExpr width = lastDim(collective.getResult());
  Value in = f.get(product.getInput());
  Value out = f.destination(collective.getResult()).buffer;
  for (int64_t i = 0; i < strips; ++i) {
    StripRows made =
        isBlock ? inWhole(out, i) : StripRows{allocate(i, "partial")};
    multiply(product, i, inWhole(in, i), made);
    Value ours = viewOf(inWhole(out, i), i, width);
    exchange(i, isBlock ? ours : made.buffer, ours);
  }
}

} // namespace

bool dt::lower::lowerGatheredStrips(dist::CollectiveOpInterface gather,
                                    FunctionLowering &f) {
  if (!gather.getForm().gathers || dist::getNumStrips(gather) < 2)
    return false;
  SmallVector<nn::LinearOp> products;
  for (nn::LinearOp product : dist::getProductsBeside(gather))
    if (f.isLowered(product.getWeight()) &&
        (!product.getBias() || f.isLowered(product.getBias())) &&
        !f.endsInGradient(product.getResult()))
      products.push_back(product);
  if (products.empty())
    return false;
  StripLowering(gather, f).gather(products);
  return true;
}

bool dt::lower::lowerReducedStrips(nn::LinearOp product, FunctionLowering &f) {
  if (!product->hasOneUse())
    return false;
  auto collective =
      dyn_cast<dist::CollectiveOpInterface>(*product->user_begin());
  if (!collective || dist::getNumStrips(collective) < 2 ||
      !llvm::is_contained(dist::getProductsBeside(collective), product) ||
      f.endsInGradient(collective.getResult()))
    return false;
  StripLowering(collective, f).reduce(product);
  return true;
}
