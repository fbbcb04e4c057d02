//===- Main.cpp - starts the tests' ranks -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//   mpi-tests --ranks N            all tests on N ranks
//   mpi-tests --ranks N --end K    rank N - 1 aborts with exit code K
//   mpi-tests --ranks N --wait     waits until it is asked to end, then ends
//   with 3 mpi-tests --ranks N --plan M   what happens if the plan has M ranks
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/Launch.h"
#include "test/runtime/comm/mpi/Ranks.h"

#include <cstdlib>
#include <unistd.h>

using namespace dt::rt;

static std::unique_ptr<Comm> comm;

Comm &ranks() { return *comm; }

static int option(int argc, char **argv, const std::string &name) {
  for (int i = 1; i < argc; ++i)
    if (argv[i] == name)
      return i + 1 < argc ? std::atoi(argv[i + 1]) : 0;
  return -1;
}

static int runTests(int argc, char **argv) {
  testing::InitGoogleTest(&argc, argv);
  if (comm->rank() > 0) { // one report is enough; failures end the run
    auto &listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
  } else {
    std::printf("%s\n", comm->describe().c_str());
  }
  int failed = RUN_ALL_TESTS();
  double total = 0;
  for (double f :
       comm->allGather(std::vector<double>{double(failed)}, "failed"))
    total += f;
  comm->finish();
  return total > 0;
}

int main(int argc, char **argv) {
  try {
    if (auto code = launchRanks(argc, argv, option(argc, argv, "--ranks")))
      return *code;
    std::unique_ptr<StatusBoard> board;
    if (option(argc, argv, "--wait") >= 0)
      board = std::make_unique<StatusBoard>(launchedBoard(), launchedRank(),
                                            launchedRanks());
    comm = Comm::start(board.get());
    if (int plan = option(argc, argv, "--plan"); plan > 0)
      comm->expectRanks(plan);
    if (int code = option(argc, argv, "--end"); code > 0) {
      if (comm->rank() == comm->size() - 1)
        comm->abort(code);
      comm->world().barrier();
    }
    if (board) {
      std::printf("waiting\n");
      std::fflush(stdout);
      while (!board->isStopRequested())
        ::usleep(10000);
      comm->finish();
      board->leave();
      return 3;
    }
    return runTests(argc, argv);
  } catch (const CommonError &e) {
    if (launchedRank() == 0)
      std::fprintf(stderr, "error: %s\n", e.what());
    if (comm)
      comm->finish();
  } catch (const Error &e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    if (comm)
      comm->abort(1);
  }
  return 1;
}
