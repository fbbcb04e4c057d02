//===- ConfigPictures.h - pictures of a recipe's data section --*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_CONFIGPICTURES_H
#define DT_RUNTIME_DATA_CONFIGPICTURES_H

#include "runtime/data/Config.h"
#include "runtime/data/Json.h"

namespace dt::rt::data {

/// What `items` says of a kind.
struct ItemKind {
  int64_t max = 1;
  std::string measure; ///< the only one; empty: there is none
  int64_t most = 0;
};
using ItemKinds = std::map<std::string, ItemKind>;

/// Fills `config.pictures`. Throws Error.
void readPictures(Config &config, const JsonView &data, const ItemKinds &items);

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_CONFIGPICTURES_H
