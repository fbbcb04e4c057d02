//===- BatchFiles.cpp - a batch file a step -------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The next file is read and cut by a thread while the step of this one runs.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/BatchFiles.h"
#include "runtime/base/Files.h"
#include "runtime/base/Thread.h"
#include "runtime/data/Braces.h"

#include <algorithm>
#include <exception>
#include <optional>
#include <sys/stat.h>
#include <thread>

namespace dt::rt {

namespace {

class BatchFiles final : public BatchSource {
public:
  BatchFiles(std::vector<std::string> paths, CutBatch cut, int64_t samples)
      : paths(std::move(paths)), cut(std::move(cut)), samples(samples) {
    for (const std::string &path : this->paths)
      addToHash(path);
  }
  ~BatchFiles() override { await(); }

  const Batch &next(int64_t step) override {
    size_t index = size_t(step) % paths.size();
    await();
    if (ahead.index != index)
      load(ahead, index);
    if (ahead.wrong) {
      ahead.index.reset();
      std::rethrow_exception(ahead.wrong);
    }
    std::swap(current, ahead.made);
    begin((index + 1) % paths.size());
    return current->next(step);
  }
  int64_t batches() const override { return int64_t(paths.size()); }
  uint64_t hash() const override { return fingerprint; }
  std::string summary() const override {
    return std::to_string(paths.size()) + " batches of " +
           std::to_string(samples) + " samples, from " + paths.front() +
           " to " + paths.back();
  }

private:
  struct Loaded {
    std::optional<size_t> index; ///< of its file
    std::unique_ptr<BatchSource> made;
    std::exception_ptr wrong;
  };

  /// Not the contents, which would be read twice.
  void addToHash(const std::string &path) {
    struct stat info;
    if (::stat(path.c_str(), &info) != 0)
      failedCall(path, "open");
    std::string name = path.substr(path.rfind('/') + 1);
    uint64_t size = uint64_t(info.st_size);
    fingerprint = hashBytes(name.data(), name.size() + 1, fingerprint);
    fingerprint = hashBytes(&size, sizeof size, fingerprint);
  }

  void load(Loaded &to, size_t index) {
    to = {index, nullptr, nullptr};
    try {
      to.made = cut(std::make_unique<SafetensorsFile>(paths[index]));
    } catch (...) {
      to.wrong = std::current_exception();
    }
  }

  /// Where the system has no thread, next() does it.
  void begin(size_t index) {
    ahead = {};
    try {
      reader =
          startThread("reading batches", [this, index] { load(ahead, index); });
    } catch (const SystemError &) {
    }
  }
  void await() {
    if (reader.joinable())
      reader.join();
  }

  std::vector<std::string> paths;
  CutBatch cut;
  int64_t samples;
  uint64_t fingerprint = hashBytes(nullptr, 0);
  std::unique_ptr<BatchSource> current;
  Loaded ahead; ///< the thread's, until it has ended
  std::thread reader;
};

/// Files that a pattern names, sorted; what is no batch among those that a
/// wildcard matches is left out. Throws Error if there is none.
std::vector<std::string> expand(const std::string &pattern) {
  std::vector<std::string> paths;
  for (const std::string &name : data::expandBraces(pattern))
    if (name.find_first_of("*?[") == std::string::npos)
      paths.push_back(name);
    else
      for (const std::string &path : data::matchPaths(name))
        if (isSafetensors(path))
          paths.push_back(path);
  std::sort(paths.begin(), paths.end());
  if (paths.empty())
    throw Error(pattern + ": no batch file (safetensors) has such a name");
  return paths;
}

} // namespace

bool isPipe(const std::string &path) {
  struct stat info;
  return path == "-" ||
         (::stat(path.c_str(), &info) == 0 && S_ISFIFO(info.st_mode));
}

bool isBatch(const std::string &path) {
  if (isPipe(path))
    return true;
  try {
    return isSafetensors(expand(path).front());
  } catch (const Error &) {
    return false;
  }
}

std::unique_ptr<BatchSource> openBatches(const ProgramInfo &program,
                                         const nlohmann::json &sections,
                                         const std::vector<std::string> &paths,
                                         const RankView &view, Reorder reorder,
                                         std::shared_ptr<BatchPeers> peers) {
  CutBatch cut = [&program, &sections, view,
                  reorder](std::unique_ptr<SafetensorsFile> file) {
    return cutBatch(program, sections, std::move(file), view, reorder);
  };
  std::vector<std::string> files;
  for (const std::string &path : paths) {
    if (!isPipe(path)) {
      std::vector<std::string> more = expand(path);
      files.insert(files.end(), more.begin(), more.end());
    } else if (paths.size() == 1) {
      return openBatchStream(program, sections, path, view, reorder,
                             std::move(peers));
    } else {
      throw Error("--batch " + path +
                  ": a pipe has the batches of all steps; expected no other "
                  "--batch beside it");
    }
  }
  if (files.size() == 1)
    return openFileBatch(program, sections, files.front(), view, reorder);
  return std::make_unique<BatchFiles>(std::move(files), cut,
                                      program.globalBatch);
}

} // namespace dt::rt
