//===- PlanModel.cpp - A program as the planner sees it ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/plan/PlanModel.h"

#include "passes/planner/search/Formulation.h"
#include "passes/stages/StageCuts.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/SetVector.h"

#include <numeric>

using namespace mlir;

namespace dt::plan {

using planner::LayerKind;
using planner::Linear;
using planner::Op;
using planner::Save;

namespace {

/// Heads and widths of more than this are not cut finer.
constexpr int kMostTP = 64;
/// Gradients read what came in and what the forward made, and write as much.
constexpr double kStreamBackward = 1.5, kAttentionBackward = 2.5,
                 kProductBackward = 2;
/// Of a gradient, a moment, a master.
constexpr double kFloatBytes = 4;

Linear perItem(double value) { return {value, 0, 0}; }

/// Ops of one layer of the planner, in order, with what they call.
class LayerBuilder {
public:
  LayerBuilder(dist::ModuleOp module, stages::NominalCosts &costs)
      : module(module), costs(costs) {}

  void add(Operation *op) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      if (auto callee = module.lookupSymbol<func::FuncOp>(call.getCallee()))
        for (Operation &inner : callee.getBody().front().without_terminator())
          add(&inner);
      flush();
      for (Value operand : call.getOperands())
        addParameter(operand);
      return;
    }
    for (Value operand : op->getOperands())
      addParameter(operand);
    auto model = dyn_cast<nn::CostOpInterface>(op);
    if (!model)
      return follow(op);
    double flops = costs.atBounds(model.getFlops()),
           bytes = costs.atBounds(model.getBytes());
    nn::Work work = model.getWork();
    switch (work.kind) {
    case nn::Work::None:
    case nn::Work::View:
      return follow(op);
    case nn::Work::Product:
    case nn::Work::Convolution:
      return addProduct(op, work, flops, bytes);
    case nn::Work::Batched:
    case nn::Work::Attention:
      return addAttention(op, work, flops, bytes);
    case nn::Work::Norm:
    case nn::Work::Stream:
      return addStream(op, work, bytes);
    }
  }

  LayerKind finish(double input, double output) {
    kind.output = perItem(output);
    kind.keptSequence[int(Save::None)] = perItem(input);
    flush();
    return kind;
  }
  /// 0: it has no heads.
  int64_t getHeads() const { return heads; }
  int64_t getWidths() const { return widths; }
  /// Their numbers of elements, by reference.
  const llvm::MapVector<Attribute, double> &getParameters() const {
    return parameters;
  }

private:
  /// A function may be called again: its values are others then.
  void flush() {
    for (auto [value, saves] : kept)
      for (Save save : {Save::Vjp, Save::All})
        if (saves >> int(save) & 1)
          (cut.contains(value) ? kind.keptSplit : kind.keptSequence)[int(save)]
              .item += costs.bytesOf(value.getType());
    kept.clear();
    cut.clear();
  }
  void keep(Value value, bool vjp) {
    if (isa<RankedTensorType>(value.getType()))
      kept[value] |= 1u << int(Save::All) | (vjp ? 1u << int(Save::Vjp) : 0);
  }
  bool isCut(Operation *op) {
    return llvm::any_of(op->getOperands(),
                        [&](Value value) { return cut.contains(value); });
  }
  /// Views and elementwise ops go on as what they take.
  void follow(Operation *op) {
    if (isCut(op))
      cut.insert(op->result_begin(), op->result_end());
  }
  void addParameter(Value value) {
    auto read = value.getDefiningOp<nn::ReadOp>();
    auto type =
        read ? cast<RankedTensorType>(read.getType()) : RankedTensorType();
    if (!type || !type.hasStaticShape())
      return;
    double count = double(type.getNumElements());
    if (parameters.insert({read->getAttr("parameter"), count}).second)
      kind.parameters += count;
  }
  void addProduct(Operation *op, const nn::Work &work, double flops,
                  double bytes);
  void handOn(Value result, bool sums);
  void addAttention(Operation *op, const nn::Work &work, double flops,
                    double bytes);
  void addStream(Operation *op, const nn::Work &work, double bytes);

