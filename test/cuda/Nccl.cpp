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

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <unistd.h>
#include <vector>

using namespace cuda_double;

struct ncclComm {
  std::string folder;
  int ranks, rank;
  uint64_t collectives = 0;          ///< begun
  std::map<int, uint64_t> sent, got; ///< messages begun, by peer
  std::vector<std::string> spent;    ///< files that a peer may still read
  WorkPtr last;
};

namespace {

using Bytes = std::vector<char>;

double seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

/// How long a rank waits for its peers.
double patience() {
  const char *text = std::getenv("DT_CUDA_DOUBLE_PATIENCE");
  return text ? std::atof(text) : 300;
}

bool exists(const std::string &file) { return access(file.c_str(), F_OK) == 0; }

/// Under its name once it is whole.
void writeFile(const std::string &file, const std::string &text,
               const void *data, size_t bytes) {
  std::string fresh = file + ".new";
  FILE *out = std::fopen(fresh.c_str(), "w");
  if (!out)
    die("cannot write %s", fresh.c_str());
  std::fprintf(out, "%s\n", text.c_str());
  if (std::fwrite(data, 1, bytes, out) != bytes || std::fclose(out))
    die("no room in shared memory for %zu bytes", bytes);
  std::rename(fresh.c_str(), file.c_str());
}

/// What stands behind the text, which goes to `text`.
Bytes readFile(const std::string &file, std::string &text) {
  FILE *in = std::fopen(file.c_str(), "r");
  if (!in)
    die("cannot read %s", file.c_str());
  text.clear();
  for (int c; (c = std::fgetc(in)) != '\n' && c != EOF;)
    text += char(c);
  Bytes bytes;
  char buffer[1 << 16];
  for (size_t n; (n = std::fread(buffer, 1, sizeof buffer, in)) > 0;)
    bytes.insert(bytes.end(), buffer, buffer + n);
  std::fclose(in);
  return bytes;
}

const char *nameOf(ncclDataType_t type) {
  switch (type) {
  case ncclChar:
    return "bytes";
  case ncclInt64:
    return "int64";
  case ncclFloat32:
    return "float32";
  case ncclFloat64:
    return "float64";
  case ncclBfloat16:
    return "bfloat16";
  }
  die("a type that NCCL's double does not know: %d", int(type));
}

size_t sizeOf(ncclDataType_t type) {
  return type == ncclChar       ? 1
         : type == ncclBfloat16 ? 2
         : type == ncclFloat32  ? 4
                                : 8;
}

float widened(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}
uint16_t narrowed(float value) { // to the nearest, ties to even
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  if (value != value)
    return uint16_t(bits >> 16 | 0x40);
  return uint16_t((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

template <typename T> T combined(T a, T b, ncclRedOp_t op) {
  return op == ncclSum   ? a + b
         : op == ncclMax ? std::max(a, b)
                         : std::min(a, b);
}
template <typename T>
void combineAs(char *sum, const char *with, size_t n, ncclRedOp_t op) {
  for (size_t i = 0; i < n; ++i) {
    T a, b;
    std::memcpy(&a, sum + i * sizeof a, sizeof a);
    std::memcpy(&b, with + i * sizeof b, sizeof b);
    if constexpr (sizeof(T) == 2) // every partial sum is rounded
      a = narrowed(combined(widened(a), widened(b), op));
    else
      a = combined(a, b, op);
    std::memcpy(sum + i * sizeof a, &a, sizeof a);
  }
}
void combine(char *sum, const char *with, size_t n, ncclDataType_t type,
             ncclRedOp_t op) {
  type == ncclFloat32    ? combineAs<float>(sum, with, n, op)
  : type == ncclFloat64  ? combineAs<double>(sum, with, n, op)
  : type == ncclInt64    ? combineAs<int64_t>(sum, with, n, op)
  : type == ncclBfloat16 ? combineAs<uint16_t>(sum, with, n, op)
                         : die("bytes are not combined");
}

/// One call, as device work.
struct Call {
  ncclComm *comm = nullptr;
  std::string text; ///< the same on all ranks; of a message without peers
  std::string own,
      all;       ///< files: this rank's and, before its number, everybody's
  int peer = -1; ///< of a message
  bool gives = true;
  const void *in = nullptr;
  size_t bytes = 0; ///< that it gives, or a message brings
  std::function<void(const std::vector<Bytes> &)> end;
  bool begun = false;
  double since = 0;

  std::string fileOf(int rank) const { return all + std::to_string(rank); }

  /// True once it has ended.
  bool advance() {
    if (!begun) {
      since = seconds();
      if (gives)
        writeFile(own, text, in, bytes);
      begun = true;
    }
    if (peer >= 0 && gives ? !exists(own) : isThere())
      return finish();
    if (seconds() - since > patience())
      die("rank %d has waited for %.0f s in %s", comm->rank, patience(),
          described(comm->rank).c_str());
    return false;
  }

private:
  std::string described(int rank) const {
    return text + (peer < 0 ? " of rank " + std::to_string(rank)
                   : gives  ? ", sent by rank " + std::to_string(rank) +
                                  " to rank " + std::to_string(peer)
                            : ", received by rank " + std::to_string(rank) +
                                  " from rank " + std::to_string(peer));
  }
  bool isThere() const {
    if (peer >= 0)
      return exists(own);
    for (int r = 0; r < comm->ranks; ++r)
      if (!exists(fileOf(r)))
        return false;
    return true;
  }
  Bytes take(const std::string &file, int from) const {
    std::string its;
    Bytes data = readFile(file, its);
    if (its != text)
      die("NCCL: %s meets %s of rank %d", described(comm->rank).c_str(),
          its.c_str(), from);
    return data;
  }
  bool finish() {
    if (peer >= 0) {
      if (!gives) {
        std::memcpy(const_cast<void *>(in), take(own, peer).data(), bytes);
        unlink(own.c_str());
      }
      return true;
    }
    std::vector<Bytes> blocks;
    for (int r = 0; r < comm->ranks; ++r)
      blocks.push_back(take(fileOf(r), r));
    end(blocks);
    return true;
  }
};

int depth = 0;
struct Group {
  ncclComm *comm = nullptr;
  cudaStream_t stream = nullptr;
  std::vector<Call> calls;
};
Group &group = *new Group;

/// All calls of a group as one piece of work, behind the communicator's last.
void launch() {
  Group taken = std::move(group);
  group = {};
  if (taken.calls.empty())
    return;
  auto calls = std::make_shared<std::vector<Call>>(std::move(taken.calls));
  std::vector<std::string> files;
  for (const Call &call : *calls)
    if (call.peer < 0)
      files.push_back(call.own);
  ncclComm *comm = taken.comm;
  comm->last = queueAttempts(
      taken.stream,
      [calls, files, comm] {
        calls->erase(std::remove_if(calls->begin(), calls->end(),
                                    [](Call &call) { return call.advance(); }),
                     calls->end());
        if (!calls->empty())
          return false;
        // All ranks have begun these collectives, so have ended those before.
        if (!files.empty()) {
          for (const std::string &file : comm->spent)
            unlink(file.c_str());
          comm->spent = files;
        }
        return true;
      },
      comm->last);
}

ncclResult_t add(Call call, cudaStream_t stream) {
  if (depth > 0 && group.comm &&
      (group.comm != call.comm || group.stream != stream))
    die("NCCL: one group has calls of several communicators or streams");
  group.comm = call.comm;
  group.stream = stream;
  group.calls.push_back(std::move(call));
  if (depth == 0)
    launch();
  return ncclSuccess;
}

std::string textOf(const char *name, size_t count, ncclDataType_t type) {
  return std::string(name) + " of " + std::to_string(count) + " " +
         nameOf(type);
}

ncclResult_t message(const void *data, size_t count, ncclDataType_t type,
                     int peer, ncclComm *comm, cudaStream_t stream,
                     bool gives) {
  Entry entry(gives ? "ncclSend" : "ncclRecv");
  if (peer < 0 || peer >= comm->ranks)
    die("NCCL: a message from or to rank %d of %d", peer, comm->ranks);
  Call call;
  call.comm = comm;
  call.text = textOf("a message", count, type);
  call.bytes = count * sizeOf(type);
  requireDevice(data, call.bytes, gives ? "ncclSend" : "ncclRecv");
  call.peer = peer;
  call.gives = gives;
  call.in = data;
  int from = gives ? comm->rank : peer, to = gives ? peer : comm->rank;
  uint64_t number = gives ? comm->sent[peer]++ : comm->got[peer]++;
  call.own = comm->folder + "/m" + std::to_string(from) + "-" +
             std::to_string(to) + "-" + std::to_string(number);
  return add(std::move(call), stream);
}

/// `given` and `taken`: elements. The end gets all ranks' in their order.
template <typename End>
ncclResult_t collective(const char *name, const std::string &how,
                        const void *in, size_t given, void *out, size_t taken,
                        size_t count, ncclDataType_t type, ncclComm *comm,
                        cudaStream_t stream, End end) {
  Entry entry(name);
  size_t size = sizeOf(type);
  requireDevice(in, given * size, std::string(name) + ": what it reads");
  requireDevice(out, taken * size, std::string(name) + ": what it writes");
  Call call;
  call.comm = comm;
  call.text = textOf(name, count, type) + how;
  call.all = comm->folder + "/c" + std::to_string(comm->collectives++) + "-";
  call.own = call.all + std::to_string(comm->rank);
  call.in = in;
  call.bytes = given * size;
  call.end = [=](const std::vector<Bytes> &blocks) {
    end(blocks, static_cast<char *>(out));
  };
  return add(std::move(call), stream);
}

const char *textOf(ncclRedOp_t op) {
  return op == ncclSum ? " (sum)" : op == ncclMax ? " (max)" : " (min)";
}

} // namespace

ncclResult_t ncclGetVersion(int *version) {
  *version = 0;
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id) {
  const char *place = std::getenv("DT_CUDA_DOUBLE_SHARED");
  std::snprintf(id->internal, sizeof id->internal, "%s/dt-nccl-XXXXXX",
                place ? place : "/dev/shm");
  return mkdtemp(id->internal) ? ncclSuccess : ncclSystemError;
}

/// Ranks meet here.
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int ranks,
                                    ncclUniqueId id, int rank, ncclConfig_t *) {
  Entry entry("ncclCommInitRankConfig");
  *comm = new ncclComm{id.internal, ranks, rank, 0, {}, {}, {}, nullptr};
  writeFile((*comm)->folder + "/r" + std::to_string(rank), "", "", 0);
  double since = seconds();
  for (int r = 0; r < ranks; ++r)
    while (!exists((*comm)->folder + "/r" + std::to_string(r))) {
      if (seconds() - since > patience())
        die("rank %d has waited for %.0f s for rank %d in ncclCommInitRank",
            rank, patience(), r);
      usleep(200);
    }
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  Entry entry("ncclCommDestroy");
  writeFile(comm->folder + "/d" + std::to_string(comm->rank), "", "", 0);
  bool all = true;
  for (int r = 0; r < comm->ranks; ++r)
    all &= exists(comm->folder + "/d" + std::to_string(r));
  std::error_code error; // others may do so, too
  if (all)
    std::filesystem::remove_all(comm->folder, error);
  delete comm;
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t) { return ncclSuccess; }
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t *state) {
  *state = ncclSuccess;
  return ncclSuccess;
}
const char *ncclGetErrorString(ncclResult_t result) {
  return result == ncclSuccess ? "no error" : "unhandled system error";
}
const char *ncclGetLastError(ncclComm_t) { return ""; }

ncclResult_t ncclGroupStart() {
  Entry entry("ncclGroupStart");
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  Entry entry("ncclGroupEnd");
  if (--depth == 0)
    launch();
  return ncclSuccess;
}

ncclResult_t ncclSend(const void *data, size_t count, ncclDataType_t type,
                      int peer, ncclComm_t comm, cudaStream_t stream) {
  return message(data, count, type, peer, comm, stream, true);
}
ncclResult_t ncclRecv(void *data, size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return message(data, count, type, peer, comm, stream, false);
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective("ncclAllReduce", textOf(op), in, count, out, count, count,
                    type, comm, stream,
                    [=](const std::vector<Bytes> &blocks, char *to) {
                      Bytes sum = blocks[0];
                      for (size_t r = 1; r < blocks.size(); ++r)
                        combine(sum.data(), blocks[r].data(), count, type, op);
                      std::memcpy(to, sum.data(), sum.size());
                    });
}

ncclResult_t ncclAllGather(const void *in, void *out, size_t count,
                           ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return collective("ncclAllGather", "", in, count, out,
                    count * size_t(comm->ranks), count, type, comm, stream,
                    [](const std::vector<Bytes> &blocks, char *to) {
                      for (const Bytes &block : blocks) {
                        std::memcpy(to, block.data(), block.size());
                        to += block.size();
                      }
                    });
}

ncclResult_t ncclReduceScatter(const void *in, void *out, size_t count,
                               ncclDataType_t type, ncclRedOp_t op,
                               ncclComm_t comm, cudaStream_t stream) {
  size_t bytes = count * sizeOf(type), at = size_t(comm->rank) * bytes;
  return collective("ncclReduceScatter", textOf(op), in,
                    count * size_t(comm->ranks), out, count, count, type, comm,
                    stream, [=](const std::vector<Bytes> &blocks, char *to) {
                      Bytes sum(blocks[0].begin() + long(at),
                                blocks[0].begin() + long(at + bytes));
                      for (size_t r = 1; r < blocks.size(); ++r)
                        combine(sum.data(), blocks[r].data() + at, count, type,
                                op);
                      std::memcpy(to, sum.data(), bytes);
                    });
}

ncclResult_t ncclBroadcast(const void *in, void *out, size_t count,
                           ncclDataType_t type, int root, ncclComm_t comm,
                           cudaStream_t stream) {
  bool gives = comm->rank == root;
  return collective("ncclBroadcast", " from rank " + std::to_string(root),
                    gives ? in : out, gives ? count : 0, out, count, count,
                    type, comm, stream,
                    [=](const std::vector<Bytes> &blocks, char *to) {
                      std::memcpy(to, blocks[size_t(root)].data(),
                                  blocks[size_t(root)].size());
                    });
}
