//===- BracesTest.cpp - names that a pattern's braces stand for -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What Python's braceexpand gives for the same patterns.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/data/Fixture.h"

#include "runtime/data/Braces.h"
#include "runtime/data/Index.h"

using namespace dt;
using namespace dt::rt::data;
using namespace dt::test;

namespace {
using BraceNames = std::vector<std::string>;

TEST(Braces, Lists) {
  EXPECT_EQ(expandBraces("a.tar"), (BraceNames{"a.tar"}));
  EXPECT_EQ(expandBraces("{a,b}.tar"), (BraceNames{"a.tar", "b.tar"}));
  EXPECT_EQ(expandBraces("s{,1}"), (BraceNames{"s", "s1"}));
  EXPECT_EQ(expandBraces("{a,b{c,d}}{1,2}"),
            (BraceNames{"a1", "a2", "bc1", "bc2", "bd1", "bd2"}));
  EXPECT_EQ(expandBraces("{a}/{}/{x{1,2}}"),
            (BraceNames{"{a}/{}/{x1}", "{a}/{}/{x2}"}));
  EXPECT_EQ(expandBraces("\\{a,b\\}{c\\,d,e}"),
            (BraceNames{"\\{a,b\\}c\\,d", "\\{a,b\\}e"}));
  EXPECT_EQ(expandBraces(""), (BraceNames{""}));
}

TEST(Braces, Ranges) {
  EXPECT_EQ(expandBraces("{000000..000002}.tar"),
            (BraceNames{"000000.tar", "000001.tar", "000002.tar"}));
  EXPECT_EQ(expandBraces("{8..11}"), (BraceNames{"8", "9", "10", "11"}));
  EXPECT_EQ(expandBraces("{08..11}"), (BraceNames{"08", "09", "10", "11"}));
  EXPECT_EQ(expandBraces("{8..010}"), (BraceNames{"008", "009", "010"}));
  EXPECT_EQ(expandBraces("{3..1}"), (BraceNames{"3", "2", "1"}));
  EXPECT_EQ(expandBraces("{0..7..3}"), (BraceNames{"0", "3", "6"}));
  EXPECT_EQ(expandBraces("{-01..1}"), (BraceNames{"-01", "000", "001"}));
  EXPECT_EQ(expandBraces("{a..e..2}"), (BraceNames{"a", "c", "e"}));
  EXPECT_EQ(expandBraces("{a,{1..2}}"), (BraceNames{"a", "1", "2"}));
  EXPECT_EQ(expandBraces("{1..2}{x..y}"), (BraceNames{"1x", "1y", "2x", "2y"}));
  EXPECT_EQ(expandBraces("{1..b}{..}{1..}"), (BraceNames{"{1..b}{..}{1..}"}));
}

TEST(Braces, Errors) {
  EXPECT_ERROR(expandBraces("s{1,2"), "s{1,2: a '{' without its '}'");
  EXPECT_ERROR(expandBraces("s1}"), "s1}: a '}' without its '{'");
  EXPECT_ERROR(expandBraces("{0..9..0}"), "a range with a step of 0");
  EXPECT_ERROR(expandBraces("{0..9}{0..9}", 99),
               "{0..9}{0..9}: its braces stand for more than 99 names");
  EXPECT_EQ(expandBraces("{0..9}{0..9}", 100).size(), 100u);
  EXPECT_ERROR(expandBraces("{0..999999999999}"), "more than 1048576 names");
  EXPECT_ERROR(expandBraces("{0..9999}{0..9999}{0..9999}{0..9999}"),
               "more than 1048576 names");
  EXPECT_ERROR(expandBraces("{0..9999999999999999999}"),
               "has more than 18 digits");
  EXPECT_ERROR(
      expandBraces(std::string(100000, '{') + std::string(100000, '}')),
      "more than 32 braces in each other");
}

using PatternTest = DataTest;

TEST_F(PatternTest, BracesNameShards) {
  BraceNames all;
  for (const char *name : {"000000.tar", "000001.tar", "000002.tar"})
    all.push_back(writeShard(name, documentFiles("a")));
  EXPECT_EQ(expandPattern(path("{000000..000002}.tar")).paths, all);
}

TEST_F(PatternTest, NamesOnce) {
  std::string shard = writeShard("0.tar", documentFiles("a"));
  EXPECT_EQ(expandPattern(path("{0,*,{0..0}}.tar")).paths, (BraceNames{shard}));
}

TEST_F(PatternTest, EveryNameOfBracesMustBeThere) {
  writeShard("000000.tar", documentFiles("a"));
  std::string pattern = path("{000000..000003}.tar");
  EXPECT_ERROR(expandPattern(pattern), pattern + ": no such shard: " +
                                           path("000001.tar") + " and 2 more");
  pattern = path("{000000,000007}.tar");
  EXPECT_ERROR(expandPattern(pattern),
               pattern + ": no such shard: " + path("000007.tar"));
  EXPECT_ERROR(expandPattern(path("{0,1*}")), "{0,1*}: no such shard: ");
  EXPECT_ERROR(expandPattern(path("{a*,b*}.tar")),
               path("{a*,b*}.tar") + ": no such shard");
}
} // namespace
