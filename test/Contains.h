//===- Contains.h - Texts that hold another ---------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DT_TEST_CONTAINS_H
#define DT_TEST_CONTAINS_H

#include <gtest/gtest.h>

#include <string>

/// Shows both if `part` is not in `text`.
#define EXPECT_CONTAINS(text, part)                                            \
  EXPECT_PRED_FORMAT2(testing::IsSubstring, std::string(part),                 \
                      std::string(text))

/// And if `text` does not begin with it.
#define EXPECT_BEGINS(text, part)                                              \
  EXPECT_PRED2(                                                                \
      [](const std::string &whole, const std::string &begin) {                 \
        return whole.rfind(begin, 0) == 0;                                     \
      },                                                                       \
      std::string(text), std::string(part))

#endif // DT_TEST_CONTAINS_H
