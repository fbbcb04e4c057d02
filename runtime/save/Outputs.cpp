//===- Outputs.cpp - dumps of the first step ------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/save/Outputs.h"
#include "runtime/base/Clock.h"
#include "runtime/base/Files.h"
#include "runtime/base/Log.h"
#include "runtime/comm/Agreement.h"
#include "runtime/device/Device.h"
#include "runtime/save/OutputRows.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <unistd.h>

namespace dt::rt {

namespace {

/// The axis whose extent counts items; -1 if there is none. Throws where rows
/// of several parts have no place in the whole.
int itemAxis(const TensorInfo &tensor, const ModuleInfo &module) {
  int found = -1;
  for (int32_t i = 0; i < tensor.rank; ++i) {
    const Extent &extent = tensor.shape[i];
    if (extent.symbol < 0 || !module.symbols[size_t(extent.symbol)].item)
      continue;
    std::string problem;
    if (found >= 0)
      problem = "two of its axes count items";
    else if (extent.offset != 0)
      problem = "axis " + std::to_string(i) + " has the size " +
                std::to_string(extent.scale) + "*" +
                module.symbols[size_t(extent.symbol)].name +
                (extent.offset < 0 ? " - " : " + ") +
                std::to_string(std::abs(extent.offset));
    if (!problem.empty())
      throw CommonError(std::string("--save-outputs: output '") + tensor.name +
                        "' of module '" + module.origin +
                        "' cannot be joined from several parts of the batch: " +
                        problem + "; compile it with one microbatch and dp=1");
    found = i;
  }
  return found;
}

/// Values of a module's symbols for the global batch; the module runs here.
std::vector<int64_t> totalDims(const ModuleInfo &module, size_t index,
                               const Batch &batch) {
  std::vector<int64_t> total(module.symbols.size, 0);
  for (size_t s = 0; s < total.size(); ++s) {
    if (!module.symbols[s].item) {
      total[s] = batch.modules[index][0].dims[s];
      continue;
    }
    for (auto &microbatch : batch.assignment.modules[index])
      for (size_t r = 0; r < (module.wholeBatch ? 1 : microbatch.size()); ++r)
        total[s] += ItemRows{&microbatch[r].symbols[s],
                             batch.assignment.measureOf(index, s)}
                        .total();
  }
  return total;
}

std::vector<int64_t> readNumbers(const TensorView &view) {
  std::vector<int64_t> list(view.size / sizeof(int64_t));
  if (!list.empty())
    std::memcpy(list.data(), view.data, list.size() * sizeof(int64_t));
  return list;
}

/// How the rows of a part that a rank has lie in the part's.
ParameterLayout layoutOf(const std::vector<int64_t> &whole,
                         const std::vector<int64_t> &padded,
                         const std::vector<int64_t> &cuts) {
  std::vector<ParameterLayout::Cut> list;
  for (size_t i = 0; i + 4 <= cuts.size(); i += 4)
    list.push_back({cuts[i], cuts[i + 1], cuts[i + 2], cuts[i + 3]});
  return {whole, padded, std::move(list), "--save-outputs"};
}

} // namespace

RankFile::~RankFile() {
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
}

std::vector<std::string> rankFiles(const std::string &path, int ranks) {
  std::vector<std::string> list;
  for (int r = 0; r < ranks; ++r)
    list.push_back(path + ".rank-" + std::to_string(r));
  return list;
}

void onFirstRank(Comm &comm, const std::string &failure,
                 const std::function<void()> &body) {
  comm.agree(failure);
  std::string error;
  if (comm.rank() == 0)
    error = failureOf(body);
  comm.agree(error);
}

void expectShared(Comm &comm, const std::string &flag,
                  const std::string &folder) {
  std::vector<std::string> machines = comm.allGatherText(machineName());
  if (std::count(machines.begin(), machines.end(), machines[0]) == comm.size())
    return;
  std::string first = comm.allGatherText(hostName())[0];
  // A new name: a network file system may remember of another that it was not
  // there.
  std::string mark = comm.allGatherText(
      folder + "/.shared-" + std::to_string(::getpid()) + "-" +
      std::to_string(int64_t(now() * 1e6)) + ".tmp")[0];
  Descriptor file;
  onFirstRank(comm, {},
              [&] { file = openToWrite(mark, O_WRONLY | O_CREAT | O_EXCL); });
  bool seen = ::access(mark.c_str(), F_OK) == 0;
  std::string failure =
      seen ? ""
           : flag + " " + folder + ": rank " + std::to_string(comm.rank()) +
                 " on " + hostName() + " does not see what rank 0 on " + first +
                 " makes there; all machines must share this folder";
  failure = comm.firstText(failure);
  if (comm.rank() == 0)
    ::unlink(mark.c_str());
  if (!failure.empty())
    throw CommonError(failure);
}

//===----------------------------------------------------------------------===//
// Outputs
//===----------------------------------------------------------------------===//

OutputCollector::OutputCollector(const Trainer &trainer, const Batch &batch)
    : trainer(trainer) {
  const ProgramInfo &program = trainer.program();
  std::set<std::string> names;
  for (size_t m = 0; m < program.modules.size; ++m) {
    const ModuleInfo &module = program.modules[m];
    std::vector<int64_t> total;
    if (trainer.placement().at(m).runs())
      total = totalDims(module, m, batch);
    size_t parts = batch.assignment.modules[m].size() *
                   (module.wholeBatch ? 1 : size_t(partsOf(module)));
    for (size_t o = 0; o < module.outputs.size; ++o) {
      const BufferInfo &info = module.outputs[o];
      std::string name = std::string(module.origin) + "." + info.tensor.name;
      bool joins = parts > 1 || hasPadding(info.tensor, module);
      int axis = joins && !info.unjoined ? itemAxis(info.tensor, module) : -1;
      if (info.unjoined || (axis < 0 && parts != 1)) {
        leaveOut(m, info, name);
        continue;
      }
      if (!names.insert(name).second)
        continue;
      Output output{name, int(m), int(o), info.tensor.type, axis, {}, {}};
      if (!total.empty() || module.symbols.empty())
        output.shape = wholeShape(info, total.data());
      outputs.push_back(std::move(output));
    }
  }
}

void OutputCollector::leaveOut(size_t module, const BufferInfo &output,
                               const std::string &name) const {
  auto isNumerator = [&](const LossInfo &loss) {
    return size_t(loss.module) == module &&
           loss.numerator.offset == output.offset;
  };
  const Span<LossInfo> &losses = trainer.program().losses;
  // A loss's numerator is in the dump as the loss.
  if (trainer.comm().rank() == 0 &&
      std::none_of(losses.begin(), losses.end(), isNumerator))
    printError("warning: --save-outputs leaves out '%s', as the batch is in "
               "several parts: %s\n",
               name.c_str(),
               output.unjoined ? "rows of parts put together are not those of "
                                 "the whole"
                               : "none of its axes counts items");
}

const BufferInfo &OutputCollector::infoOf(const Output &output) const {
  return trainer.program()
      .modules[size_t(output.module)]
      .outputs[size_t(output.index)];
}

void OutputCollector::add(const TaskRow &row, const Part &part) {
  if (row.kind != TaskKind::Forward)
    return;
  for (Output &output : outputs) {
    const BufferInfo &info = infoOf(output);
    if (output.module != row.index ||
        !trainer.placement().counts(row.index, info.cuts))
      continue;
    Block block;
    block.bytes = trainer.output(output.module, output.index, part, row);
    block.first = {0};
    block.rows = {1};
    if (output.axis >= 0)
      findRows(part, size_t(info.tensor.shape[output.axis].symbol), block.first,
               block.rows);
    block.whole = wholeShape(info, part.dims.data());
    block.padded = wholeShape(info, part.dims.data(), true);
    for (const CutInfo &cut : info.cuts) {
      int32_t tp = trainer.placement().at(row.index).tp;
      block.cuts.insert(block.cuts.end(),
                        {cut.dim, cut.chunk, cut.over, placeOn(cut, tp)});
    }
    output.blocks.push_back(std::move(block));
  }
}

void OutputCollector::writeBlocks(const std::string &path) const {
  SafetensorsWriter writer;
  auto numbers = [&](const std::string &key, const std::vector<int64_t> &list) {
    writer.add(key, DType::I64, {int64_t(list.size())}, list.data());
  };
  for (size_t o = 0; o < outputs.size(); ++o) {
    if (!outputs[o].blocks.empty())
      numbers(std::to_string(o) + ".shape", outputs[o].shape);
    for (size_t b = 0; b < outputs[o].blocks.size(); ++b) {
      const Block &block = outputs[o].blocks[b];
      std::string key = std::to_string(o) + "." + std::to_string(b);
      numbers(key + ".first", block.first);
      numbers(key + ".rows", block.rows);
      numbers(key + ".whole", block.whole);
      numbers(key + ".padded", block.padded);
      numbers(key + ".cuts", block.cuts);
      writer.add(key + ".bytes", DType::U8, {int64_t(block.bytes.size())},
                 block.bytes.data());
    }
  }
  writer.write(path);
}

/// Output `number` of the global batch from all ranks' blocks; nothing if no
/// rank has any.
std::optional<std::vector<std::byte>> OutputCollector::whole(
    const Output &output, size_t number, std::vector<int64_t> &shape,
    const std::vector<std::unique_ptr<SafetensorsFile>> &files) const {
  const size_t size = sizeOf(output.type);
  OutputRows rows{1, size, {}};
  bool found = false;
  for (auto &file : files) {
    std::string prefix = std::to_string(number) + ".";
    const TensorView *extents = file->find(prefix + "shape");
    if (!extents)
      continue;
    if (!found) {
      found = true;
      shape = readNumbers(*extents);
      rows.bytes.resize(size_t(elementCount(shape)) * size);
      if (output.axis < 0) // the only part
        rows.unit = rows.bytes.size();
      std::vector<Extent> whole = wholeExtents(infoOf(output), false);
      for (int i = 0; output.axis >= 0 && i < int(shape.size()); ++i)
        if (i < output.axis)
          rows.outer *= size_t(shape[size_t(i)]);
        else
          rows.unit *= size_t(i > output.axis ? shape[size_t(i)]
                                              : whole[size_t(i)].scale);
    }
    for (size_t b = 0;; ++b) {
      std::string key = prefix + std::to_string(b);
      const TensorView *bytes = file->find(key + ".bytes");
      if (!bytes)
        break;
      auto numbers = [&](const char *what) {
        const TensorView *view = file->find(key + what);
        return view ? readNumbers(*view) : std::vector<int64_t>();
      };
      if (bytes->size == 0) // a part without items
        continue;
      std::vector<int64_t> first = numbers(".first"), own = numbers(".rows");
      ParameterLayout layout =
          layoutOf(numbers(".whole"), numbers(".padded"), numbers(".cuts"));
      for (const ParameterLayout::Run &run : layout.runs())
        rows.place(first, own, size_t(run.whole) * size,
                   bytes->data + size_t(run.part) * size,
                   size_t(run.count) * size);
    }
  }
  return found ? std::optional(std::move(rows.bytes)) : std::nullopt;
}

void OutputCollector::join(const std::vector<std::string> &paths,
                           const std::string &path,
                           const StepResult &result) const {
  const ProgramInfo &program = trainer.program();
  SafetensorsWriter writer;
  std::vector<std::unique_ptr<SafetensorsFile>> files;
  for (const std::string &file : paths)
    files.push_back(std::make_unique<SafetensorsFile>(file));
  for (size_t o = 0; o < outputs.size(); ++o) {
    std::vector<int64_t> shape;
    if (auto bytes = whole(outputs[o], o, shape, files))
      writer.add(outputs[o].name, outputs[o].type, shape, std::move(*bytes));
  }
  std::vector<float> losses = {float(result.loss)};
  losses.insert(losses.end(), result.terms.begin(), result.terms.end());
  writer.add("loss", DType::F32, {}, &losses[0]);
  for (size_t l = 0; l < program.losses.size; ++l)
    writer.add(std::string("loss.") + program.losses[l].name, DType::F32, {},
               &losses[l + 1]);
  writer.write(path);
}

void OutputCollector::write(const std::string &path,
                            const StepResult &result) const {
  Comm &comm = trainer.comm();
  std::vector<std::string> paths = rankFiles(path, comm.size());
  RankFile own(paths[size_t(comm.rank())]);
  std::string failure = failureOf([&] { writeBlocks(own.path); });
  onFirstRank(comm, failure, [&] {
    Replacement replacement(path);
    join(paths, replacement.temporary(), result);
    replacement.commit();
  });
}

//===----------------------------------------------------------------------===//
// Parameters and their gradients
//===----------------------------------------------------------------------===//

namespace {
enum class Wanted { Values, Averages, Gradients };
}

/// This rank's pieces of all parameters (gradients: of those that have one).
static void writePieces(const Trainer &trainer, Wanted wanted,
                        const std::string &path) {
  bool gradients = wanted == Wanted::Gradients;
  const ProgramInfo &program = trainer.program();
  const ParameterValues &values = trainer.values();
  PieceWriter writer;
  for (size_t i = 0; i < program.parameters.size; ++i) {
    const ParameterInfo &p = program.parameters[i];
    if (trainer.ownership().owned(i).empty() ||
        (gradients && !trainer.ownership().updated(i)))
      continue;
    ParameterLayout layout = values.layout(i);
    for (const OwnedPiece &piece : trainer.ownership().owned(i)) {
      auto begin = size_t(piece.begin);
      writer.add(p.tensor.name, gradients ? p.gradientType : values.type(i),
                 layout, piece.begin, piece.end,
                 gradients ? trainer.regions().gradients(p, begin).address()
                 : wanted == Wanted::Averages ? values.averageAt(i, piece)
                                              : values.at(i, piece));
    }
  }
  writer.write(path);
}

/// In float32, whatever it is stored in.
static std::vector<std::byte> wholeInFloats(const PieceReader &reader,
                                            const std::string &name,
                                            const std::vector<int64_t> &shape) {
  ParameterLayout layout(shape, shape, {}, name);
  return reader.floats(name, DType::F32, layout, 0, layout.partElements());
}

void writeGradients(const Trainer &trainer, const std::string &path) {
  Comm &comm = trainer.comm();
  std::vector<std::string> paths = rankFiles(path, comm.size());
  RankFile own(paths[size_t(comm.rank())]);
  std::string failure =
      failureOf([&] { writePieces(trainer, Wanted::Gradients, own.path); });
  onFirstRank(comm, failure, [&] {
    PieceReader reader(paths);
    SafetensorsWriter writer;
    for (const std::string &name : reader.names()) {
      std::vector<int64_t> shape = reader.shapeOf(name);
      writer.add(name, DType::F32, shape, wholeInFloats(reader, name, shape));
    }
    Replacement replacement(path);
    writer.write(replacement.temporary());
    replacement.commit();
  });
}

WholeParameters::WholeParameters(const Trainer &trainer,
                                 const std::string &path, bool averages)
    : trainer(trainer), averages(averages) {
  Comm &comm = trainer.comm();
  if (comm.size() == 1)
    return;
  std::vector<std::string> paths = rankFiles(path, comm.size());
  own = std::make_unique<RankFile>(paths[size_t(comm.rank())]);
  std::string failure = failureOf([&] {
    writePieces(trainer, averages ? Wanted::Averages : Wanted::Values,
                own->path);
  });
  onFirstRank(comm, failure,
              [&] { reader = std::make_unique<PieceReader>(paths); });
}

WholeParameters::~WholeParameters() = default;

std::vector<std::byte>
WholeParameters::get(const ParameterInfo &parameter) const {
  const ParameterValues &values = trainer.values();
  size_t row = size_t(&parameter - trainer.program().parameters.begin());
  DType type = values.type(row);
  if (reader)
    return reader->whole(parameter.tensor.name, type, wholeShape(parameter));
  ParameterLayout layout = values.layout(row);
  size_t size = sizeOf(type);
  std::vector<std::byte> part(size_t(layout.partElements()) * size),
      whole(size_t(layout.wholeElements()) * size);
  for (const OwnedPiece &piece : trainer.ownership().owned(row))
    device::copyToHost(part.data() + size_t(piece.begin) * size,
                       averages ? values.averageAt(row, piece)
                                : values.at(row, piece),
                       size_t(piece.end - piece.begin) * size);
  for (const ParameterLayout::Run &run : layout.runs())
    std::memcpy(whole.data() + size_t(run.whole) * size,
                part.data() + size_t(run.part) * size,
                size_t(run.count) * size);
  return whole;
}

} // namespace dt::rt
