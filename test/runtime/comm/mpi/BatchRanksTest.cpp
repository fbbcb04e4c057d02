//===- BatchRanksTest.cpp - a pipe's batches on several ranks -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The first rank reads a pipe. Every rank has the parts that it would cut of
// the file itself, and is sent these and no others; they leave the first rank
// once a replica.
//
//===----------------------------------------------------------------------===//

#include "runtime/step/BatchRanks.h"
#include "runtime/data/Parcels.h"
#include "test/runtime/comm/mpi/SmallTraining.h"

#include <csignal>
#include <cstring>
#include <fstream>
#include <sys/stat.h>
#include <thread>

using namespace dt::rt;
using namespace small;

namespace {

constexpr int kSteps = 3;

struct Counted {
  uint64_t sent, received;
};
Counted counted() {
  auto of = [](const char *label) {
    auto found = ranks().traffic().find(label);
    return found == ranks().traffic().end() ? 0 : found->second.bytes;
  };
  return {of(kDataSent), of(kDataReceived)};
}

/// Writes the batch `kSteps` times into a pipe, on the first rank.
class Writer {
public:
  Writer(const SharedFolder &folder, const std::string &pipe) {
    if (ranks().rank() != 0)
      return;
    std::signal(SIGPIPE, SIG_IGN);
    ::mkfifo(pipe.c_str(), 0600);
    std::string content = readFile(folder / "batch");
    thread = std::thread([content, pipe] {
      std::ofstream out(pipe, std::ios::binary);
      for (int i = 0; i < kSteps; ++i)
        out << content;
    });
  }
  ~Writer() {
    if (thread.joinable())
      thread.join();
  }

private:
  std::thread thread;
};

/// What a rank is sent: its inputs, each from a multiple of 16 bytes on.
uint64_t bytesOf(const Batch &batch) {
  uint64_t sum = 0;
  for (const auto &parts : batch.modules)
    for (const Part &part : parts)
      for (const InputBytes &input : part.inputs)
        sum += (input.size + 15) / 16 * 16;
  return sum;
}

void expectSame(const Batch &have, const Batch &want, const std::string &what) {
  ASSERT_EQ(have.modules.size(), want.modules.size()) << what;
  for (size_t m = 0; m < want.modules.size(); ++m) {
    ASSERT_EQ(have.modules[m].size(), want.modules[m].size()) << what;
    for (size_t p = 0; p < want.modules[m].size(); ++p)
      for (size_t i = 0; i < want.modules[m][p].inputs.size(); ++i) {
        const InputBytes &a = have.modules[m][p].inputs[i],
                         &b = want.modules[m][p].inputs[i];
        ASSERT_EQ(a.size, b.size) << what;
        if (b.size) {
          EXPECT_EQ(std::memcmp(a.data, b.data, b.size), 0) << what;
        }
      }
  }
}

TEST(RanksData, EachReplicaIsSentItsPartsOnce) {
  SharedFolder folder(writeFolder);
  nlohmann::json sections =
      nlohmann::json::parse(readFile(folder / "data.json"));
  for (const SmallPlan &plan : plans()) {
    SmallProgram program(2, plan);
    RankView view = viewOf(program.info, ranks().rank());
    std::string pipe = folder / ("pipe" + nameOf(plan));
    Writer writer(folder, pipe);
    ranks().world().barrier();
    auto file = openFileBatch(program.info, sections, folder / "batch", view,
                              Reorder::None);
    auto source = openBatches(program.info, sections, {pipe}, view,
                              Reorder::None, makeBatchPeers(ranks()));
    Counted before = counted();
    uint64_t own = 0;
    for (int step = 0; step < kSteps; ++step) {
      const Batch &batch = source->next(step);
      expectSame(batch, file->next(step), nameOf(plan));
      own += bytesOf(batch);
    }
    Counted after = counted();
    uint64_t received = after.received - before.received;
    EXPECT_EQ(received, ranks().rank() == 0 ? 0 : own) << nameOf(plan);
    // It leaves the first rank once for each replica of others, and one rank of
    // several tells the others.
    std::vector<double> gets = ranks().allGather({double(received)}, "test");
    double sent = 0;
    for (const ModuleInfo &module : program.info.modules)
      for (int32_t r = 0; r < module.dp; ++r)
        if (int32_t leader = module.ranks[size_t(r * module.tp)]; leader != 0) {
          if (ranks().rank() == 0)
            sent += gets[size_t(leader)];
          if (ranks().rank() == leader && module.tp > 1)
            sent += gets[size_t(leader)];
        }
    EXPECT_EQ(double(after.sent - before.sent), sent) << nameOf(plan);
  }
}

} // namespace
