//===- MeetingTest.cpp - where the ranks of a run meet ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Meeting.h"
#include "runtime/comm/Launch.h"
#include "test/runtime/TestSupport.h"

#include <cstdlib>

using namespace dt::rt;
using namespace dt::rt::tcp;

namespace {

constexpr const char *kSecret = "a secret of many characters";
/// No machine's (RFC 5737).
constexpr const char *kElsewhere = "192.0.2.1";

/// The variables of launchers, as these say and no others.
class Environment {
public:
  explicit Environment(
      std::initializer_list<std::pair<const char *, const char *>> set) {
    for (const char *name : {"RANK",
                             "WORLD_SIZE",
                             "MASTER_ADDR",
                             "MASTER_PORT",
                             "DT_PORT",
                             "DT_COMM",
                             "DT_RUN_ID",
                             "DT_START_TIMEOUT",
                             "OMPI_COMM_WORLD_RANK",
                             "OMPI_COMM_WORLD_SIZE",
                             "OMPI_COMM_WORLD_LOCAL_SIZE",
                             "PMI_RANK",
                             "PMI_SIZE",
                             "PMIX_RANK",
                             "MPI_LOCALNRANKS",
                             "SLURM_JOB_ID",
                             "SLURM_JOBID",
                             "SLURM_STEP_ID",
                             "SLURM_STEPID",
                             "SLURM_PROCID",
                             "SLURM_NTASKS",
                             "SLURM_STEP_NUM_TASKS",
                             "SLURM_STEP_NODELIST",
                             "SLURM_JOB_NODELIST",
                             "SLURM_NODELIST",
                             "TORCHELASTIC_USE_AGENT_STORE",
                             "TORCHELASTIC_RUN_ID",
                             "TORCHELASTIC_RESTART_COUNT",
                             "LOCAL_WORLD_SIZE",
                             "DT_SECRET",
                             "DT_SECRET_FILE",
                             "DT_TRUST_NETWORK",
                             "SLURM_STEP_TASKS_PER_NODE",
                             "SLURM_NODEID"})
      names.push_back(name);
    clear();
    for (auto &[name, value] : set)
      ::setenv(name, value, 1);
  }
  ~Environment() { clear(); }

private:
  void clear() {
    for (const char *name : names)
      ::unsetenv(name);
  }
  std::vector<const char *> names;
};

TEST(Meeting, FirstNode) {
  EXPECT_EQ(firstNode("gpu07"), "gpu07");
  EXPECT_EQ(firstNode("a,b[1-3]"), "a");
  EXPECT_EQ(firstNode("gpu[07-09,12],big1"), "gpu07");
  EXPECT_EQ(firstNode("gpu[12]-ib,big1"), "gpu12-ib");
  EXPECT_EQ(firstNode("r[1-2]n[03-04]"), "r1n03");
  EXPECT_EQ(firstNode(""), "");
}

TEST(Meeting, UnderTorchrun) {
  Environment e({{"RANK", "2"},
                 {"WORLD_SIZE", "4"},
                 {"MASTER_ADDR", "node1"},
                 {"MASTER_PORT", "29500"},
                 {"TORCHELASTIC_RUN_ID", "x"},
                 {"TORCHELASTIC_RESTART_COUNT", "3"},
                 {"DT_SECRET", kSecret}});
  EXPECT_TRUE(isLaunched());
  EXPECT_EQ(launchedRank(), 2);
  EXPECT_EQ(launchedRanks(), 4);
  EXPECT_EQ(launchedTransport(), Transport::Tcp);
  Meeting meeting = meetingPlace();
  EXPECT_EQ(meeting.host, "node1");
  EXPECT_EQ(meeting.port, 29500);
  EXPECT_EQ(meeting.run, "x/3");
  // torchrun itself listens there.
  ::setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
  EXPECT_EQ(meetingPlace().port, 29501);
  ::setenv("DT_PORT", "4000", 1);
  EXPECT_EQ(meetingPlace().port, 4000);
  ::setenv("DT_PORT", "40000000", 1);
  EXPECT_ERROR(meetingPlace(),
               "DT_PORT=40000000: expected a number from 1 to 65535");
  ::unsetenv("MASTER_PORT"); // left over from a shell
  EXPECT_FALSE(isLaunched());
}

TEST(Meeting, UnderSlurm) {
  Environment e({{"SLURM_PROCID", "1"},
                 {"SLURM_NTASKS", "8"},
                 {"SLURM_JOB_ID", "1234"},
                 {"SLURM_JOB_NODELIST", "gpu[07-09]"},
                 {"DT_SECRET", kSecret}});
  EXPECT_FALSE(isLaunched()); // a batch job's shell
  ::setenv("SLURM_STEP_ID", "0", 1);
  EXPECT_EQ(launchedRanks(), 8);
  ::setenv("SLURM_STEP_NUM_TASKS", "4", 1);
  EXPECT_EQ(launchedRanks(), 4);
  Meeting first = meetingPlace();
  EXPECT_EQ(first.host, "gpu07");
  EXPECT_GE(first.port, 20000);
  EXPECT_LT(first.port, 30000);
  EXPECT_EQ(first.run, "1234.0");
  ::setenv("SLURM_STEP_ID", "1", 1);
  EXPECT_NE(meetingPlace().port, first.port);
  ::setenv("MASTER_ADDR", "other", 1);
  ::setenv("MASTER_PORT", "29500", 1);
  EXPECT_EQ(meetingPlace().host, "other");
  EXPECT_EQ(meetingPlace().port, 29500);
}

TEST(Meeting, OnSeveralMachinesTakesASecret) {
  Environment e({{"RANK", "2"},
                 {"WORLD_SIZE", "4"},
                 {"LOCAL_WORLD_SIZE", "2"},
                 {"MASTER_ADDR", kElsewhere},
                 {"MASTER_PORT", "29500"}});
  const char *line = "ranks of several machines need a secret to meet over "
                     "TCP: set DT_SECRET to the same text of 16 characters";
  EXPECT_ERROR(meetingPlace(), line);
  ::setenv("DT_SECRET", kSecret, 1);
  EXPECT_EQ(meetingPlace().secret, kSecret);
  EXPECT_EQ(meetingPlace().interface(), "");
  ::unsetenv("DT_SECRET");
  ::setenv("DT_TRUST_NETWORK", "1", 1);
  EXPECT_EQ(meetingPlace().host, kElsewhere);
  EXPECT_EQ(meetingPlace().interface(), "");
  ::setenv("DT_TRUST_NETWORK", "yes", 1);
  EXPECT_ERROR(meetingPlace(), "DT_TRUST_NETWORK=yes: expected a number");
  ::unsetenv("DT_TRUST_NETWORK");
  // Nobody says how many are here, but this address is not.
  ::unsetenv("LOCAL_WORLD_SIZE");
  EXPECT_ERROR(meetingPlace(), line);
  // Here: nobody else is listened to, whatever the machine is called.
  for (const char *name : {"localhost", "127.0.1.1", "0.0.0.0"}) {
    ::setenv("MASTER_ADDR", name, 1);
    EXPECT_EQ(meetingPlace().host, "127.0.0.1");
    EXPECT_EQ(meetingPlace().interface(), "127.0.0.1");
  }
}

TEST(Meeting, NowhereIsAnError) {
  Environment e({});
  EXPECT_ERROR(meetingPlace(), "set MASTER_ADDR and MASTER_PORT");
}

} // namespace
