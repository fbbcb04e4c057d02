//===- Adapters.cpp - What trains beside frozen products --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// LoRA (Hu et al., 2021), as the PEFT library does it: parameters NAME.lora_A
// [rank, in] and NAME.lora_B [out, rank] for each weight that a recipe chooses.
// They are made here, where names are those of the recipe, so that patterns of
// the optimizer can name them; the phase import makes the products
// (passes/import/ApplyAdapters.cpp).
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/Program.h"

#include "dialects/nn/NNOps.h"
#include "models/frontend/import/Pattern.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using llvm::Twine;

namespace dt::models {

namespace {

using Locate = llvm::function_ref<Location(const Twine &)>;

class AdapterBuilder {
public:
  AdapterBuilder(dist::ModuleOp module, const ModuleEntry &entry, Locate locate)
      : module(module), entry(entry), lora(*entry.lora), locate(locate),
        builder(module.getContext()) {}

  LogicalResult build() {
    if (!entry.trainable)
      for (auto parameter : module.getOps<nn::ParameterOp>())
        parameter.setTrainable(false);
    module.walk([&](nn::ReadOp read) {
      reads[read.getParameterAttr().getAttr()].push_back(read);
    });
    SmallVector<nn::ParameterOp> all(module.getOps<nn::ParameterOp>());
    SmallVector<int> chosenBy(all.size(), -1);
    for (auto [i, pattern] : llvm::enumerate(lora.patterns))
      if (failed(choose(i, pattern, all, chosenBy)))
        return failure();
    for (auto [parameter, pattern] : llvm::zip_equal(all, chosenBy))
      if (pattern >= 0 && failed(add(parameter, at(pattern))))
        return failure();
    return success();
  }

private:
  Location at(size_t pattern) {
    return locate("modules." + entry.name + ".lora.pattern[" + Twine(pattern) +
                  "]");
  }

  /// Biases and scales of norms may match, too: a pattern names layers.
  LogicalResult choose(size_t index, const std::string &pattern,
                       MutableArrayRef<nn::ParameterOp> all,
                       MutableArrayRef<int> chosenBy) {
    bool any = false, matrix = false;
    for (auto &&[parameter, chosen] : llvm::zip_equal(all, chosenBy)) {
      if (parameter.getBuffer() ||
          !matchesPattern(pattern, parameter.getSymName()))
        continue;
      any = true;
      if (cast<RankedTensorType>(parameter.getType()).getRank() < 2)
        continue;
      matrix = true;
      if (chosen < 0)
        chosen = index;
    }
    if (matrix)
      return success();
    InFlightDiagnostic error = emitError(at(index));
    error << "no weight of a product of '" << entry.onnx << "' matches '"
          << pattern << "'";
    if (any)
      error << ", only vectors";
    if (StringRef(pattern).starts_with(entry.name + "."))
      error << "; patterns here have no '" << entry.name << ".' in front";
    return error;
  }

  /// Whether products read it as [in, out], by all its uses. Nothing with an
  /// error if it is used otherwise.
  FailureOr<bool> findOrientation(nn::ParameterOp parameter, Location loc) {
    std::optional<bool> inOut;
    for (nn::ReadOp read : reads[parameter.getSymNameAttr()])
      for (OpOperand &use : read.getResult().getUses()) {
        Operation *user = use.getOwner();
        if (isOpTriviallyDead(user)) // a transposition that a product has
          continue;
        auto product = dyn_cast<nn::LinearOp>(user);
        if (!product || use.get() != product.getWeight())
          return emitError(loc)
                     << "'" << parameter.getSymName() << "' is used by "
                     << user->getName().getStringRef()
                     << "; expected a matrix that is the weight of "
                        "products (MatMul, Gemm) and nothing else",
                 failure();
        if (inOut.value_or(product.getInOut()) != product.getInOut())
          return emitError(loc)
                     << "'" << parameter.getSymName()
                     << "' is used as it is and transposed; one adapter cannot "
                        "be both",
                 failure();
        inOut = product.getInOut();
      }
    if (!inOut)
      return emitError(loc)
                 << "'" << parameter.getSymName() << "' is used by no product",
             failure();
    return *inOut;
  }

  nn::ParameterOp declare(nn::ParameterOp base, StringRef suffix,
                          ArrayRef<int64_t> shape, StringRef rule) {
    StringRef name = base.getSymName();
    name.consume_back(".weight");
    auto type = RankedTensorType::get(
        shape, cast<RankedTensorType>(base.getType()).getElementType());
    return nn::ParameterOp::create(
        builder, base.getLoc(), (name + suffix).str(), type,
        nn::InitAttr::get(module.getContext(), rule, "", ""),
        /*trainable=*/true, /*buffer=*/false);
  }

  LogicalResult add(nn::ParameterOp base, Location loc) {
    auto type = cast<RankedTensorType>(base.getType());
    if (type.getRank() != 2)
      return emitError(loc)
             << "'" << base.getSymName() << "' has " << type.getRank()
             << " axes; expected a matrix that is the weight of "
                "products (MatMul, Gemm)";
    FailureOr<bool> inOut = findOrientation(base, loc);
    if (failed(inOut))
      return failure();
    int64_t in = type.getDimSize(*inOut ? 0 : 1),
            out = type.getDimSize(*inOut ? 1 : 0);
    if (lora.rank > std::min(in, out))
      return emitError(locate("modules." + entry.name + ".lora.rank"))
             << lora.rank << " is more than '" << base.getSymName() << "' ["
             << type.getDimSize(0) << ", " << type.getDimSize(1)
             << "] may have, at most " << std::min(in, out);
    base.setTrainable(false);
    builder.setInsertionPointAfter(base);
    auto down = declare(base, ".lora_A.weight", {lora.rank, in},
                        "kaiming_uniform"),
         up = declare(base, ".lora_B.weight", {out, lora.rank}, "zeros");
    for (nn::ParameterOp made : {down, up})
      if (module.lookupSymbol(made.getSymName()) != made)
        return emitError(loc) << "the graph has a parameter '"
                              << made.getSymName() << "' already";
    builder.setInsertionPointAfter(up);
    nn::AdapterOp::create(builder, loc, base.getSymName(), down.getSymName(),
                          up.getSymName(),
                          llvm::APFloat(lora.alpha / double(lora.rank)));
    return success();
  }

  dist::ModuleOp module;
  const ModuleEntry &entry;
  const LoraEntry &lora;
  Locate locate;
  OpBuilder builder;
  llvm::DenseMap<StringAttr, SmallVector<nn::ReadOp>> reads;
};

} // namespace

LogicalResult addAdapters(dist::ModuleOp module, const ModuleEntry &entry,
                          Locate locate) {
  if (!entry.lora)
    return success();
  return AdapterBuilder(module, entry, locate).build();
}

LogicalResult checkAdapters(mlir::ModuleOp program, Locate locate) {
  for (auto tie : program.getOps<dist::TieOp>())
    for (SymbolRefAttr name : {tie.getAliasAttr(), tie.getParameterAttr()}) {
      auto module =
          program.lookupSymbol<dist::ModuleOp>(name.getRootReference());
      for (auto adapter : module.getOps<nn::AdapterOp>())
        if (adapter.getBaseAttr().getAttr() == name.getLeafReference())
          return emitError(locate("tie"))
                 << "'" << module.getSymName() << "." << adapter.getBase()
                 << "' is tied and has an adapter (lora); expected one of both";
    }
  return success();
}

} // namespace dt::models
