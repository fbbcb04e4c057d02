//===- Binding.h - a program's tables against the data sections -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Which entry of "inputs" makes which raw input, what a symbol counts, and what
// has to be read from the shards for it: a rank decodes no picture that none of
// its modules looks at.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_BINDING_H
#define DT_RUNTIME_DATA_BINDING_H

#include "runtime/Program.h"
#include "runtime/data/Config.h"

#include <vector>

namespace dt::rt::data {

struct ModuleBinding {
  struct Symbol {
    bool counts = false; ///< items of `item`; else it is `value`
    int item = sampleItem;
    int64_t value = 0;
  };
  std::vector<Symbol> symbols;
  std::vector<int> entries; ///< per input, of Config::inputs; -1: an edge
  /// Parts are cut by sample; else by items of this picture kind alone.
  int item = sampleItem;
  bool needsDocument = false;
  std::vector<bool> needsPixels; ///< per picture kind

  std::vector<int64_t> values() const; ///< of the symbols
};

/// A binding for each module; throws Error for what does not fit together.
std::vector<ModuleBinding> bindModules(const ProgramInfo &program,
                                       const Config &config);

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_BINDING_H
