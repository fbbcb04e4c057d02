//===- Group.h - collectives over MPI ---------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_COMM_MPI_GROUP_H
#define DT_RUNTIME_COMM_MPI_GROUP_H

#include "runtime/comm/Comm.h"
#include "runtime/comm/mpi/MessageProgress.h"

#include <mpi.h>

namespace dt::rt {

class MpiGroup : public Group {
public:
  /// Before MPI ends; all members together.
  virtual void free() = 0;
};

/// Takes the communicator over. `number`: the same on all members, another for
/// every group of several ranks. The references outlive the group.
std::unique_ptr<MpiGroup> makeMpiGroup(MPI_Comm comm, std::vector<int> members,
                                       int number, MessageProgress &progress,
                                       std::map<std::string, Traffic> &traffic,
                                       Blocking &blocking,
                                       device::Pool &combining);

} // namespace dt::rt

#endif // DT_RUNTIME_COMM_MPI_GROUP_H
