//===- Meeting.h - where the ranks of a run meet ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_TCP_MEETING_H
#define DT_RUNTIME_COMM_TCP_MEETING_H

#include <string>

namespace dt::rt::tcp {

/// Where rank 0 listens and the others come to, as the environment says:
/// MASTER_ADDR and MASTER_PORT, else the first node of Slurm's list and a port
/// made of the numbers of job and step. DT_PORT overrides the port.
struct Meeting {
  std::string host;
  int port = 0;
  /// What tells runs apart: DT_RUN_ID, TORCHELASTIC_RUN_ID with the count of
  /// restarts, or SLURM_JOB_ID with the step; may be empty.
  std::string run;
  /// A descriptor that listens already, for rank 0; -1: none (kListener).
  int listener = -1;
  /// Seconds in which all ranks must have come (DT_START_TIMEOUT, 300).
  double timeout = 300;
  /// What only ranks of the run know (readSecret()); may be empty: then `host`
  /// is loopback's, unless DT_TRUST_NETWORK=1.
  std::string secret;

  /// The address that ranks listen on; empty: all of the machine's.
  std::string interface() const;
};

/// Throws Error if host or port is not said, or is not a number; if ranks of
/// several machines have no secret; and what readSecret() throws.
Meeting meetingPlace();

/// Names the descriptor to rank 0.
constexpr const char *kListener = "DT_LISTENER";

/// The first of Slurm's list of nodes: "gpu07" of "gpu[07-09,12],big1".
std::string firstNode(const std::string &list);

} // namespace dt::rt::tcp

#endif // DT_RUNTIME_COMM_TCP_MEETING_H