  dist::ModuleOp module;
  stages::NominalCosts &costs;
  LayerKind kind;
  int64_t heads = 0, widths = 0;
  llvm::MapVector<Value, unsigned> kept;
  llvm::DenseSet<Value> cut; ///< divided by tensor parallelism
  llvm::MapVector<Attribute, double> parameters;
};

/// A product after a cut one sums over ranks; others are cut in their columns.
void LayerBuilder::addProduct(Operation *op, const nn::Work &work, double flops,
                              double bytes) {
  Op product;
  product.name = op->getName().stripDialect().str();
  double weight = costs.bytesOf(op->getOperand(1).getType());
  product.bytes = perItem(std::max(0.0, bytes - weight));
  product.fixedBytes = weight;
  Value result = op->getResult(0);
  keep(op->getOperand(0), true);
  keep(result, false);
  bool sums = isCut(op);
  product.split = sums ? Op::Depth : Op::Columns;
  if (work.kind == nn::Work::Convolution) { // in channels
    product.kind = Op::Convolution;
    product.flops = perItem(flops);
    for (std::vector<Op> *ops : {&kind.forward, &kind.input, &kind.weight})
      ops->push_back(product);
    return handOn(result, sums);
  }
  product.kind = Op::Gemm;
  product.n = costs.atBounds(work.n);
  product.k = costs.atBounds(work.k);
  product.rows = perItem(flops / std::max(1.0, 2 * product.n * product.k));
  widths = std::gcd(widths, int64_t(sums ? product.k : product.n));
  kind.forward.push_back(product);
  Op input = product;
  std::swap(input.n, input.k);
  input.split = sums ? Op::Columns : Op::Depth;
  kind.input.push_back(input);
  kind.weight.push_back(product);
  handOn(result, sums);
}

/// What was cut is divided; where a cut input was summed over, ranks meet.
void LayerBuilder::handOn(Value result, bool sums) {
  if (!sums) {
    cut.insert(result);
    return;
  }
  ++kind.forwardReduces;
  ++kind.backwardReduces;
  kind.reduced.item =
      std::max(kind.reduced.item, costs.bytesOf(result.getType()));
}

/// Products of activations; of attention the scores stay in the kernel.
void LayerBuilder::addAttention(Operation *op, const nn::Work &work,
                                double flops, double bytes) {
  Op attention;
  attention.name = op->getName().stripDialect().str();
  attention.kind = Op::Attention;
  bool fused = work.kind == nn::Work::Attention;
  attention.split = fused || isCut(op) ? Op::Heads : Op::Whole;
  attention.flops = perItem(flops);
  attention.bytes = perItem(bytes);
  kind.forward.push_back(attention);
  double factor = fused ? kAttentionBackward : kProductBackward;
  attention.flops.item *= factor;
  attention.bytes.item *= kProductBackward;
  kind.input.push_back(attention);
  // Keys and values of all tokens: where these are divided over ranks.
  for (unsigned i = 1; i < (fused ? 3u : 2u); ++i)
    kind.exchanged.item += costs.bytesOf(op->getOperand(i).getType());
  for (Value value : op->getOperands())
    keep(value, true);
  for (Value value : op->getResults())
    keep(value, fused);
  follow(op);
  if (!fused)
    return;
  cut.insert(op->result_begin(), op->result_end());
  // [items, tokens, heads, width]
  for (unsigned i : {0u, 1u}) {
    auto type = cast<RankedTensorType>(op->getOperand(i).getType());
    if (type.getRank() == 4 && !type.isDynamicDim(2))
      heads = std::gcd(heads, type.getDimSize(2));
  }
}

