//===- WholeSlices.h - Scatters of slices to known places -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Exporters write `x[..., 1::2] = y` and `x[:, 3] = y` as scatters whose index
// tuples name every axis, also the one that counts items. Where whole slices go
// to places of a fixed axis that the graph knows, a scatter is a select: each
// item stays what it was, so that a batch can be cut.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_IMPORT_WHOLESLICES_H
#define MODELS_FRONTEND_IMPORT_WHOLESLICES_H

#include "models/frontend/import/NodeImporter.h"

namespace dt::models {

/// ScatterND (data, indices, updates) whose tuples are known and name places of
/// axes of fixed sizes; nothing for others, and where `kind` is neither set nor
/// add or adds twice to one place.
std::optional<mlir::Value> putTuples(NodeImporter &n, nn::ScatterKind kind);

/// The same of ScatterElements whose indices say the same place along `axis`
/// everywhere on the other axes, all of which the updates cover.
std::optional<mlir::Value> putElements(NodeImporter &n, nn::ScatterKind kind,
                                       int64_t axis);

} // namespace dt::models

#endif // MODELS_FRONTEND_IMPORT_WHOLESLICES_H
