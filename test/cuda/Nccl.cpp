//===- Nccl.cpp - collectives and messages between processes ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A communicator is a folder in shared memory, what a rank gives to a call a
// file there: docs/cuda.md. Calls of a communicator are numbered; they begin
// when their stream gets there, and other streams go on while they wait.
//
//===----------------------------------------------------------------------===//

#include "Double.h"

#include <nccl.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>

using namespace cuda_double;

struct ncclComm {
  std::string folder;
  int ranks, rank;
  uint64_t collectives = 0;                              ///< begun
  std::map<std::pair<int, int>, uint64_t> messages = {}; ///< begun, from, to
  WorkPtr last = nullptr;
};

namespace {

using Clock = std::chrono::steady_clock;

bool exists(const std::string &file) { return access(file.c_str(), F_OK) == 0; }

/// Under its names once it is whole.
void writeFile(const std::vector<std::string> &names, const std::string &line,
               std::string_view data) {
  std::string fresh = names[0] + ".new";
  std::ofstream out(fresh);
  if (!(out << line << "\n" << data << std::flush))
    die("no room in shared memory for ", data.size(), " bytes: ", fresh);
  for (const std::string &name : names)
    link(fresh.c_str(), name.c_str());
  unlink(fresh.c_str());
}

/// What stands behind the first line, which goes to `line`. The file is gone.
std::string takeFile(const std::string &file, std::string &line) {
  std::ifstream in(file);
  if (!std::getline(in, line))
    die("cannot read ", file);
  unlink(file.c_str());
  return {std::istreambuf_iterator<char>(in), {}};
}

//===--- Elements

template <typename T>
void combineAs(char *sums, const char *with, size_t n, ncclRedOp_t op) {
  auto *to = reinterpret_cast<T *>(sums);
  auto *from = reinterpret_cast<const T *>(with);
  std::transform(to, to + n, from, to, [op](T a, T b) {
    return T(op == ncclSum   ? a + b // of bf16, too, every one is rounded
             : op == ncclMax ? std::max(a, b)
                             : std::min(a, b));
  });
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
                           {ncclBfloat16, "bfloat16", 2, combineAs<bf16>}};

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
  std::string line;                    ///< the same on all ranks
  std::string whole;                   ///< with its ranks
  std::vector<std::string> gives = {}; ///< files, for a rank each
  std::string_view data = {};          ///< that it gives, on the device
  bool untilTaken = false;             ///< it ends when the first file is gone
  std::vector<std::pair<std::string, int>> wants = {}; ///< files, of ranks
  std::function<void(const Blocks &)> end = nullptr;   ///< with what it wants
  Clock::time_point since = {};                        ///< its begin

  /// True once it has ended.
  bool advance() {
    if (since == Clock::time_point()) {
      since = Clock::now();
      openMemory(true);
      if (!gives.empty())
        writeFile(gives, line, data);
    }
    auto isThere = [](const auto &want) { return exists(want.first); };
    if ((untilTaken && exists(gives[0])) ||
        !std::ranges::all_of(wants, isThere)) {
      static const uint64_t most = setting("DT_CUDA_DOUBLE_PATIENCE", 300);
      if (Clock::now() - since > std::chrono::seconds(most))
        die("rank ", comm->rank, " has waited for ", most, " s in ", whole);
      return false;
    }
    openMemory(true);
    Blocks blocks;
    for (const auto &[file, from] : wants) {
      std::string its;
      blocks.push_back(takeFile(file, its));
      if (its != line)
        die("NCCL: ", whole, " meets ", its, " of rank ", from);
    }
    if (end)
      end(blocks);
    return true;
  }
};

int depth = 0;                            ///< of groups
auto &pending = *new std::vector<Action>; ///< calls of the group

