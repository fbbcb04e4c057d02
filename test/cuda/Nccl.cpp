//===- Nccl.cpp - collectives and messages between processes ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A communicator is a folder in shared memory. What a rank gives to a call is a
// file there, with the call's text in front; who needs it waits for the file.
// So nothing is buffered: a send ends when its receiver has taken the file.
// Calls of a communicator come one after another, on whatever streams, and are
// numbered: those with one number must agree on all ranks. They are device
// work: they begin when their stream gets there, and other streams go on while
// they wait for peers.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <nccl.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>

using namespace cuda_double;

struct ncclComm {
  std::string folder;
  int ranks, rank;
  uint64_t collectives = 0;                    ///< begun
  std::map<int, uint64_t> sent = {}, got = {}; ///< messages begun, by peer
  std::vector<std::string> spent = {}; ///< files that a peer may still read
  WorkPtr last = nullptr;
};

namespace {

using Clock = std::chrono::steady_clock;

bool exists(const std::string &file) { return access(file.c_str(), F_OK) == 0; }

/// Under its name once it is whole.
void writeFile(const std::string &file, const std::string &line,
               const void *data, size_t bytes) {
  std::string fresh = file + ".new";
  std::ofstream out(fresh);
  out << line << "\n";
  out.write(static_cast<const char *>(data), std::streamsize(bytes));
  out.close();
  if (!out)
    die("no room in shared memory for ", bytes, " bytes: ", fresh);
  std::rename(fresh.c_str(), file.c_str());
}

/// What stands behind the first line, which goes to `line`.
std::string readFile(const std::string &file, std::string &line) {
  std::ifstream in(file);
  if (!std::getline(in, line))
    die("cannot read ", file);
  std::ostringstream rest;
  rest << in.rdbuf();
  return rest.str();
}

//===--- Elements

template <typename T>
void combineAs(char *sums, const char *with, size_t n, ncclRedOp_t op) {
  auto combined = [op](auto a, auto b) {
    return op == ncclSum   ? a + b
           : op == ncclMax ? std::max(a, b)
                           : std::min(a, b);
  };
  for (size_t i = 0; i < n; ++i) {
    T a, b;
    std::memcpy(&a, sums + i * sizeof a, sizeof a);
    std::memcpy(&b, with + i * sizeof b, sizeof b);
    if constexpr (sizeof(T) == 2) // bf16: every partial sum is rounded
      a = narrow(combined(widen(a), widen(b)));
    else
      a = combined(a, b);
    std::memcpy(sums + i * sizeof a, &a, sizeof a);
  }
}

struct Type {
  ncclDataType_t type;
  const char *name;
  size_t bytes;
  void (*combine)(char *sums, const char *with, size_t n, ncclRedOp_t op);
};
constexpr Type kTypes[] = {{ncclChar, "bytes", 1, nullptr},
                           {ncclInt64, "int64", 8, combineAs<int64_t>},
                           {ncclFloat32, "float32", 4, combineAs<float>},
                           {ncclFloat64, "float64", 8, combineAs<double>},
                           {ncclBfloat16, "bfloat16", 2, combineAs<uint16_t>}};

const Type &typeOf(ncclDataType_t type) {
  auto *known = std::ranges::find(kTypes, type, &Type::type);
  if (known == std::end(kTypes))
    die("a type that NCCL's double does not know: ", type);
  return *known;
}

//===--- Calls

/// What all ranks gave, in their order, or a message brought.
using Blocks = std::vector<std::string>;

/// One call, as device work.
struct Action {
  ncclComm *comm;
  cudaStream_t stream;
  std::string line;       ///< the same on all ranks
  std::string whole;      ///< with its ranks
  std::string gives = ""; ///< file with what it gives; empty: nothing
  const void *in = nullptr;
  size_t bytes = 0;
  bool untilTaken = false; ///< it ends when the file is gone
  std::vector<std::pair<std::string, int>> wants = {}; ///< files, of ranks
  std::function<void(const Blocks &)> end = nullptr;   ///< with what it wants
  Clock::time_point since = {};                        ///< its begin

