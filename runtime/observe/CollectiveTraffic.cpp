//===- CollectiveTraffic.cpp - what collectives must move -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/observe/CollectiveTraffic.h"
#include "runtime/comm/Comm.h"
#include "runtime/state/Wholes.h"
#include "runtime/step/Routes.h"
#include "runtime/step/StepScalars.h"
#include "runtime/step/Transfers.h"

#include <algorithm>
#include <set>
#include <tuple>

namespace dt::rt {

namespace {

constexpr size_t kLine = 64; ///< bytes; offsets of parameters are multiples

class Expectation {
public:
  Expectation(const ProgramInfo &program, const Placement &placement,
              const Ownership &ownership, const Batch &batch)
      : program(program), placement(placement), ownership(ownership),
        batch(batch) {}

  std::map<std::string, uint64_t> run() {
    for (const TaskRow &row : program.ranks[size_t(placement.rank())].rows) {
      addFunction(row);
      addGather(row);
    }
    for (const TieGroup &tie : ownership.ties())
      addTie(tie);
    for (size_t m = 0; m < program.modules.size; ++m) {
      if (!placement.at(m).runs())
        continue;
      addPartial(m);
      if (!program.modules[m].wholeBatch)
        addBuckets(m);
    }
    addWholes();
    if (program.ranks.size > 1) {
      // Whether to go on and the manifest's hash; denominators; loss terms,
      // norm, stop.
      size_t losses = program.losses.size;
      bytes["scalars"] +=
          StepScalars::kStartBytes + sizeof(double) * (losses + (losses + 3));
    }
    return std::move(bytes);
  }

private:
  TaskFn functionOf(const TaskRow &row) const {
    switch (row.kind) {
    case TaskKind::Denominator:
      return program.losses[row.index].denominator;
    case TaskKind::Forward:
      return program.modules[row.index].forward;
    case TaskKind::Backward:
      return program.modules[row.index].backward;
    case TaskKind::BackwardInput:
      return program.modules[row.index].backwardInput;
    case TaskKind::BackwardWeight:
      return program.modules[row.index].backwardWeight;
    default:
      return nullptr;
    }
  }

  /// What the row's function gives, by the compiler's table.
  void addFunction(const TaskRow &row) {
    TaskFn function = functionOf(row);
    if (!function)
      return;
    size_t module = row.kind == TaskKind::Denominator
                        ? size_t(program.losses[row.index].module)
                        : row.index;
    const Part &part = batch.part(program, module, row.microbatch, row.piece);
    for (const CollectiveInfo &c : program.collectives) {
      if (c.function != function)
        continue;
      int64_t elements = 0;
      for (const SizeTerm &term : c.elements) {
        int64_t product = term.factor;
        for (int32_t symbol : term.symbols)
          product *= part.dims[size_t(symbol)];
        elements += product / term.per;
      }
      bytes[collectiveLabel(program.modules[module].name, c.kind, c.over,
                            c.stride)] += uint64_t(elements) * sizeOf(c.type);
    }
  }

  /// This rank's chunk of what messages brought one of its parts, once however
  /// many messages that were.
  void addGather(const TaskRow &row) {
    if (row.kind != TaskKind::Receive)
      return;
    const EdgeInfo &edge = program.edges[row.index];
    size_t module = size_t(row.gradient ? edge.from : edge.to);
    const ModuleInfo &info = program.modules[module];
    int64_t task = taskOf(info, row.microbatch);
    if (!gathered.insert({row.index, task, row.piece, row.gradient}).second)
      return;
    int64_t tp = sharersOf(edge, placement, module),
            place = placement.at(module).tp;
    if (tp == 1)
      return;
    EdgeShape shape = edgeShape(program, edge);
    int symbol = row.gradient ? shape.producerSymbol : shape.consumerSymbol;
    ItemRows items = itemsOf(
        batch.assignment, module, task,
        placement.at(module).replica * piecesOf(info) + row.piece, symbol);
    int64_t total = items.total(), at = 0, own = 0;
    for (size_t i = 0; i < items.count(); at += items.of(i++)) {
      bool mine = row.gradient ? total && at * tp / total == place
                               : place * total / tp <= at &&
                                     at < (place + 1) * total / tp;
      own += mine ? items.of(i) : 0;
    }
    const TensorInfo &tensor =
        row.gradient ? edge.consumed.tensor
                     : info.inputs[size_t(edge.toInput)].buffer.tensor;
    const Part &part = batch.part(program, module, row.microbatch, row.piece);
    uint64_t one = sizeOf(tensor.type);
    for (int32_t d = 0; d < tensor.rank; ++d) {
      const Extent &e = tensor.shape[d];
      one *= d == rowAxis(tensor) && symbol >= 0
                 ? uint64_t(e.scale)
                 : uint64_t(extentOf(e, part.dims.data()));
    }
    bytes["gather " + Transfers::label(program, row.index, row.gradient)] +=
        uint64_t(own) * one;
  }

  static size_t endOf(const ParameterInfo &p) {
    return p.gradient + partElements(p) * sizeOf(p.gradientType);
  }
  /// Bytes of a parameter's gradients for what fills a line of its module's
  /// parameters.
  size_t stepOf(const ParameterInfo &parameter) const {
    size_t elements = kLine / sizeof(float);
    for (const ParameterInfo &p : program.parameters)
      if (p.module == parameter.module && p.trainable)
        elements = std::max(elements, kLine / sizeOf(p.tensor.type));
    return elements * sizeOf(parameter.gradientType);
  }
  static size_t roundUp(size_t value, size_t unit) {
    return (value + unit - 1) / unit * unit;
  }
  /// Parameters of a module whose gradients are summed: copies, or all others.
  std::vector<const ParameterInfo *> updatedOf(size_t module,
                                               bool copies) const {
    std::set<size_t> tied;
    for (const TieGroup &tie : ownership.ties())
      tied.insert(tie.rows.begin(), tie.rows.end());
    std::vector<const ParameterInfo *> list;
    for (size_t p = 0; p < program.parameters.size; ++p)
      if (size_t(program.parameters[p].module) == module &&
          ownership.updated(p) && copies == bool(tied.count(p)))
        list.push_back(&program.parameters[p]);
    return list;
  }
  /// Of axes of partial sums (Tables.def).
  static bool cutsTokens(const CutInfo &axis) { return axis.dim == kTokenAxis; }

