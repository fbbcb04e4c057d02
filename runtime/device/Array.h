//===- Array.h - arrays in device memory ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DEVICE_ARRAY_H
#define DT_RUNTIME_DEVICE_ARRAY_H

#include "runtime/device/Device.h"

#include <algorithm>
#include <type_traits>
#include <vector>

namespace dt::rt::device {

/// Owns its elements. Constructors throw Error as allocate(), with `what`.
template <typename T> class Array {
  static_assert(std::is_trivially_copyable_v<T>);

public:
  /// Zeros.
  Array(size_t count, const char *what)
      : elements(static_cast<T *>(allocate(count * sizeof(T), what))),
        count(count) {}
  /// A copy of what the host has.
  Array(const std::vector<T> &host, const char *what)
      : Array(host.size(), what) {
    copyToDevice(elements, host.data(), count * sizeof(T));
  }
  Array(Array &&other) noexcept : elements(other.elements), count(other.count) {
    other.elements = nullptr;
  }
  Array(const Array &) = delete;
  Array &operator=(const Array &) = delete;
  ~Array() {
    if (elements)
      release(elements);
  }

  T *data() const { return elements; }
  size_t size() const { return count; }

private:
  T *elements;
  size_t count;
};

/// A table of runs that owns it.
template <typename Run> class RunTable {
public:
  RunTable(const std::vector<Run> &runs, const char *what) : table(runs, what) {
    for (const Run &run : runs)
      longest = std::max(longest, run.count);
  }
  operator Runs<Run>() const { return {table.data(), table.size(), longest}; }

private:
  Array<Run> table;
  size_t longest = 0;
};

} // namespace dt::rt::device

#endif // DT_RUNTIME_DEVICE_ARRAY_H
