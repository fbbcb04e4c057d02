//===- Inputs.cpp - What "inputs" makes beside what graphs take -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/recipe/Inputs.h"
#include "models/frontend/json/JsonReader.h"
#include "models/frontend/recipe/losses/LossRule.h"

#include "dialects/nn/NNOps.h"
#include "runtime/data/Config.h"

#include "llvm/ADT/SmallPtrSet.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace mlir;
using llvm::Twine;

namespace dt::models {

namespace {

using rt::data::Config;
using rt::data::InputEntry;
using rt::data::InputKind;

/// Whole numbers from 0 to below `end`; 0: not known.
struct Range {
  int64_t end = 0;
  const char *what = ""; ///< "tokens"
};

Range rangeOf(const InputEntry &entry, const Config &config) {
  switch (entry.kind) {
  case InputKind::Ids:
  case InputKind::Labels:
    return {config.tokenizer.size(), "tokens"};
  case InputKind::Label:
    return {config.labels, "classes"};
  case InputKind::Random:
    return {entry.below, "numbers"};
  default:
    return {};
  }
}

/// Whether an element type can hold what the entry makes.
bool fits(const InputEntry &entry, Type element) {
  if (isa<FloatType>(element) || entry.integer())
    return true;
  return entry.kind == InputKind::IndexMask ||
         (entry.kind == InputKind::Value &&
          entry.value == std::nearbyint(entry.value));
}

std::string itemOf(const InputEntry &entry, const Config &config) {
  return entry.item == rt::data::sampleItem
             ? dist::kSample.str()
             : config.pictures[size_t(entry.item)].name;
}

bool isConnected(dist::ModuleOp module, StringRef input) {
  auto program = module->getParentOfType<mlir::ModuleOp>();
  return llvm::any_of(program.getOps<dist::EdgeOp>(), [&](auto edge) {
    return edge.getTarget() == module.getSymName() && edge.getInput() == input;
  });
}

/// Inputs that data fill, as "module.input".
std::vector<std::string> listOpenInputs(mlir::ModuleOp program) {
  std::vector<std::string> open;
  for (auto module : program.getOps<dist::ModuleOp>())
    for (unsigned i = 0; i < module.getForward().getNumArguments(); ++i) {
      StringRef name = dist::ModuleOp::getArgumentName(module.getForward(), i);
      if (!isConnected(module, name))
        open.push_back((module.getSymName() + "." + name).str());
    }
  return open;
}

/// Of an entry of `inputs` that no module takes.
LogicalResult refuseUnused(mlir::ModuleOp program, StringRef entry,
                           llvm::function_ref<Location(const Twine &)> locate) {
  auto error = [&] { return emitError(locate("inputs." + entry)); };
  for (auto edge : program.getOps<dist::EdgeOp>())
    if (entry == edge.getInput() ||
        entry == (edge.getTarget() + "." + edge.getInput()).str())
      return error() << "is connected (connections." << edge.getTarget() << "."
                     << edge.getInput()
                     << ") and described here too; expected one of them";
  std::vector<std::string> open = listOpenInputs(program);
  std::vector<StringRef> known(open.begin(), open.end());
  for (StringRef name : open)
    known.push_back(name.split('.').second);
  return error() << "no module takes it; their inputs are "
                 << llvm::join(open, ", ") << didYouMean(entry, known);
}

/// Of batch files the program reads what an input points into.
LogicalResult checkRebase(const std::string &name, const nlohmann::json &entry,
                          const Recipe &recipe,
                          llvm::function_ref<Location(const Twine &)> locate) {
  if (!entry.is_object() || !entry.contains("rebase"))
    return success();
  const nlohmann::json &into = entry["rebase"];
  std::vector<std::string> known;
  for (const MeasureEntry &measure : recipe.measures)
    known.push_back(measure.quantity());
  std::string wanted = into.is_string() ? into.get<std::string>() : "";
  if (!llvm::is_contained(known, wanted))
    return emitError(locate("inputs." + name + ".rebase"))
           << "expected a measure of items, whose rows the values point to ("
           << (known.empty() ? "there is none" : llvm::join(known, ", "))
           << ")";
  for (const char *key : {"rows", "pad"})
    if (entry.contains(key) && (!entry[key].is_number_integer() ||
                                (StringRef(key) == "rows" && entry[key] < 1)))
      return emitError(locate("inputs." + name + "." + key))
             << "expected a whole number"
             << (StringRef(key) == "rows" ? " of at least 1" : "");
  return success();
}

/// Without `data` what is described is still somebody's.
LogicalResult checkNames(mlir::ModuleOp program, const Recipe &recipe,
                         llvm::function_ref<Location(const Twine &)> locate) {
  std::vector<std::string> open = listOpenInputs(program);
  for (auto &entry : recipe.inputs.items())
    if (llvm::none_of(open, [&](StringRef name) {
          return name == entry.key() || name.split('.').second == entry.key();
        }))
      return refuseUnused(program, entry.key(), locate);
  for (auto &entry : recipe.inputs.items())
    if (failed(checkRebase(entry.key(), entry.value(), recipe, locate)))
      return failure();
  return success();
}

class InputChecker {
public:
  InputChecker(mlir::ModuleOp program, const Recipe &recipe,
               llvm::function_ref<Location(const Twine &)> locate)
      : program(program), recipe(recipe), config(*recipe.config),
        locate(locate), used(config.inputs.size()),
        padded(config.inputs.size()) {}

