//===- Fault.cpp - what is said of an index out of range ------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Fault.h"
#include "runtime/data/BatchSource.h"

#include <cstring>

namespace dt::rt {

namespace {

/// "sample 'a/0017'", "image 3": the item of the part that element `at` is
/// about; "element 3" where rows are no items.
std::string itemOf(const Fault &fault, int64_t at, const ModuleInfo &module,
                   const Part *part,
                   const std::function<std::string(int64_t)> &nameOf) {
  int64_t row = at / (fault.check.row > 0 ? fault.check.row : 1);
  size_t symbol = size_t(fault.check.symbol);
  if (fault.check.symbol < 0 || symbol >= module.symbols.size ||
      !module.symbols[symbol].item)
    return "element " + std::to_string(at);
  const char *item = module.symbols[symbol].item;
  if (!part || symbol >= part->items.size() ||
      row >= part->rows(symbol).total())
    return (module.symbols[symbol].measure ? module.symbols[symbol].measure
                                           : std::string(item)) +
           " " + std::to_string(row) + " of a microbatch";
  int64_t place = part->items[symbol][part->rows(symbol).itemAt(row)];
  bool sample = std::strcmp(item, "sample") == 0;
  if (sample && nameOf)
    return "sample '" + nameOf(place) + "'";
  return std::string(item) + " " + std::to_string(place);
}

/// Of places that rows fill in order: the items that have them together.
std::string itemsOf(const Fault &fault, const ModuleInfo &module,
                    const Part *part,
                    const std::function<std::string(int64_t)> &nameOf) {
  std::string last = itemOf(fault, fault.place, module, part, nameOf),
              first = itemOf(fault, fault.place - fault.check.per + 1, module,
                             part, nameOf);
  return first == last ? first : first + " to " + last;
}

} // namespace

std::string describeFault(const Fault &fault, const ProgramInfo &program,
                          const Part *part,
                          const std::function<std::string(int64_t)> &nameOf) {
  const IndexCheck &c = fault.check;
  const ModuleInfo &module = program.modules[size_t(c.module)];
  int64_t value = fault.value;
  if (c.local && c.wrap && value < 0)
    value -= c.extent;
  const char *name = module.origin ? module.origin : module.name;
  std::string text = c.input ? std::string("input '") + name + "." + c.input
                             : std::string("module '") + name;
  if (c.counts)
    return text + "': " + std::to_string(value) + " rows of " + c.what +
           ", where their capacity leaves room for " + std::to_string(c.extent);
  if (c.per > 0) {
    int64_t places = value + 1 - c.extent * (fault.place / c.per);
    return text + "', " + itemsOf(fault, module, part, nameOf) + ": " +
           std::to_string(places) + " places for " + std::to_string(c.extent) +
           " " + c.what;
  }
  text += "', " + itemOf(fault, fault.place, module, part, nameOf) + ": ";
  if (c.extent == 0)
    return text + "there are no " + c.what + ", and number " +
           std::to_string(value) + " is asked for";
  text += std::to_string(value) + " is none of the " +
          std::to_string(c.extent) + " " + c.what + " (" +
          std::to_string(c.wrap ? -c.extent : 0) + " to " +
          std::to_string(c.extent - 1);
  if (c.ignores)
    text += ", or " + std::to_string(c.ignored);
  return text + ")";
}

std::string describeMissing(const ProgramInfo &program,
                            const std::string &module,
                            const std::string &input) {
  std::string full = module + "." + input;
  for (const LossInfo &loss : program.losses) {
    const ModuleInfo &own = program.modules[size_t(loss.module)];
    for (int32_t i : loss.denominatorInputs)
      if (module == (own.origin ? own.origin : own.name) &&
          input == own.inputs[size_t(i)].buffer.tensor.name)
        return "tensor '" + input + "' (or '" + full + "'), which the loss '" +
               loss.name + "' compares with, is missing";
  }
  return "tensor '" + full + "' (or '" + input + "') is missing";
}

} // namespace dt::rt
