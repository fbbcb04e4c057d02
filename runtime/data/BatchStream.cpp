//===- BatchStream.cpp - batches that come through a pipe -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Whoever makes the batches writes a safetensors file a step, one behind
// another. A file may say of which step (0-based) it is, in its metadata:
// {"step": "1200"}. Without that, the n-th file is the batch of step n, so that
// a run that is resumed reads what its steps have had before once more.
//
// The first rank reads and checks a file, tells all others what decides the
// parts (StepFacts.h), and gives each replica the rows of its own (Parcels.h).
//
//===----------------------------------------------------------------------===//

#include "runtime/data/BatchFiles.h"
#include "runtime/data/BatchPipe.h"
#include "runtime/data/FileBatch.h"

#include <cerrno>
#include <cstdlib>

namespace dt::rt {

namespace {

class BatchStream final : public BatchSource {
public:
  BatchStream(const ProgramInfo &program, const nlohmann::json &sections,
              const std::string &path, const RankView &view, Reorder reorder,
              std::shared_ptr<BatchPeers> peers)
      : program(program), sections(sections), path(path), view(view),
        reorder(reorder), peers(std::move(peers)) {
    if (view.rank == 0)
      pipe = std::make_unique<BatchPipe>(path);
  }

  const Batch &next(int64_t step) override {
    if (step == at)
      return batch;
    at = -1;
    StepFacts facts;
    std::vector<Parcel> filled;
    shareResult(pipe ? read(step, facts, filled) : std::string());
    std::string text = pipe ? facts.text() : std::string();
    peers->share(text);
    if (!pipe) {
      facts = StepFacts::read(text);
      batch = assignParts(program, facts, reorder);
      filled = parcelsOf(program, facts, batch);
    }
    parcels = std::move(filled);
    peers->deal(parcels);
    placeParts(program, facts, view, parcels, batch);
    at = step;
    return batch;
  }
  std::string summary() const override {
    return "batches from " +
           (path == "-" ? std::string("standard input") : "the pipe " + path);
  }

private:
  /// The first rank's: what is wrong, behind a letter that says how.
  std::string read(int64_t step, StepFacts &facts,
                   std::vector<Parcel> &filled) {
    try {
      std::string content;
      readBatchOf(step, content);
      FileBatch file(program, sections,
                     std::make_unique<SafetensorsFile>(path + ", step " +
                                                           std::to_string(step),
                                                       std::move(content)),
                     /*view=*/nullptr, /*fingerprint=*/0);
      facts = file.facts();
      batch = assignParts(program, facts, reorder);
      filled = parcelsOf(program, facts, batch);
      for (Parcel &parcel : filled)
        parcel.bytes = file.fill(batch, parcel);
      return "";
    } catch (const BatchesEnded &e) {
      return std::string("E") + e.what();
    } catch (const std::bad_alloc &) {
      return "Xout of memory";
    } catch (const std::exception &e) {
      return std::string("X") + e.what();
    }
  }
  void shareResult(std::string result) {
    peers->share(result);
    if (result.empty())
      return;
    if (result[0] == 'E')
      throw BatchesEnded(result.substr(1));
    throw Error(result.substr(1));
  }

  void readBatchOf(int64_t step, std::string &content) {
    for (int64_t found = -1; found != step;) {
      found = readFile(step, content);
      if (found > step)
        throw Error(path + ": the batch of step " + std::to_string(found) +
                    " has come where that of step " + std::to_string(step) +
                    " is to come");
    }
  }

  /// The next file; returns its step. Throws BatchesEnded.
  int64_t readFile(int64_t step, std::string &content) {
    std::optional<SafetensorsOutline> outline = pipe->next(content);
    if (!outline)
      throw BatchesEnded(path + ": ended after " + std::to_string(count) +
                         " batches, before the one of step " +
                         std::to_string(step));
    int64_t number = count++;
    auto said = outline->notes.find("step");
    return said == outline->notes.end() ? number : stepIn(said->second);
  }

  int64_t stepIn(const std::string &text) const {
    char *end;
    errno = 0;
    long long step = std::strtoll(text.c_str(), &end, 10);
    if (text.empty() || *end || errno || step < 0)
      throw Error(path + ": metadata: step is '" + text +
                  "', expected a number from 0 on");
    return step;
  }

  const ProgramInfo &program;
  const nlohmann::json &sections;
  std::string path;
  RankView view;
  Reorder reorder;
  std::shared_ptr<BatchPeers> peers;
  std::unique_ptr<BatchPipe> pipe; ///< the first rank's
  Batch batch;
  std::vector<Parcel> parcels;
  int64_t at = -1;   ///< the step of `batch`
  int64_t count = 0; ///< files that have come
};

} // namespace

std::unique_ptr<BatchSource>
openBatchStream(const ProgramInfo &program, const nlohmann::json &sections,
                const std::string &path, const RankView &view, Reorder reorder,
                std::shared_ptr<BatchPeers> peers) {
  return std::make_unique<BatchStream>(program, sections, path, view, reorder,
                                       std::move(peers));
}

} // namespace dt::rt