/// Groups of channels are divided as the channels are.
static bool worksOnGroups(Operation *op) {
  auto sharding = dyn_cast<nn::ShardingOpInterface>(op);
  return sharding &&
         llvm::any_of(sharding.getShardingRule().factors, [](auto &factor) {
           return factor.kind == nn::FactorKind::group;
         });
}

void LayerBuilder::addStream(Operation *op, const nn::Work &work,
                             double bytes) {
  if (bytes <= 0)
    return;
  bool norm = work.kind == nn::Work::Norm;
  Op stream;
  stream.name = op->getName().stripDialect().str();
  bool divided = (!norm || worksOnGroups(op)) && isCut(op);
  stream.split = divided ? Op::Heads : Op::Sequence;
  stream.bytes = perItem(bytes);
  stream.cheap = !norm;
  kind.forward.push_back(stream);
  stream.cheap = false;
  stream.bytes.item *= kStreamBackward;
  kind.input.push_back(stream);
  if (norm)
    keep(op->getOperand(0), true);
  for (Value value : op->getResults())
    keep(value, false);
  if (divided)
    cut.insert(op->result_begin(), op->result_end());
}

/// Mean bytes a parameter: some are trained, of these some have a master beside
/// what functions read.
void addState(dist::ModuleOp module, planner::Module &result) {
  double all = 0, stored = 0, trained = 0, masters = 0;
  for (auto parameter : module.getOps<nn::ParameterOp>()) {
    RankedTensorType type = parameter.getStoredType();
    double count = double(type.getNumElements());
    all += count;
    stored += count * double(nn::getElementBytes(type.getElementType()));
    trained += parameter.getTrainable() ? count : 0;
    masters += parameter.getTrainable() && parameter.getWorking() ? count : 0;
  }
  result.trainable = trained > 0;
  double moments =
      double(dist::getNumMoments(module->getParentOfType<mlir::ModuleOp>()));
  all = std::max(all, 1.0);
  result.weightBytes = stored > 0 ? stored / all : kFloatBytes;
  result.gradientBytes = kFloatBytes * trained / all;
  result.optimizerBytes = kFloatBytes * (moments * trained + masters) / all;
}

/// One module: its pieces become layers; where a stage must not begin, the
/// piece belongs to the layer before.
class ModuleBuilder {
public:
  ModuleBuilder(dist::ModuleOp module) : module(module), cuts(module, 2) {}

  planner::Module build(std::vector<std::vector<std::string>> &names) {
    result.name = module.getSymName().str();
    auto precision = module->getAttrOfType<StringAttr>(dist::kPrecisionAttr);
    result.precision = precision ? precision.str() : "f32";
    std::vector<stages::StageCuts::Piece> pieces = cuts.getPieces();
    for (size_t i = 0, end; i < pieces.size(); i = end) {
      end = i + 1;
      while (end < pieces.size() && !pieces[end].mayBegin)
        ++end;
      addLayer(llvm::ArrayRef(pieces).slice(i, end - i),
               end < pieces.size() ? pieces[end].bytes : 0);
      names.emplace_back();
      for (size_t p = i; p < end; ++p)
        names.back().push_back(pieces[p].name);
    }
    if (pieces.empty()) { // hands on parameters, or less: no work, but a place
      names.emplace_back();
      result.layers = {0};
      result.kinds.emplace_back();
      result.kinds[0].name = "empty";
    }
    // Where layers differ in heads, those of some are cut and others' are not.
    int64_t divisor = heads && heads == mostHeads ? heads : widths;
    result.maxTP = 1;
    while (result.maxTP < kMostTP && divisor > 0 &&
           divisor % (2 * result.maxTP) == 0)
      result.maxTP *= 2;
    for (auto &[parameter, tie] : readers)
      if (tie.layers.size() > 1)
        result.ties.push_back(tie);
    addState(module, result);
    return std::move(result);
  }

private:
  void addLayer(llvm::ArrayRef<stages::StageCuts::Piece> pieces, double output);

