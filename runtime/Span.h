//===- Span.h - constant arrays of tables -----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_SPAN_H
#define DT_RUNTIME_SPAN_H

#include <cstddef>

namespace dt::rt {

/// A constant array seen by reference: `{array, length}` or just the array.
template <typename T> struct Span {
  const T *data = nullptr;
  size_t size = 0;

  constexpr Span() = default;
  constexpr Span(const T *data, size_t size) : data(data), size(size) {}
  template <size_t N>
  constexpr Span(const T (&array)[N]) : data(array), size(N) {}
  constexpr const T *begin() const { return data; }
  constexpr const T *end() const { return data + size; }
  constexpr const T &operator[](size_t i) const { return data[i]; }
  constexpr bool empty() const { return size == 0; }
};

} // namespace dt::rt

#endif // DT_RUNTIME_SPAN_H
