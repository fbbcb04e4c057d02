//===- Nccl.cpp - collectives and messages between processes ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A communicator is a folder in shared memory, what a rank gives to a call a
// file there: docs/cuda-double-faults.md. Calls of a communicator are numbered;
// they begin when their stream gets there, and other streams go on while they
// wait.
//
//===----------------------------------------------------------------------===//

#include "Double.h"
#include "runtime/base/Clock.h"

#include <nccl.h>

#include <csignal>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>

using namespace cuda_double;
using std::filesystem::exists;

struct ncclComm {
  std::string folder;
  int ranks, rank;
  bool blocks;
  int kernel;        ///< thread blocks that it may have
  bool open = false; ///< has begun something that nobody has asked for yet
  std::set<std::pair<int, int>> connected = {};          ///< from, to
  uint64_t collectives = 0;                              ///< begun
  std::map<std::pair<int, int>, uint64_t> messages = {}; ///< begun, from, to
  WorkPtr last = nullptr;
};

namespace {

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

/// Of all that waits for other processes.
double patience() {
  static const uint64_t most = setting("DT_CUDA_DOUBLE_PATIENCE", 300);
  return double(most);
}

/// What all ranks gave, in their order, or a message brought.
using Blocks = std::vector<std::string>;

/// One call, as device work.
struct Action {
  ncclComm *comm;
  cudaStream_t stream;
  std::string line;                    ///< the same on all ranks
  std::string whole;                   ///< with its ranks
  int from = -1, to = -1;              ///< of a message
  std::vector<std::string> gives = {}; ///< files, for a rank each
  std::string_view data = {};          ///< that it gives, on the device
  std::vector<std::pair<std::string, int>> wants = {}; ///< files, of ranks
  std::function<void(const Blocks &)> end = nullptr;   ///< with what it wants
  double since = 0;                                    ///< its begin

  /// One file, under its names once it is whole.
  void give() const {
    std::string fresh = gives[0] + ".new";
    std::ofstream out(fresh);
    if (!(out << line << "\n" << data << std::flush))
      die("no room in shared memory for ", data.size(), " bytes: ", fresh);
    for (const std::string &name : gives)
      link(fresh.c_str(), name.c_str());
    unlink(fresh.c_str());
  }

  /// What stands behind the first lines of files, which are gone then.
  Blocks take() const {
    Blocks blocks;
    for (const auto &[file, from] : wants) {
      std::ifstream in(file);
      std::string its;
      if (!std::getline(in, its))
        die("cannot read ", file);
      unlink(file.c_str());
      if (its != line)
        die("NCCL: ", whole, " meets ", its, " of rank ", from);
      blocks.push_back({std::istreambuf_iterator<char>(in), {}});
    }
    return blocks;
  }