/// All calls of a group as one piece of work, behind the communicator's last.
void launch() {
  if (pending.empty())
    return;
  ncclComm *comm = pending.front().comm;
  cudaStream_t stream = pending.front().stream;
  auto attempt = [calls = std::exchange(pending, {})]() mutable {
    std::erase_if(calls, [](Action &call) { return call.advance(); });
    return calls.empty();
  };
  comm->last = queueAttempts(stream, std::move(attempt), comm->last);
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

/// Of `given` and `taken` times `count` elements. What all ranks gave is
/// joined; with an op it is combined, from this rank's part on if they gave
/// more.
ncclResult_t collective(const char *name, const std::string &how, size_t count,
                        const void *in, int given, void *out, int taken,
                        ncclDataType_t type, ncclComm *comm,
                        cudaStream_t stream,
                        std::optional<ncclRedOp_t> op = {}) {
  Entry entry(name);
  const Type &t = typeOf(type);
  if (op && !t.combine)
    die("NCCL: ", t.name, " are not combined");
  size_t bytes = count * t.bytes, whole = size_t(given) * bytes,
         first = given > taken ? size_t(comm->rank) * bytes : 0;
  requireDevice(in, whole, "what it reads");
  requireDevice(out, size_t(taken) * bytes, "what it writes");
  std::string line = text(name, " of ", count, " ", t.name, how);
  Action call{comm, stream, line, text(line, " of rank ", comm->rank)};
  std::string prefix = text(comm->folder, "/c", comm->collectives++, "-");
  for (int r = 0; r < comm->ranks; ++r) {
    call.gives.push_back(text(prefix, comm->rank, "-", r));
    call.wants.push_back({text(prefix, r, "-", comm->rank), r});
  }
  call.data = {static_cast<const char *>(in), whole};
  call.end = [=](const Blocks &blocks) {
    auto *to = static_cast<char *>(out);
    for (const std::string &block : blocks)
      if (!op)
        to = std::ranges::copy(block, to).out;
      else if (&block == &blocks[0])
        std::memcpy(to, block.data() + first, bytes);
      else
        t.combine(to, block.data() + first, count, *op);
  };
  return add(std::move(call));
}

constexpr const char *kOps[] = {" (sum)", " (product)", " (max)", " (min)"};

} // namespace

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  const char *shared = std::getenv("DT_CUDA_DOUBLE_SHARED");
  std::snprintf(id->internal, sizeof id->internal, "%s/dt-nccl-XXXXXX",
                shared ? shared : "/dev/shm");
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
  Entry entry(sends ? "ncclSend" : "ncclRecv");
  int own = comm->rank, from = sends ? own : peer, to = sends ? peer : own;
  if (peer < 0 || peer >= comm->ranks)
    die("NCCL: a message from or to rank ", peer, " of ", comm->ranks);
  size_t bytes = count * typeOf(type).bytes;
  requireDevice(data, bytes, "the message");
  std::string line = text("a message of ", count, " ", typeOf(type).name),
              file = text(comm->folder, "/m", from, "-", to, "-",
                          comm->messages[{from, to}]++);
  Action call{comm, stream, line,
              text(line, sends ? ", sent by rank " : ", received by rank ", own,
                   sends ? " to rank " : " from rank ", peer)};
  if (sends) {
    call.gives = {file}, call.untilTaken = true;
    call.data = {static_cast<char *>(data), bytes};
  } else {
    call.wants = {{file, peer}};
    call.end = [=](const Blocks &blocks) {
      std::memcpy(data, blocks[0].data(), bytes);
    };
  }
  return add(std::move(call));
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective("ncclAllReduce", kOps[op], count, in, 1, out, 1, type, comm,
                    stream, op);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclReduceScatter", kOps[op], count, in, comm->ranks, out,
                    1, type, comm, stream, op);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective("ncclAllGather", "", count, in, 1, out, comm->ranks, type,
                    comm, stream);
}

/// The others give nothing.
ncclResult_t ncclBroadcast(const void *in, void *out, size_t count,
                           ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  bool gives = comm->rank == root;
  return collective("ncclBroadcast", text(" from rank ", root), count,
                    gives ? in : out, gives, out, 1, type, comm, stream);
}