  /// True once it has ended.
  bool advance() {
    if (since == Clock::time_point()) {
      since = Clock::now();
      if (!gives.empty())
        writeFile(gives, line, in, bytes);
    }
    if (untilTaken && !exists(gives))
      return true;
    auto isThere = [](const auto &want) { return exists(want.first); };
    if (untilTaken || !std::ranges::all_of(wants, isThere)) {
      static double most = std::atof(setting("DT_CUDA_DOUBLE_PATIENCE", "300"));
      if (std::chrono::duration<double>(Clock::now() - since).count() > most)
        die("rank ", comm->rank, " has waited for ", most, " s in ", whole);
      return false;
    }
    Blocks blocks;
    for (const auto &[file, from] : wants) {
      std::string its;
      blocks.push_back(readFile(file, its));
      if (its != line)
        die("NCCL: ", whole, " meets ", its, " of rank ", from);
    }
    end(blocks);
    return true;
  }
};

int depth = 0;                            ///< of groups
auto &pending = *new std::vector<Action>; ///< calls of the group

/// All calls of a group as one piece of work, behind the communicator's last.
void launch() {
  auto calls = std::make_shared<std::vector<Action>>();
  calls->swap(pending);
  if (calls->empty())
    return;
  ncclComm *comm = calls->front().comm;
  std::vector<std::string> files; // of collectives
  for (const Action &call : *calls)
    if (!call.gives.empty() && !call.untilTaken)
      files.push_back(call.gives);
  auto attempt = [=] {
    std::erase_if(*calls, [](Action &call) { return call.advance(); });
    if (!calls->empty())
      return false;
    // All ranks have begun these collectives, so have ended those before.
    if (!files.empty())
      for (const auto &file : std::exchange(comm->spent, files))
        unlink(file.c_str());
    return true;
  };
  comm->last = queueAttempts(calls->front().stream, attempt, comm->last);
}

ncclResult_t add(Action call) {
  pending.push_back(std::move(call));
  const Action &first = pending.front(), &last = pending.back();
  if (first.comm != last.comm || first.stream != last.stream)
    die("NCCL: one group has calls of several communicators or streams");
  if (depth == 0)
    launch();
  return ncclSuccess;
}

/// Of `given` and `taken` elements; `end` writes what all ranks gave to `out`.
ncclResult_t collective(const char *name, const std::string &how, size_t count,
                        const void *in, size_t given, void *out, size_t taken,
                        ncclDataType_t type, ncclComm *comm,
                        cudaStream_t stream,
                        std::function<void(const Blocks &, char *to)> end) {
  Entry entry(name);
  const Type &t = typeOf(type);
  requireDevice(in, given * t.bytes, "what it reads");
  requireDevice(out, taken * t.bytes, "what it writes");
  std::string line = text(name, " of ", count, " ", t.name, how);
  Action call{comm, stream, line, text(line, " of rank ", comm->rank)};
  uint64_t number = comm->collectives++;
  for (int r = 0; r < comm->ranks; ++r)
    call.wants.push_back({text(comm->folder, "/c", number, "-", r), r});
  call.gives = call.wants[size_t(comm->rank)].first;
  call.in = in, call.bytes = given * t.bytes;
  call.end = [=](const Blocks &blocks) {
    end(blocks, static_cast<char *>(out));
  };
  return add(std::move(call));
}

const char *nameOf(ncclRedOp_t op) {
  return op == ncclSum ? " (sum)" : op == ncclMax ? " (max)" : " (min)";
}

/// The sum, greatest or least of `count` elements from `first` on.
auto reduction(size_t first, size_t count, const Type &type, ncclRedOp_t op) {
  if (!type.combine)
    die("NCCL: ", type.name, " are not combined");
  return [=](const Blocks &blocks, char *to) {
    size_t at = first * type.bytes, bytes = count * type.bytes;
    std::memcpy(to, blocks[0].data() + at, bytes);
    for (size_t r = 1; r < blocks.size(); ++r)
      type.combine(to, blocks[r].data() + at, count, op);
  };
}

void join(const Blocks &blocks, char *to) {
  for (const std::string &block : blocks)
    to = std::copy(block.begin(), block.end(), to);
}

} // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  std::snprintf(id->internal, sizeof id->internal, "%s/dt-nccl-XXXXXX",
                setting("DT_CUDA_DOUBLE_SHARED", "/dev/shm"));
  return mkdtemp(id->internal) ? ncclSuccess : ncclSystemError;
}

/// Ranks meet at their first call.
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks,
                                    ncclUniqueId id, int rank, ncclConfig_t *) {
  Entry entry;
  *comm = new ncclComm{id.internal, ranks, rank};
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  Entry entry;
  std::string left = comm->folder + "/left"; // a byte a rank
  std::ofstream(left, std::ios::app) << '.';
  std::error_code error; // others may do so, too
  if (std::filesystem::file_size(left, error) == size_t(comm->ranks))
    std::filesystem::remove_all(comm->folder, error);
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  Entry entry;
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  Entry entry;
  if (--depth == 0)
    launch();
  return ncclSuccess;
}

ncclResult_t cuda_double::message(bool sends, void *data, size_t count,
                                  ncclDataType_t type, int peer, ncclComm *comm,
                                  cudaStream_t stream) {
  const char *name = sends ? "ncclSend" : "ncclRecv";
  Entry entry(name);
  int own = comm->rank;
  if (peer < 0 || peer >= comm->ranks)
    die("NCCL: a message from or to rank ", peer, " of ", comm->ranks);
  size_t bytes = count * typeOf(type).bytes;
  requireDevice(data, bytes, "the message");
  std::string line = text("a message of ", count, " ", typeOf(type).name),
              file = text(comm->folder, "/m", sends ? own : peer, "-",
                          sends ? peer : own, "-",
                          sends ? comm->sent[peer]++ : comm->got[peer]++);
  Action call{comm, stream, line,
              text(line, sends ? ", sent by rank " : ", received by rank ", own,
                   sends ? " to rank " : " from rank ", peer)};
  if (sends) {
    call.gives = file, call.in = data, call.bytes = bytes;
    call.untilTaken = true;
  } else {
    call.wants = {{file, peer}};
    call.end = [=](const Blocks &blocks) {
      std::memcpy(data, blocks[0].data(), bytes);
      unlink(file.c_str());
    };
  }
  return add(std::move(call));
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective("ncclAllReduce", nameOf(op), count, in, count, out, count,
                    type, comm, stream, reduction(0, count, typeOf(type), op));
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  size_t all = count * size_t(comm->ranks), first = count * size_t(comm->rank);
  return collective("ncclReduceScatter", nameOf(op), count, in, all, out, count,
                    type, comm, stream,
                    reduction(first, count, typeOf(type), op));
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  size_t all = count * size_t(comm->ranks);
  return collective("ncclAllGather", "", count, in, count, out, all, type, comm,
                    stream, join);
}

/// The others give nothing.
ncclResult_t ncclBroadcast(const void *in, void *out, size_t count,
                           ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  bool gives = comm->rank == root;
  return collective("ncclBroadcast", text(" from rank ", root), count,
                    gives ? in : out, gives ? count : 0, out, count, type, comm,
                    stream, join);
}
