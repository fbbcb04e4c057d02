//===- EnumTexts.h - enums from their texts ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_ENUMTEXTS_H
#define DT_RUNTIME_ENUMTEXTS_H

#include "runtime/Enums.h"

#include <optional>
#include <string_view>

namespace dt::rt {

/// The case of that text, or none.
template <typename E>
constexpr std::optional<E> fromText(std::string_view text) {
  size_t number = 0;
  for (const EnumCase &one : EnumTable<E>::cases) {
    if (text == one.text)
      return E(number);
    ++number;
  }
  return std::nullopt;
}

/// Whether a case has that number.
template <typename E> bool hasCase(uint64_t number) {
  for (const EnumCase &one : EnumTable<E>::cases) {
    (void)one;
    if (number-- == 0)
      return true;
  }
  return false;
}

} // namespace dt::rt

#endif // DT_RUNTIME_ENUMTEXTS_H
