//===- Grid.h - pictures and captions on one sheet --------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_EXAMPLES_DEMO_GRID_H
#define MODELS_EXAMPLES_DEMO_GRID_H

#include "runtime/data/Picture.h"

#include <string>
#include <vector>

namespace dt::demo {

struct Tile {
  rt::data::Picture truth, drawn;
  std::string name,
      caption; ///< the caption is green if it is the name, else red
};

/// Writes a PNG: true beside drawn picture, enlarged, name and caption below.
/// `font` is an outline font (DejaVu Sans). Throws Error.
void writeGrid(const std::string &path, const std::vector<Tile> &tiles,
               int columns, const std::string &font);

} // namespace dt::demo

#endif // MODELS_EXAMPLES_DEMO_GRID_H
