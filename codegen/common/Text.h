//===- Text.h - C++ that EmitC has no op for, as text -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// All text of emitted lines, literals and opaque attributes is made here
// (test/check_text.py): what has no op in EmitC, what EmitC would call v1, v2,
// ..., and subscripts and arguments of calls, for each of which it would print
// a variable. docs/names.md has the list.
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_COMMON_TEXT_H
#define CODEGEN_COMMON_TEXT_H

#include "dialects/nn/DimExpr.h"
#include "runtime/Enums.h"

#include "mlir/IR/Attributes.h"
#include "llvm/ADT/ArrayRef.h"

#include <optional>
#include <string>
#include <type_traits>

namespace dt::codegen {

/// Text of a size as C++: the symbol `s` reads as `prefix` followed by its
/// identifier.
std::string dimText(const nn::DimExpr &dim, llvm::StringRef prefix = "");
/// For comments: "[2*40, 64]".
std::string shapeText(llvm::ArrayRef<nn::DimExpr> shape);
/// A constant.
std::string constantText(mlir::Attribute value);
/// A number with all digits that a double has.
std::string numberText(double value);
/// A C++ string literal with quotes.
std::string quoted(llvm::StringRef text);

namespace cpp {

/// C++, or a number as C++.
struct Code : std::string {
  Code(const char *text) : std::string(text) {}
  Code(std::string text) : std::string(std::move(text)) {}
  Code(llvm::StringRef text) : std::string(text.str()) {}
  template <typename T, std::enable_if_t<std::is_integral_v<T>> * = nullptr>
  Code(T number) : std::string(std::to_string(number)) {}
};
using Codes = llvm::ArrayRef<Code>;

//===----------------------------------------------------------------------===//
// Expressions: operands are put in parentheses where they need some
//===----------------------------------------------------------------------===//

/// In parentheses, unless no operator can tear it apart.
std::string atom(const Code &x);
/// Neither 0 is added nor by 1 multiplied.
std::string sum(const Code &a, const Code &b);
std::string difference(const Code &a, const Code &b);
std::string product(const Code &a, const Code &b);
std::string quotient(const Code &a, const Code &b);
std::string remainder(const Code &a, const Code &b);
/// `a < b`, with the operator given.
std::string compare(const Code &a, const Code &op, const Code &b);
std::string both(const Code &a, const Code &b);
std::string either(const Code &a, const Code &b);
std::string negation(const Code &x);
std::string select(const Code &condition, const Code &yes, const Code &no);
/// `array[at]`
std::string element(const Code &array, const Code &at);
std::string member(const Code &object, const Code &name);
std::string addressOf(const Code &x);
/// The type `x&`, as EmitC prints types.
std::string reference(const Code &x);
/// `callee(a, b)`
std::string call(const Code &callee, Codes arguments);
/// `name<a, b>`
std::string templated(const Code &name, Codes arguments);
/// `a::b`
std::string scoped(const Code &scope, const Code &name);
/// `dt::rt::name`
std::string runtime(const Code &name);
/// `kind<to>(x)`: reinterpret_cast or static_cast to `to *`.
std::string castTo(const Code &kind, const Code &to, const Code &x);

/// `.name = value`, for lists.
std::string field(const Code &name, const Code &value);
/// `{a, b}`; with `indent` a line each but for the first.
std::string list(Codes values, unsigned indent = 0);
/// `type{a, b}`
std::string construct(const Code &type, Codes values, unsigned indent = 0);
/// The initial value of a table: a line each.
std::string table(Codes values);
std::string hexadecimal(uint64_t number);
std::string unsignedNumber(uint64_t number);
/// `x /*what*/`
std::string annotated(const Code &x, const Code &what);

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

/// The words of a type, or of a declaration: `const float *x`.
std::string words(Codes words);
std::string statement(const Code &x);
/// `type name;`, with a value `type name = value;`.
std::string declare(const Code &type, const Code &name, const Code &value = "");
/// `const type name = value;`
std::string constant(const Code &type, const Code &name, const Code &value);
/// `const type a = 1, b = 2;`
std::string
constants(const Code &type,
          llvm::ArrayRef<std::pair<std::string, std::string>> namesAndValues);
std::string assign(const Code &place, const Code &value);
/// `for (; bits; bits &= bits - 1) {`, up to `close()`.
std::string openBits(const Code &bits);
std::string close();
std::string pragma(Codes words);
/// Of a pragma: `name(what : x)`.
std::string clause(const Code &name, const Code &what, const Code &x);

/// `// a b`; anybody's text may stand in it.
std::string comment(Codes words);
/// `/// a b`
std::string documentation(Codes words);
/// In comments: `a b.`, `a, b` and `'a'`.
std::string phrase(Codes words);
std::string listed(Codes parts);
std::string cited(const Code &name);
/// `@name`, as in the IR.
std::string symbol(const Code &name);
/// `label: what`
std::string labelled(const Code &label, const Code &what);

} // namespace cpp

/// A case of an enum of runtime/Enums.h: "dt::rt::Reduction::Sum".
template <typename E> std::string enumText(E value) {
  using Table = rt::EnumTable<E>;
  return cpp::scoped(cpp::runtime(Table::name),
                     Table::cases[size_t(value)].name);
}
/// Empty if there is none.
template <typename E> std::string enumText(std::optional<E> value) {
  return value ? enumText(*value) : "";
}

} // namespace dt::codegen

#endif // CODEGEN_COMMON_TEXT_H