  /// Partial sums, each with the padding behind it; over tokens' axes of copies
  /// only.
  void addPartial(size_t m) {
    for (bool copies : {false, true})
      for (const ParameterInfo *p : updatedOf(m, copies))
        addPartial(m, *p, copies);
  }
  void addPartial(size_t m, const ParameterInfo &p, bool copy) {
    const ModuleInfo &module = program.modules[m];
    for (const CutInfo &axis : p.partial)
      if (axis.over > 1 && (copy || module.wholeBatch || !cutsTokens(axis)))
        bytes[collectiveLabel(module.name, CollectiveKind::AllReduce, axis.over,
                              axis.stride)] +=
            roundUp(endOf(p), stepOf(p)) - p.gradient;
  }

  /// Those over which a gradient is a partial sum because of tokens.
  static std::set<int64_t> tokenStrides(const ParameterInfo &p, size_t &ranks) {
    std::set<int64_t> strides;
    for (const CutInfo &axis : p.partial)
      if (axis.over > 1 && cutsTokens(axis))
        strides.insert(axis.stride), ranks *= size_t(axis.over);
    return strides;
  }

  /// Sums over replicas and ranks with other tokens: all of the gradients,
  /// whoever gets what; back come, with ZeRO, parameters by lines of every
  /// rank, in runs of one type over the same ranks.
  void addBuckets(size_t m) {
    const ModuleInfo &module = program.modules[m];
    size_t ranks = 1, begin = 0, end = 0; // of the run
    const ParameterInfo *first = nullptr;
    std::set<int64_t> strides;
    uint64_t gradients = 0, parameters = 0;
    auto close = [&] {
      if (ranks == 1 || !first)
        return;
      size_t step = stepOf(*first), size = sizeOf(first->gradientType),
             sent = program.narrowSums ? sizeOf(DType::BF16) : size;
      gradients += (end - begin) / size * sent;
      size_t lines = (end - begin) / (step * ranks) * step;
      if (module.zero > 0)
        parameters += lines / size * sizeOf(first->tensor.type);
    };
    for (const ParameterInfo *p : updatedOf(m, false)) {
      size_t size = sizeOf(p->tensor.type), own = size_t(placement.replicas(m));
      std::set<int64_t> axes = tokenStrides(*p, own);
      if (!first || p->gradient != end || axes != strides ||
          p->tensor.type != first->tensor.type ||
          p->gradientType != first->gradientType ||
          p->offset - first->offset !=
              (p->gradient - begin) / sizeOf(p->gradientType) * size) {
        close();
        first = p, begin = p->gradient, ranks = own, strides = axes;
      }
      end = std::min(roundUp(endOf(*p), stepOf(*p)), module.trainableBytes);
    }
    close();
    if (!gradients)
      return;
    bytes[std::string("gradients ") + module.name] += gradients;
    bytes[std::string("parameters ") + module.name] += parameters;
  }

  /// What an optimizer of matrices adds up.
  void addWholes() {
    for (const SharedSum &sum :
         allSums(planWholes(program, placement, ownership))) {
      const char *module = program.modules[sum.module].name;
      if (sum.overGroup())
        bytes[optimizerLabel(module)] += sum.count * sizeof(float);
      for (auto [over, stride] : sum.axes)
        bytes[collectiveLabel(module, CollectiveKind::AllReduce, over,
                              stride)] += sum.count * sizeof(float);
    }
  }

  /// Every part of a tied tensor that another rank has as well.
  void addTie(const TieGroup &tie) {
    const ParameterInfo &original = program.parameters[tie.rows[0]];
    std::set<int64_t> mine, theirs;
    for (size_t row : tie.rows) {
      size_t m = size_t(program.parameters[row].module);
      for (int32_t d = 0; d < placement.replicas(m); ++d)
        for (int32_t t = 0; t < placement.tp(m); ++t)
          (placement.rankOf(m, d, t) == placement.rank() ? mine : theirs)
              .insert(canonicalPlace(original.cuts, t));
    }
    for (int64_t part : mine)
      if (theirs.count(part))
        bytes["tied gradients"] += partElements(original) * sizeof(float);
  }

  const ProgramInfo &program;
  const Placement &placement;
  const Ownership &ownership;
  const Batch &batch;
  std::set<std::tuple<uint16_t, int64_t, int16_t, bool>> gathered;
  std::map<std::string, uint64_t> bytes;
};

} // namespace

std::map<std::string, uint64_t> expectedCollectives(const ProgramInfo &program,
                                                    const Placement &placement,
                                                    const Ownership &ownership,
                                                    const Batch &batch) {
  return Expectation(program, placement, ownership, batch).run();
}

const char *axisOf(const std::string &label) {
  auto begins = [&](const char *with) { return label.rfind(with, 0) == 0; };
  if (begins("gather "))
    return "edges";
  if (begins("gradients ") || begins("parameters ") || begins("optimizer "))
    return "dp";
  if (label == "tied gradients")
    return "ties";
  if (label == "scalars")
    return "world";
  return label.find(" over ") == std::string::npos ? "control" : "tp";
}

} // namespace dt::rt