  LogicalResult check() {
    for (auto module : program.getOps<dist::ModuleOp>()) {
      func::FuncOp forward = module.getForward();
      for (BlockArgument argument : forward.getArguments())
        if (failed(checkArgument(module, argument)))
          return failure();
    }
    warnSegments();
    return failure(failed(checkUsed()) || failed(checkLabels()) ||
                   failed(checkPlaces(program, config, locate)));
  }

private:
  LogicalResult checkArgument(dist::ModuleOp module, BlockArgument argument);
  LogicalResult checkType(const InputEntry &entry, dist::ModuleOp module,
                          BlockArgument argument);
  LogicalResult checkRange(const InputEntry &entry, Value value);
  LogicalResult checkIgnored(const InputEntry &entry, nn::CrossEntropyOp loss);
  LogicalResult checkUsed();
  LogicalResult checkLabels();
  void warnSegments();
  void warnUnshifted(const InputEntry &entry);

  /// As the runtime finds it (runtime/data/Binding.cpp); -1: none.
  int find(dist::ModuleOp module, StringRef input) {
    std::string prefix = (module.getSymName() + ".").str();
    for (const std::string &key :
         {prefix + input.str(), input.str(),
          input.starts_with(prefix) ? input.drop_front(prefix.size()).str()
                                    : input.str()})
      if (int entry = config.findInput(key); entry >= 0)
        return entry;
    return -1;
  }
  /// The loss of the module that compares its output with the input.
  std::optional<size_t> lossOf(dist::ModuleOp module, StringRef input) {
    for (auto [i, loss] : llvm::enumerate(recipe.losses))
      if (loss.value.module == module.getSymName() && loss.target == input)
        return i;
    return std::nullopt;
  }
  bool isMasked(int index) {
    return llvm::any_of(config.inputs, [&](const InputEntry &entry) {
      return entry.kind == InputKind::IndexMask && entry.index == index;
    });
  }
  void use(int entry) {
    if (entry < 0 || used[size_t(entry)])
      return;
    used[size_t(entry)] = true;
    const InputEntry &e = config.inputs[size_t(entry)];
    for (int other : {e.clean, e.noise, e.time, e.index})
      use(other);
  }
  InFlightDiagnostic error(const InputEntry &entry) {
    return emitError(locate("inputs." + entry.name));
  }

