//===- PlacesInOrder.h - Rows that fill places in order ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// PyTorch's masked_scatter puts rows of pictures among those of texts: the k-th
// place of a mask takes row k. There may be no rows, then there are no places.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_IMPORT_PLACESINORDER_H
#define MODELS_FRONTEND_IMPORT_PLACESINORDER_H

#include "models/frontend/import/NodeImporter.h"

namespace dt::models {

/// What models/export writes for it, at a node with the rows behind one of
/// zeros as its first input: a gather at `count`, how often the mask is true up
/// to each place. Nothing for other gathers.
std::optional<mlir::Value> gatherInOrder(NodeImporter &n, mlir::Value count);

/// The k-th true place of the mask takes update k. `cumsum(mask) - 1` is that
/// number, where the mask is true; elsewhere the data stay. A mask repeated
/// along trailing axes moves whole rows.
LogicalResult maskedScatter(NodeImporter &n, mlir::Value mask,
                            mlir::Value updates);

} // namespace dt::models

#endif // MODELS_FRONTEND_IMPORT_PLACESINORDER_H
