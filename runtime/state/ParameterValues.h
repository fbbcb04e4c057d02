//===- ParameterValues.h - what parameters are in files ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A parameter that the optimizer keeps a master of is that master, in float32;
// any other is what its region stores. Who reads or gives values (files of all
// kinds) asks here, and need not know where they are.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STATE_PARAMETERVALUES_H
#define DT_RUNTIME_STATE_PARAMETERVALUES_H

#include "runtime/state/ParameterLayout.h"
#include "runtime/state/Regions.h"

#include <vector>

namespace dt::rt {

class ParameterValues {
public:
  ParameterValues(const ProgramInfo &program, const Placement &placement,
                  const Ownership &ownership, const Regions &regions)
      : program(program), placement(placement), ownership(ownership),
        regions(regions) {}

  /// Of a parameter, by its row in the table.
  DType type(size_t parameter) const;
  ParameterLayout layout(size_t parameter) const;

  /// The elements of a piece that this rank owns, on the device.
  const void *at(size_t parameter, const OwnedPiece &piece) const;

  /// The average of the same; of one that has none, at().
  const void *averageAt(size_t parameter, const OwnedPiece &piece) const;

  /// Gives this rank's part its values: host memory, type() each. An average
  /// begins with them.
  void write(size_t parameter, const void *part) const;

  /// The part of a moment of rows or columns: the parameter's without one axis.
  ParameterLayout factorLayout(size_t parameter, MomentShape shape) const;
  /// Whether this rank saves such a moment, of those that have the same part.
  bool ownsFactors(size_t parameter, MomentShape shape) const;

private:
  std::vector<CutInfo> factorCuts(size_t parameter, MomentShape shape) const;
  void writeKept(size_t parameter, float *kept, const float *values) const;

  const ProgramInfo &program;
  const Placement &placement;
  const Ownership &ownership;
  const Regions &regions;
};

} // namespace dt::rt

#endif // DT_RUNTIME_STATE_PARAMETERVALUES_H