  dist::ModuleOp module;
  stages::StageCuts cuts;
  planner::Module result;
  llvm::MapVector<Attribute, planner::Tie> readers; ///< of parameters
  int64_t heads = 0, mostHeads = 0, widths = 0;
};

void ModuleBuilder::addLayer(llvm::ArrayRef<stages::StageCuts::Piece> pieces,
                             double output) {
  LayerBuilder builder(module, cuts.getCosts());
  for (size_t i = pieces.front().begin; i < pieces.back().end; ++i)
    builder.add(cuts.getPlaced()[i]);
  LayerKind kind = builder.finish(pieces.front().bytes, output);
  for (auto [parameter, count] : builder.getParameters()) {
    planner::Tie &tie = readers[parameter];
    tie.layers.push_back(int(result.layers.size()));
    tie.parameters = count;
  }
  heads = std::gcd(heads, builder.getHeads());
  mostHeads = std::max(mostHeads, builder.getHeads());
  widths = std::gcd(widths, builder.getWidths());
  // "h.3" is one of the kind "h".
  llvm::StringRef first = pieces.front().name;
  kind.name = pieces.size() == 1 && first.contains('.')
                  ? first.rsplit('.').first.str()
                  : first.str();
  auto alike = [&](const LayerKind &other) {
    return other.name == kind.name && other.parameters == kind.parameters &&
           other.forward.size() == kind.forward.size() &&
           other.output.item == kind.output.item;
  };
  auto known = llvm::find_if(result.kinds, alike);
  // The last layer of a stack hands on less: a kind of its own, by number.
  if (known == result.kinds.end() &&
      llvm::any_of(result.kinds, [&](const LayerKind &other) {
        return other.name == kind.name;
      }))
    kind.name = first.str();
  result.layers.push_back(int(known - result.kinds.begin()));
  if (known == result.kinds.end())
    result.kinds.push_back(std::move(kind));
}

/// Items one by one: of the module's own kind one, of others as many as it may
/// hold.
void setOneItem(dist::ModuleOp module) {
  auto program = module->getParentOfType<mlir::ModuleOp>();
  StringRef own = module.getItem().value_or("");
  for (auto dim : module.getOps<nn::DimOp>())
    if (dim.getItem())
      dim.setMax(*dim.getItem() == own || own != dist::kSample
                     ? 1
                     : dist::getItemMax(program, *dim.getItem()).value_or(1));
}

llvm::Error fail(dist::ModuleOp module, const Twine &what) {
  return llvm::createStringError("module '" + module.getSymName() +
                                 "': " + what);
}

class ProgramBuilder {
public:
  explicit ProgramBuilder(mlir::ModuleOp program) : program(program) {}

  llvm::Expected<PlannedProgram> build() {
    cutBatch();
    for (auto item : program.getOps<dist::ItemOp>())
      result.kinds.emplace_back(item.getName().str(), item.getMax());
    llvm::sort(result.kinds);
    result.model.items.clear();
    for (auto &[name, most] : result.kinds)
      result.model.items.push_back(name);
    for (auto module : program.getOps<dist::ModuleOp>())
      if (llvm::Error error = add(module))
        return std::move(error);
    for (auto edge : program.getOps<dist::EdgeOp>())
      addEdge(edge);
    planner::spreadGradients(result.model);
    if (llvm::Error error = result.model.check())
      return std::move(error);
    return std::move(result);
  }

private:
  void cutBatch();
  llvm::Error add(dist::ModuleOp module);
  void addEdge(dist::EdgeOp edge);

  mlir::ModuleOp program;
  PlannedProgram result;
  llvm::StringMap<int> numbers;
  int paceRank = -1;
};

