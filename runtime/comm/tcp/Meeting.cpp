//===- Meeting.cpp - where the ranks of a run meet ------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/comm/tcp/Meeting.h"
#include "runtime/base/Error.h"
#include "runtime/comm/Launch.h"
#include "runtime/comm/tcp/Secret.h"
#include "runtime/comm/tcp/Socket.h"

#include <cstdlib>
#include <initializer_list>
#include <optional>

namespace dt::rt::tcp {

namespace {

/// Ports that Slurm's runs meet at: below those that systems give away.
constexpr long kFirstPort = 20000, kPorts = 10000;

/// The first of these variables that is set and not empty.
std::string variable(std::initializer_list<const char *> names) {
  for (const char *name : names)
    if (const char *text = std::getenv(name); text && *text)
      return text;
  return "";
}

/// Throws Error if the variable is set and no number from `least` to `most`.
std::optional<long> numberIn(const char *name, long least, long most) {
  std::string text = variable({name});
  if (text.empty())
    return std::nullopt;
  char *end;
  long value = std::strtol(text.c_str(), &end, 10);
  if (*end || value < least || value > most)
    throw Error(std::string(name) + "=" + text + ": expected a number from " +
                std::to_string(least) + " to " + std::to_string(most));
  return value;
}

long slurmPort() {
  long job = std::atol(variable({"SLURM_JOB_ID", "SLURM_JOBID"}).c_str());
  long step = std::atol(variable({"SLURM_STEP_ID", "SLURM_STEPID"}).c_str());
  return kFirstPort + (job * 31 + step) % kPorts;
}

std::string runName() {
  std::string name = variable({"DT_RUN_ID"});
  if (!name.empty())
    return name;
  // Who was left over from before a restart does not belong to it.
  if (name = variable({"TORCHELASTIC_RUN_ID"}); !name.empty())
    return name + "/" + variable({"TORCHELASTIC_RESTART_COUNT"});
  if (name = variable({"SLURM_JOB_ID", "SLURM_JOBID"}); !name.empty())
    return name + "." + variable({"SLURM_STEP_ID", "SLURM_STEPID"});
  return "";
}

/// Whether DT_TRUST_NETWORK says so. Throws Error if it is neither 0 nor 1.
bool trustsNetwork() { return numberIn("DT_TRUST_NETWORK", 0, 1) == 1; }

/// Without a secret, ranks meet where only this machine's processes come to.
/// Throws Error if they are on several machines.
void stayHere(Meeting &meeting) {
  if (launchedHere() == launchedRanks() && isThisMachine(meeting.host))
    meeting.host = kLoopback;
  else
    throw Error(
        "ranks of several machines need a secret to meet over TCP: set "
        "DT_SECRET to the same text of 16 characters or more for all of them "
        "(openssl rand -hex 32), DT_SECRET_FILE to a file of mode 600 with it, "
        "or DT_TRUST_NETWORK=1 where nobody else reaches these machines");
}

} // namespace

std::string Meeting::interface() const {
  return isLoopback(host) ? host : std::string();
}

std::string firstNode(const std::string &list) {
  size_t end = list.find_first_of(",[");
  std::string node = list.substr(0, end);
  if (end == std::string::npos || list[end] == ',')
    return node;
  size_t after = list.find_first_of("-,]", end);
  node += list.substr(end + 1, after - end - 1);
  // What follows the bracket belongs to the name, too.
  size_t close = list.find(']', end);
  if (close == std::string::npos)
    return node;
  return node + firstNode(list.substr(close + 1));
}

Meeting meetingPlace() {
  Meeting meeting;
  meeting.host = variable({"MASTER_ADDR"});
  if (meeting.host.empty())
    meeting.host = firstNode(variable(
        {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"}));
  bool slurm = !variable({"SLURM_JOB_ID", "SLURM_JOBID"}).empty();
  if (auto port = numberIn("DT_PORT", 1, 65535)) {
    meeting.port = int(*port);
  } else if (auto port = numberIn("MASTER_PORT", 1, 65534)) {
    // There torchrun itself listens at MASTER_PORT.
    bool taken = variable({"TORCHELASTIC_USE_AGENT_STORE"}) == "True";
    meeting.port = int(*port) + taken;
  } else if (slurm) {
    meeting.port = int(slurmPort());
  }
  if (meeting.host.empty() || !meeting.port)
    throw Error("ranks do not know where to meet: set MASTER_ADDR and "
                "MASTER_PORT, or start them with --ranks, torchrun or srun");
  meeting.run = runName();
  meeting.listener = int(numberIn(kListener, 0, 1 << 20).value_or(-1));
  meeting.timeout =
      double(numberIn("DT_START_TIMEOUT", 1, 1000000).value_or(300));
  meeting.secret = readSecret();
  if (meeting.secret.empty() && !trustsNetwork())
    stayHere(meeting);
  return meeting;
}

} // namespace dt::rt::tcp
