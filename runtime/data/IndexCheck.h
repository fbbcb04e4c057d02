//===- IndexCheck.h - what is known of an index out of range ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Generated code includes this; see Fault.h.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_INDEXCHECK_H
#define DT_RUNTIME_DATA_INDEXCHECK_H

#include <cstdint>

namespace dt::rt {

/// What generated code knows of its indices. Texts are constants of the
/// program; a device hands on their addresses only.
struct IndexCheck {
  const char *what = nullptr;  ///< "rows of 'embed.weight'"
  const char *input = nullptr; ///< of the module, that they come from; or null
  int64_t extent = 0;          ///< right are 0 to extent - 1,
  bool wrap = false;           ///< also -extent to -1,
  bool ignores = false;        ///< and `ignored`
  int64_t ignored = 0;
  bool local = false; ///< `base` is still to be added, and negative ones have
                      ///< been counted from the end
  int64_t base = 0;
  int64_t offset = 0, stride = 1; ///< which elements are for this axis
  int64_t row = 1;                ///< elements a row
  int64_t per = 0;     ///< not 0: places in order, of which each `per` elements
                       ///< have `extent`
  bool counts = false; ///< of a number of rows: right are up to `extent`
  int32_t module = 0;  ///< index in the program
  int32_t symbol = -1; ///< of the module, that counts the rows; -1: none
};

struct Fault {
  int32_t found = 0; ///< 0: nothing; the rest is meaningless then
  IndexCheck check;
  int64_t value = 0, place = 0; ///< the index (with `base`), its element
};

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_INDEXCHECK_H