/// What the recipe leaves open may be every size that divides the batch.
void ProgramBuilder::cutBatch() {
  auto batch = dist::getOnly<dist::BatchOp>(program);
  result.global = batch ? batch.getGlobal() : 1;
  if (batch && batch.getOpenMicro())
    for (int64_t number : planner::divisors(result.global))
      result.microbatches[number] = result.global / number;
  else
    result.microbatches[dist::getNumMicrobatches(program)] =
        batch ? batch.getMicro() : 1;
}

llvm::Error ProgramBuilder::add(dist::ModuleOp module) {
  if (module.getWholeBatch()) {
    result.needsBatchSync = true;
    return llvm::Error::success();
  }
  func::FuncOp forward = module.getForward();
  if (!forward || !forward.getBody().hasOneBlock())
    return fail(module, "there is no function @forward to plan");
  setOneItem(module);
  std::vector<std::vector<std::string>> names;
  planner::Module entry = ModuleBuilder(module).build(names);
  auto item = module.getItem();
  int64_t most = item ? dist::getItemMax(program, *item).value_or(1) : 0;
  if (item && *item != dist::kSample) {
    auto kind = llvm::find_if(
        result.kinds, [&](auto &known) { return known.first == *item; });
    entry.item = planner::ItemKind(1 + (kind - result.kinds.begin()));
  }
  result.items.push_back(most);
  // The backbone, else what works on samples, else the first: as CheckPlan.
  bool samples = item.value_or("") == dist::kSample;
  int rank = samples ? (module.getRole() == dist::Role::backbone ? 2 : 1) : 0;
  if (rank > paceRank) {
    paceRank = rank;
    result.model.pace = int(result.model.modules.size());
  }
  numbers[module.getSymName()] = int(result.model.modules.size());
  result.model.modules.push_back(std::move(entry));
  result.pieces.push_back(std::move(names));
  return llvm::Error::success();
}

void ProgramBuilder::addEdge(dist::EdgeOp edge) {
  auto from = numbers.find(edge.getSource()),
       to = numbers.find(edge.getTarget());
  if (from == numbers.end())
    return;
  auto source = program.lookupSymbol<dist::ModuleOp>(edge.getSource()),
       target = program.lookupSymbol<dist::ModuleOp>(edge.getTarget());
  stages::NominalCosts costs(source);
  func::FuncOp forward = source.getForward();
  double bytes = 0, elementBytes = kFloatBytes;
  if (auto i = dist::ModuleOp::findResult(forward, edge.getOutput())) {
    Type type = forward.getResultTypes()[*i];
    bytes = costs.bytesOf(type);
    elementBytes = double(nn::getElementBytes(getElementTypeOrSelf(type)));
  }
  if (to == numbers.end()) { // the whole batch's
    planner::Contrast &contrast = result.model.contrast;
    if (!llvm::is_contained(contrast.towers, from->second))
      contrast.towers.push_back(from->second);
    contrast.width = std::max({1.0, contrast.width, bytes / elementBytes});
    return;
  }
  result.model.edges.push_back({from->second, to->second, perItem(bytes)});
  result.edges.push_back((edge.getTarget() + "." + edge.getInput()).str());
  // What does not count items on its first axis cannot be cut over replicas.
  func::FuncOp into = target.getForward();
  auto argument = dist::ModuleOp::findArgument(into, edge.getInput());
  bool counts = false;
  if (argument)
    if (auto type =
            dyn_cast<RankedTensorType>(into.getArgumentTypes()[*argument]);
        type && type.getRank() > 0)
      if (auto dim = nn::getShape(type)[0].asAffine();
          dim && !dim->symbol.empty() && dim->offset == 0) {
        auto symbol = target.lookupSymbol<nn::DimOp>(dim->symbol);
        counts = symbol && symbol.getItem();
      }
  if (!counts)
    result.items[from->second] = result.items[to->second] = 0;
}

} // namespace

llvm::Expected<PlannedProgram> describeProgram(mlir::ModuleOp program) {
  return ProgramBuilder(program).build();
}

} // namespace dt::plan
