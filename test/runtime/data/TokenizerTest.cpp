//===- TokenizerTest.cpp - words and bytes ----------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Beside the regular expression that docs/data-recipe.md states.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/data/Fixture.h"

using namespace dt;
using namespace dt::rt::data;
using namespace dt::test;

namespace {
using Words = std::vector<std::string>;

TEST(Tokenizer, SplitsLikeTheExpression) {
  EXPECT_EQ(splitWords("front-facing  Baby Chick"),
            (Words{"front", "-", "facing", "baby", "chick"}));
  EXPECT_EQ(splitWords("it\xe2\x80\x99s 2pm!"), (Words{"it's", "2pm", "!"}));
  EXPECT_EQ(splitWords("pi\xc3\x91"
                       "ata\xc2\xa0x"),
            (Words{"pi", "\xc3\xb1", "ata", "x"}));
  EXPECT_EQ(splitWords("\xf0\x9f\x90\x88"), (Words{"\xf0\x9f\x90\x88"}));
  EXPECT_EQ(splitWords(" \n"), Words{});
}

TEST(Tokenizer, RefusesWhatIsNotUtf8) {
  for (std::string bad : {"\xff", "a\xc3", "\xc0\xaf", "\xed\xa0\x80",
                          "\xf5\x80\x80\x80", "\xe2\x82"}) {
    EXPECT_FALSE(isUtf8(bad));
    EXPECT_EQ(errorOf([&] { splitWords(bad); }), "text is not UTF-8");
  }
}

TEST(Tokenizer, Words) {
  Tokenizer t = Tokenizer::words(5, {"a", "b", "-"}, -1);
  EXPECT_EQ(t.size(), 8);
  EXPECT_EQ(t.encode("b A-b"), (std::vector<int32_t>{6, 5, 7, 6}));
  EXPECT_EQ(t.decode({1, 6, 5, 7, 6, 3}), "b a-b");
  EXPECT_EQ(errorOf([&] { t.encode("a c"); }),
            "the word 'c' is not in the vocabulary");
  EXPECT_EQ(Tokenizer::words(5, {"a"}, 2).encode("a c"),
            (std::vector<int32_t>{5, 2}));
  EXPECT_NE(errorOf([] { Tokenizer::words(0, {"a", "a"}, -1); }), "");
}

TEST(Tokenizer, Bytes) {
  Tokenizer t = Tokenizer::bytes(3);
  EXPECT_EQ(t.size(), 259);
  EXPECT_EQ(t.encode("A\xff"), (std::vector<int32_t>{68, 258}));
  EXPECT_EQ(t.decode({68, 258, 0}), "A\xff");
}
} // namespace
