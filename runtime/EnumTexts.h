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
  for (size_t i = 0; i < kCases<E>; ++i)
    if (text == EnumTable<E>::cases[i].text)
      return E(i);
  return std::nullopt;
}

} // namespace dt::rt

#endif // DT_RUNTIME_ENUMTEXTS_H
