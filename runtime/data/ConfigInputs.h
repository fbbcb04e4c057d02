//===- ConfigInputs.h - the inputs section of a recipe ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Internal to Config: one reader per entry kind, apart from the rest because
// there are many.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_CONFIGINPUTS_H
#define DT_RUNTIME_DATA_CONFIGINPUTS_H

#include "runtime/data/Config.h"
#include "runtime/data/Json.h"

namespace dt::rt::data {

/// Fills `config.inputs` and what follows from them: PictureKind::indexWidth,
/// needsLabel. Throws Error.
void readInputs(Config &config, const JsonView &inputs);

/// Templates of which every sample would be broken: more fixed tokens than the
/// sequence, more positions of a picture than an index input has room for, more
/// pictures than a sample may have, or none where each has one. Throws Error.
void checkSegments(const Config &config, const JsonView &segments);

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_CONFIGINPUTS_H
