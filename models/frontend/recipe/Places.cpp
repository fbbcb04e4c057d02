//===- Places.cpp - Templates beside the rows that fill places --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A graph that reads pictures puts their rows, in order, where its token ids
// are a certain one. A template that makes another number of these tokens than
// a picture has rows would give the rows that follow to other pictures' places.
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/Inputs.h"

#include "dialects/nn/NNNumbers.h"
#include "runtime/data/Config.h"

using namespace mlir;
using llvm::Twine;

namespace dt::models {

namespace {

using rt::data::Config;
using rt::data::SegmentKind;

/// Through what only moves or repeats elements.
Value source(Value value) {
  while (Operation *op = value.getDefiningOp()) {
    if (!isa<nn::CastOp, nn::ReshapeOp, nn::BroadcastOp, nn::TransposeOp>(op))
      break;
    value = op->getOperand(0);
  }
  return value;
}

/// The input and the number whose places a running count counts.
struct Counted {
  BlockArgument ids;
  int64_t token = 0;
};

std::optional<Counted> countedBy(Value indices) {
  auto less = source(indices).getDefiningOp<nn::SubOp>();
  auto sum = less ? source(less.getOperand(0)).getDefiningOp<nn::CumsumOp>()
                  : nn::CumsumOp();
  auto where =
      sum ? source(sum.getInput()).getDefiningOp<nn::CmpOp>() : nn::CmpOp();
  if (!where || where.getPredicate() != nn::Compare::eq)
    return std::nullopt;
  for (unsigned i : {0u, 1u}) {
    auto ids = dyn_cast<BlockArgument>(source(where->getOperand(i)));
    std::optional<double> token = nn::splatOf(where->getOperand(1 - i));
    if (ids && token)
      return Counted{ids, int64_t(*token)};
  }
  return std::nullopt;
}

class PlaceChecker {
public:
  PlaceChecker(dist::ModuleOp module, const Config &config,
               llvm::function_ref<Location(const Twine &)> locate)
      : module(module), config(config), locate(locate) {}

  LogicalResult check(nn::GatherOp gather) {
    std::optional<Counted> counted = countedBy(gather.getIndices());
    if (!counted || !holdsTokens(counted->ids) || counted->token < 0 ||
        counted->token >= int64_t(config.special.size()))
      return success();
    nn::DimExpr rows = nn::getShape(gather.getInput())[0];
    SmallVector<std::string> symbols = rows.symbols();
    auto dim = symbols.size() == 1 ? module.lookupSymbol<nn::DimOp>(symbols[0])
                                   : nn::DimOp();
    // Templates make a token for each row of a picture of any size.
    if (!dim || !dim.getItem() || dim.getMeasure())
      return success();
    auto each = rows.exactDiv(nn::DimExpr::symbol(symbols[0]));
    if (!each || !each->asConstant())
      return success();
    for (const SegmentKind &segment : config.segments)
      if (failed(
              check(segment, counted->token, each->constant(), *dim.getItem())))
        return failure();
    return success();
  }

private:
  bool holdsTokens(BlockArgument argument) {
    StringRef plain = dist::ModuleOp::getArgumentName(module.getForward(),
                                                      argument.getArgNumber());
    for (const std::string &name :
         {(module.getSymName() + "." + plain).str(), plain.str()})
      if (int entry = config.findInput(name); entry >= 0)
        return config.inputs[size_t(entry)].kind == rt::data::InputKind::Ids;
    return false;
  }

  /// Parts of the segment that are such items: of a picture that every sample
  /// has once, the sample's.
  int64_t countItems(const SegmentKind &segment, StringRef item) {
    return llvm::count_if(segment.parts, [&](int part) {
      if (part == rt::data::textKind)
        return false;
      const auto &kind = config.pictures[size_t(part)];
      return kind.ragged ? kind.name == item : item == dist::kSample;
    });
  }

  LogicalResult check(const SegmentKind &segment, int64_t token, int64_t rows,
                      StringRef item) {
    int64_t places = 0, items = countItems(segment, item);
    for (const rt::data::TemplateElement &element : segment.tokens)
      if (element.textPart < 0 && element.token == token)
        places += element.count;
    // Of several pictures a sample some may have no rows here.
    if (places == items * rows || (item == dist::kSample && items > 1))
      return success();
    return emitError(locate("data.segments." + segment.name + ".tokens"))
           << "makes " << places << " \"" << config.special[size_t(token)]
           << "\" of " << items << (items == 1 ? " picture" : " pictures")
           << ", but module '" << module.getSymName()
           << "' puts the rows of pictures there, " << rows
           << " of each; expected " << items * rows;
  }

  dist::ModuleOp module;
  const Config &config;
  llvm::function_ref<Location(const Twine &)> locate;
};

} // namespace

LogicalResult checkPlaces(mlir::ModuleOp program, const Config &config,
                          llvm::function_ref<Location(const Twine &)> locate) {
  for (auto module : program.getOps<dist::ModuleOp>()) {
    PlaceChecker checker(module, config, locate);
    for (auto gather : module.getForward().getOps<nn::GatherOp>())
      if (gather.getInOrder() && failed(checker.check(gather)))
        return failure();
  }
  return success();
}

} // namespace dt::models