  /// True once it has ended. What only gives ends when its file is taken.
  bool advance() {
    if (since == 0) {
      since = dt::rt::now();
      openMemory(true);
      if (!gives.empty())
        give();
    }
    auto isThere = [](const auto &want) { return exists(want.first); };
    if (wants.empty() ? exists(gives[0])
                      : !std::ranges::all_of(wants, isThere)) {
      if (dt::rt::now() - since > patience())
        die("rank ", comm->rank, " has waited for ", patience(), " s in ",
            whole);
      return false;
    }
    openMemory(true);
    if (end)
      end(take());
    return true;
  }
};

/// Files of other ranks that must be there before the host's call returns.
auto &unmet = *new std::vector<std::string>;

/// Shows the others that this rank is here, and waits for them.
void meet(const std::string &own, std::vector<std::string> others) {
  std::ofstream(own).flush();
  std::ranges::copy(others, std::back_inserter(unmet));
}

/// Nobody else is kept from calling meanwhile.
void awaitOthers() {
  std::vector<std::string> files;
  {
    std::lock_guard<std::mutex> lock(entryMutex);
    files.swap(unmet);
  }
  double begin = dt::rt::now();
  if (!files.empty()) {
    std::lock_guard<std::mutex> lock(entryMutex);
    counts["waits for other hosts"]++;
  }
  for (const std::string &file : files)
    while (!exists(file)) {
      if (dt::rt::now() - begin > patience())
        die("has waited for ", patience(), " s for ", file);
      usleep(500);
    }
}

/// DT_CUDA_DOUBLE_LOST="kill 3": what becomes of rank 1 of a communicator in
/// the process's third call; stop, hang.
void loseRank(int rank) {
  static const char *lost = std::getenv("DT_CUDA_DOUBLE_LOST");
  static int calls = 0;
  if (!lost || rank != 1 || ++calls != std::atoi(std::strchr(lost, ' ') + 1))
    return;
  if (*lost != 'h')
    raise(*lost == 'k' ? SIGKILL : SIGSTOP);
  while (*lost == 'h')
    pause();
}

/// What a call returns. One that does not block goes on in a thread that NCCL
/// makes for it, and whoever wants to know asks.
ncclResult_t answer(ncclComm *comm) {
  if (comm->blocks)
    return ncclSuccess;
  counts["threads of NCCL"]++;
  comm->open = true;
  return ncclInProgress;
}

int depth = 0;                            ///< of groups
auto &pending = *new std::vector<Action>; ///< calls of the group

/// The first message between two ranks makes a connection, for which both
/// hosts wait.
void connect(const Action &call) {
  ncclComm &comm = *call.comm;
  if (call.from == call.to ||
      !comm.connected.insert({call.from, call.to}).second)
    return;
  std::string prefix = text(comm.folder, "/p", call.from, "-", call.to, "-");
  meet(text(prefix, comm.rank),
       {text(prefix, comm.rank == call.from ? call.to : call.from)});
}

constexpr int kMostChannels = 64;

/// Kernels of several streams wait for other ranks at once: each needs room.
void requireRoom(const ncclComm &comm, cudaStream_t stream) {
  static auto &kernels = *new std::map<cudaStream_t, int>;
  int &most = kernels[stream], sum = 0;
  most = std::max(most, comm.kernel);
  for (auto [other, blocks] : kernels)
    sum += blocks;
  if (sum >= multiprocessors())
    die("NCCL: kernels of ", kernels.size(), " streams may take ", sum,
        " blocks at once, the device has ", multiprocessors(),
        " multiprocessors");
}

/// All calls of a group that ends, as one piece of work, behind the
/// communicator's last.
ncclResult_t launch() {
  if (depth > 0 || pending.empty())
    return ncclSuccess;
  ncclComm *comm = pending.front().comm;
  cudaStream_t stream = pending.front().stream;
  counts["calls of NCCL"]++;
  requireRoom(*comm, stream);
  loseRank(comm->rank);
  for (const Action &call : pending)
    connect(call);
  auto attempt = [calls = std::exchange(pending, {})]() mutable {
    std::erase_if(calls, [](Action &call) { return call.advance(); });
    return calls.empty();
  };
  comm->last = queueAttempts(stream, std::move(attempt), comm->last);
  return answer(comm);
}

ncclResult_t add(Action call) {
  pending.push_back(std::move(call));
  const Action &first = pending.front(), &last = pending.back();
  if (first.comm != last.comm || first.stream != last.stream)
    die("NCCL: one group has calls of several communicators or streams");
  return launch();
}

/// Of `given` and `taken` times `count` elements. What all ranks gave is
/// joined; with an op it is combined, from this rank's part on if they gave
/// more.
ncclResult_t collective(const std::string &how, size_t count, const void *in,
                        int given, void *out, int taken, ncclDataType_t type,
                        ncclComm *comm, cudaStream_t stream,
                        std::optional<ncclRedOp_t> op = {},
                        const char *name = __builtin_FUNCTION()) {
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

/// Hosts of all ranks wait for one another.
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks,
                                    ncclUniqueId id, int rank,
                                    ncclConfig_t *config) {
  ncclResult_t result;
  {
    Entry entry;
    counts["communicators"]++;
    bool limited = config->maxCTAs != NCCL_CONFIG_UNDEF_INT;
    *comm = new ncclComm{id.internal, ranks, rank, config->blocking != 0,
                         limited ? config->maxCTAs : kMostChannels};
    loseRank(rank);
    std::string prefix = (*comm)->folder + "/r";
    std::vector<std::string> others;
    for (int r = 0; r < ranks; ++r)
      others.push_back(text(prefix, r));
    meet(text(prefix, rank), others);
    result = answer(*comm);
  }
  awaitOthers();
  return result;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state) {
  Entry entry;
  counts["looks for NCCL"] += comm->open;
  *state = std::exchange(comm->open, false) ? ncclInProgress : ncclSuccess;
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
  ncclResult_t result;
  {
    Entry entry;
    --depth;
    result = launch();
  }
  awaitOthers();
  return result;
}

ncclResult_t cuda_double::message(bool sends, void *data, size_t count,
                                  ncclDataType_t type, int peer, ncclComm *comm,
                                  cudaStream_t stream) {
  std::optional<Entry> entry(sends ? "ncclSend" : "ncclRecv");
  int own = comm->rank, from = sends ? own : peer, to = sends ? peer : own;
  if (peer < 0 || peer >= comm->ranks)
    die("NCCL: a message from or to rank ", peer, " of ", comm->ranks);
  size_t bytes = count * typeOf(type).bytes;
  requireDevice(data, bytes, "the message");
  std::string line = text("a message of ", count, " ", typeOf(type).name),
              file = text(comm->folder, "/m", from, "-", to, "-",
                          comm->messages[{from, to}]++);
  Action call{comm,
              stream,
              line,
              text(line, sends ? ", sent by rank " : ", received by rank ", own,
                   sends ? " to rank " : " from rank ", peer),
              from,
              to};
  if (sends) {
    call.gives = {file};
    call.data = {static_cast<char *>(data), bytes};
  } else {
    call.wants = {{file, peer}};
    call.end = [=](const Blocks &blocks) {
      std::memcpy(data, blocks[0].data(), bytes);
    };
  }
  ncclResult_t result = add(std::move(call));
  entry.reset();
  awaitOthers();
  return result;
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective(kOps[op], count, in, 1, out, 1, type, comm, stream, op);
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  return collective(kOps[op], count, in, comm->ranks, out, 1, type, comm,
                    stream, op);
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective("", count, in, 1, out, comm->ranks, type, comm, stream);
}

/// The others give nothing.
ncclResult_t ncclBroadcast(const void *in, void *out, size_t count,
                           ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  bool gives = comm->rank == root;
  return collective(text(" from rank ", root), count, gives ? in : out, gives,
                    out, 1, type, comm, stream);
}