  mlir::ModuleOp program;
  const Recipe &recipe;
  const Config &config;
  llvm::function_ref<Location(const Twine &)> locate;
  std::vector<bool> used;
  std::vector<bool> padded; ///< an index whose padding a graph may look up
  llvm::SmallPtrSet<Operation *, 8> seen;
};

/// Positions out of range are zeros there, as in a connection's "gather".
bool givesZeros(Value index) {
  return llvm::any_of(index.getUsers(), [](Operation *user) {
    if (isa<nn::CastOp, nn::ReshapeOp>(user))
      return givesZeros(user->getResult(0));
    auto gather = dyn_cast<nn::GatherOp>(user);
    return gather && gather.getZeroOutOfRange();
  });
}

LogicalResult InputChecker::checkArgument(dist::ModuleOp module,
                                          BlockArgument argument) {
  StringRef name = dist::ModuleOp::getArgumentName(module.getForward(),
                                                   argument.getArgNumber());
  if (isConnected(module, name))
    return success();
  int found = find(module, name);
  if (found < 0) {
    std::vector<StringRef> keys;
    for (const InputEntry &entry : config.inputs)
      keys.push_back(entry.name);
    std::string key = (module.getSymName() + "." + name).str();
    if (std::optional<size_t> loss = lossOf(module, name))
      return emitError(locate("losses[" + Twine(*loss) + "]." +
                              recipe.losses[*loss].rule->target))
             << "'" << name << "' is an input of module '"
             << module.getSymName()
             << "' that inputs does not describe; expected the key '" << name
             << "' or '" << key << "' there" << didYouMean(name, keys);
    return emitError(locate("inputs"))
           << "module '" << module.getSymName() << "' takes '" << name
           << "', which is neither connected nor described; expected the key '"
           << key << "'" << didYouMean(key, keys);
  }
  use(found);
  if (!givesZeros(argument))
    padded[size_t(found)] = true;
  const InputEntry &entry = config.inputs[size_t(found)];
  seen.clear();
  if (failed(checkType(entry, module, argument)))
    return failure();
  return checkRange(entry, argument);
}

/// The size of axis 0 is the part's, so only what it counts is looked at.
LogicalResult InputChecker::checkType(const InputEntry &entry,
                                      dist::ModuleOp module,
                                      BlockArgument argument) {
  auto type = cast<RankedTensorType>(argument.getType());
  StringRef name = dist::ModuleOp::getArgumentName(module.getForward(),
                                                   argument.getArgNumber());
  if (!fits(entry, type.getElementType()))
    return error(entry) << "makes floats, but '" << name << "' of module '"
                        << module.getSymName() << "' is of "
                        << type.getElementType();
  nn::Shape shape = nn::getShape(type);
  if ((config.packed && entry.ofTokens()) || entry.perSquare) {
    std::string wrong = describeWrongRows(entry, config, module, argument);
    return wrong.empty() ? success() : error(entry) << wrong;
  }
  std::string item = itemOf(entry, config), made = "[" + item, taken;
  for (int64_t extent : entry.shape)
    made += ", " + std::to_string(extent);
  bool same = shape.size() == entry.shape.size() + 1;
  for (auto [axis, dim] : llvm::enumerate(shape)) {
    std::optional<int64_t> number = dim.asConstant();
    auto symbols = dim.symbols();
    auto counted = symbols.size() == 1
                       ? module.lookupSymbol<nn::DimOp>(symbols[0])
                       : nn::DimOp();
    std::string text = number ? std::to_string(*number) : dim.str();
    if (counted && counted.getItem() && dim == nn::DimExpr::symbol(symbols[0]))
      text = counted.getItem()->str();
    if (axis == 0 && number && item == dist::kSample &&
        *number != config.globalBatch)
      return error(entry) << "makes a row a sample, " << config.globalBatch
                          << " in a batch, but '" << name << "' of module '"
                          << module.getSymName() << "' always has " << *number
                          << "; export the graph with a name for that dim, or "
                             "set batch.global to it";
    taken += (axis ? ", " : "[") + text;
    if (axis == 0)
      same &= !counted || !counted.getItem() || *counted.getItem() == item;
    else if (number && axis <= entry.shape.size())
      same &= *number == entry.shape[axis - 1];
  }
  if (same)
    return success();
  bool labels = llvm::any_of(argument.getUsers(), [&](Operation *user) {
    auto loss = dyn_cast<nn::CrossEntropyOp>(user);
    return loss && loss.getLabels() == argument;
  });
  return error(entry) << "makes " << made << "], but '" << name
                      << "' of module '" << module.getSymName() << "' is "
                      << (taken.empty() ? "one number" : taken + "]")
                      << (labels ? ", the logits' shape without its last axis, "
                                   "which counts classes"
                                 : "");
}

/// Positions that are no targets are those that the loss leaves out, and some
/// are left.
LogicalResult InputChecker::checkIgnored(const InputEntry &entry,
                                         nn::CrossEntropyOp loss) {
  if (entry.kind != InputKind::Labels)
    return success();
  if (entry.ignore != int64_t(loss.getIgnoreIndex()))
    return error(entry) << "marks what is no target by " << entry.ignore
                        << " (\"ignore\"), but the loss leaves out "
                        << int64_t(loss.getIgnoreIndex())
                        << " (\"ignore_index\"); expected one number in both";
  for (auto [segment, isMeant] : llvm::zip(config.segments, entry.segments))
    if (isMeant && llvm::any_of(segment.tokens, [](const auto &element) {
          return element.loss;
        }))
      return success();
  return error(entry) << "no token of its segments is a target; expected "
                         "\"loss\": true in \"data.segments\"";
}

/// Follows what keeps the numbers to tables and losses.
LogicalResult InputChecker::checkRange(const InputEntry &entry, Value value) {
  Range range = rangeOf(entry, config);
  if (range.end <= 0)
    return success();
  for (OpOperand &use : value.getUses()) {
    Operation *user = use.getOwner();
    std::optional<int64_t> most;
    const char *where = "";
    if (auto gather = dyn_cast<nn::GatherOp>(user)) {
      bool looksUp =
          use.get() == gather.getIndices() && !gather.getZeroOutOfRange();
      if (looksUp && entry.kind == InputKind::Labels && entry.ignore < 0)
        return error(entry) << "holds " << entry.ignore
                            << " where nothing is a target, but goes to rows "
                               "of a table; expected {\"tokens\": \"ids\"}";
      if (looksUp)
        most = nn::getShape(gather.getInput())[size_t(gather.getAxis())]
                   .asConstant();
      where = "rows of a table";
    } else if (auto loss = dyn_cast<nn::CrossEntropyOp>(user)) {
      if (use.get() != loss.getLabels())
        continue;
      if (failed(checkIgnored(entry, loss)))
        return failure();
      warnUnshifted(entry);
      most = nn::getShape(loss.getLogits()).back().asConstant();
      where = "classes of a loss";
    } else if (isa<nn::CastOp, nn::ReshapeOp, nn::TransposeOp>(user) &&
               seen.insert(user).second &&
               isa<IntegerType>(getElementTypeOrSelf(user->getResult(0)))) {
      if (failed(checkRange(entry, user->getResult(0))))
        return failure();
    }
    if (most && *most < range.end)
      return error(entry) << "may be any of " << range.end << " " << range.what
                          << ", but goes to the " << *most << " " << where;
  }
  return success();
}

/// What reaches the loss by reshapes and casts only was not shifted on the way.
void InputChecker::warnUnshifted(const InputEntry &entry) {
  bool own = entry.kind == InputKind::Ids ||
             (entry.kind == InputKind::Labels && entry.shift == 0);
  if (own)
    emitWarning(locate("inputs." + entry.name))
        << "each label is the token at its own place, and the graph does not "
           "shift them: a model that sees the token learns to copy it; a "
           "language model takes {\"tokens\": \"labels\"} with \"shift\": 1";
}

/// Templates that leave out what a sample has.
void InputChecker::warnSegments() {
  for (const rt::data::SegmentKind &segment : config.segments) {
    auto warn = [&] {
      return emitWarning(locate("data.segments." + segment.name + ".tokens"));
    };
    for (auto [i, part] : llvm::enumerate(segment.parts)) {
      rt::data::SegmentKind::Use use = segment.useOf(i);
      if (part == rt::data::textKind) {
        if (!use.taken)
          warn() << "no token takes the text of part " << i
                 << ": it is left out";
        continue;
      }
      for (auto [e, entry] : llvm::enumerate(config.inputs))
        if (entry.kind == InputKind::Index && entry.picture == part &&
            !entry.perSquare && padded[e] && !isMasked(int(e)) &&
            entry.shape[0] > use.positions && !use.open)
          warn() << use.positions << " positions are of one \""
                 << config.pictures[size_t(part)].name << "\", but inputs."
                 << entry.name << " has a width of " << entry.shape[0]
                 << ": the rest is its \"pad\", " << entry.pad
                 << ", which the graph takes for a position";
    }
  }
}

LogicalResult InputChecker::checkUsed() {
  for (auto [entry, isUsed] : llvm::zip(config.inputs, used))
    if (!isUsed)
      return refuseUnused(program, entry.name, locate);
  return success();
}

/// What `data` says of labels reaches some input.
LogicalResult InputChecker::checkLabels() {
  auto none = [&](InputKind kind) {
    return llvm::none_of(config.inputs, [&](const InputEntry &entry) {
      return entry.kind == kind;
    });
  };
  if (config.labels > 0 && none(InputKind::Label))
    return emitError(locate("data.labels"))
           << "no entry of inputs takes the classes of samples; expected one "
              "with {\"label\": \"sample\"}, or no data.labels";
  return success();
}

/// Nothing compares the rows of a graph without a dim that counts items with
/// the samples of a step.
void warnUncounted(mlir::ModuleOp program, const Recipe &recipe,
                   llvm::function_ref<Location(const Twine &)> locate) {
  auto counts = [](nn::DimOp dim) { return dim.getItem().has_value(); };
  for (auto module : program.getOps<dist::ModuleOp>())
    if (recipe.globalBatch > 1 && recipe.microBatch == recipe.globalBatch &&
        module.getForward().getNumArguments() &&
        llvm::none_of(module.getOps<nn::DimOp>(), counts))
      emitWarning(locate("modules." + module.getSymName()))
          << "no input has a dim that counts items: the graph runs once a step "
             "on the rows that it was exported with, and batch.global, "
          << recipe.globalBatch << ", is only what samples/s are computed from";
}

} // namespace

LogicalResult checkInputs(mlir::ModuleOp program, const Recipe &recipe,
                          llvm::function_ref<Location(const Twine &)> locate) {
  if (!recipe.config) {
    warnUncounted(program, recipe, locate);
    return checkNames(program, recipe, locate);
  }
  return InputChecker(program, recipe, locate).check();
}

} // namespace dt::models
