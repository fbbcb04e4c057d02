//===- TextTest.cpp - C++ as text -----------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/Text.h"

#include <gtest/gtest.h>

using namespace dt::codegen;

namespace {

TEST(Text, OperandsHaveTheParenthesesThatTheyNeed) {
  EXPECT_EQ(cpp::product(cpp::sum("a", "b"), "c"), "(a + b) * c");
  EXPECT_EQ(cpp::sum(cpp::product("a", "b"), "c"), "a * b + c");
  EXPECT_EQ(cpp::difference("a", cpp::difference("b", "c")), "a - (b - c)");
  EXPECT_EQ(cpp::difference(cpp::difference("a", "b"), "c"), "a - b - c");
  EXPECT_EQ(cpp::quotient("a", cpp::quotient("b", "c")), "a / (b / c)");
  EXPECT_EQ(cpp::remainder(cpp::quotient("a", "b"), 4), "(a / b) % 4");
  EXPECT_EQ(cpp::compare(cpp::sum("a", 1), "<", "b"), "a + 1 < b");
  EXPECT_EQ(cpp::compare(cpp::compare("a", "<", "b"), "==", "c"),
            "(a < b) == c");
  EXPECT_EQ(cpp::both(cpp::either("a", "b"), cpp::compare("c", "<", 0)),
            "(a || b) && c < 0");
  EXPECT_EQ(cpp::either(cpp::both("a", "b"), cpp::negation("c")),
            "(a && b) || !c");
  EXPECT_EQ(cpp::negation(cpp::both("a", "b")), "!(a && b)");
  EXPECT_EQ(cpp::sum(cpp::select("a", "b", "c"), "d"), "(a ? b : c) + d");
  EXPECT_EQ(cpp::select(cpp::both("a", "b"), cpp::sum("c", "d"), 0),
            "a && b ? c + d : 0");
}

TEST(Text, BracketsHoldTogether) {
  for (const char *whole :
       {"a", "a.b", "dt::rt::kInf", "f(a >= b, c > d)", "f<A, 4>(x + y)[i < j]",
        "g(\"a) b (\" , c)", "T{.a = 1}", "1e-05f"})
    EXPECT_EQ(cpp::atom(whole), whole);
  EXPECT_EQ(cpp::atom("(a >= b) * (c)"), "((a >= b) * (c))");
  EXPECT_EQ(cpp::atom("f<A, 4>(x) + y"), "(f<A, 4>(x) + y)");
  EXPECT_EQ(cpp::atom("-3"), "(-3)");
}

TEST(Text, NothingIsAddedOrMultipliedThatDoesNothing) {
  EXPECT_EQ(cpp::sum(0, "a"), "a");
  EXPECT_EQ(cpp::sum("a", 0), "a");
  EXPECT_EQ(cpp::product("a", 1), "a");
  EXPECT_EQ(cpp::product(1, "a + b"), "a + b");
  EXPECT_EQ(cpp::quotient("a + b", 1), "a + b");
  EXPECT_EQ(cpp::product(0, "a"), "0 * a");
}

TEST(Text, Declarations) {
  EXPECT_EQ(cpp::words({"const", "float", "*", "__restrict", "const"}),
            "const float *__restrict const");
  EXPECT_EQ(cpp::constant("auto &", "size", "context.size"),
            "const auto &size = context.size;");
  EXPECT_EQ(cpp::declare("float", cpp::element("a", 4)), "float a[4];");
  EXPECT_EQ(cpp::constants("int", {{"a", "1"}, {"b", "2"}}),
            "const int a = 1, b = 2;");
  EXPECT_EQ(cpp::castTo("static_cast", "float", "x"),
            "static_cast<float *>(x)");
}

TEST(Text, Lists) {
  EXPECT_EQ(cpp::list({}), "{}");
  EXPECT_EQ(cpp::list({cpp::field("a", 1), cpp::field("b", "c")}),
            "{.a = 1, .b = c}");
  EXPECT_EQ(cpp::construct("T", {1, 2}, 2), "T{1,\n  2}");
  EXPECT_EQ(cpp::table({1, 2}), "{\n    1,\n    2}");
}

TEST(Text, NamesCannotEndComments) {
  EXPECT_EQ(cpp::comment({"a\n#define b \\"}), "// a?#define b ?");
  EXPECT_EQ(quoted("a\"\n"), "\"a\\042\\012\"");
}

} // namespace
