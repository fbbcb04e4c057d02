//===- Text.cpp - C++ that EmitC has no op for, as text -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/Text.h"
#include "codegen/common/Names.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;

namespace dt::codegen {

//===----------------------------------------------------------------------===//
// Sizes and constants
//===----------------------------------------------------------------------===//

std::string dimText(const nn::DimExpr &dim, StringRef prefix) {
  std::string result;
  for (const nn::DimExpr::Term &term : dim.terms()) {
    int64_t c = term.coefficient;
    if (!result.empty()) {
      result += c < 0 ? " - " : " + ";
      c = c < 0 ? -c : c;
    }
    SmallVector<std::string> factors;
    if (c != 1 || term.symbols.empty())
      factors.push_back(std::to_string(c));
    for (const std::string &symbol : term.symbols)
      factors.push_back((prefix + identifier(symbol)).str());
    result += join(factors, " * ");
  }
  return result.empty() ? "0" : result;
}

std::string shapeText(ArrayRef<nn::DimExpr> shape) {
  SmallVector<std::string> dims;
  for (const nn::DimExpr &dim : shape)
    dims.push_back(dim.str());
  return "[" + join(dims, ", ") + "]";
}

/// The fewest digits that give the same float again.
static std::string floatText(const APFloat &value, bool isDouble) {
  if (value.isNaN())
    return "dt::rt::kNaN";
  if (value.isInfinity())
    return value.isNegative() ? "(-dt::rt::kInf)" : "dt::rt::kInf";
  double number =
      isDouble ? value.convertToDouble() : double(value.convertToFloat());
  std::string text;
  for (int digits = isDouble ? 15 : 6; digits <= 17; ++digits) {
    text.clear();
    raw_string_ostream(text) << format("%.*g", digits, number);
    double again = std::strtod(text.c_str(), nullptr);
    if (isDouble ? again == number : float(again) == float(number))
      break;
  }
  if (text.find_first_of(".e") == std::string::npos)
    text += ".0";
  if (!isDouble)
    text += "f";
  return value.isNegative() ? "(" + text + ")" : text;
}

std::string constantText(mlir::Attribute value) {
  if (auto number = dyn_cast<mlir::FloatAttr>(value))
    return floatText(number.getValue(), number.getType().isF64());
  auto integer = cast<mlir::IntegerAttr>(value);
  if (integer.getType().isInteger(1))
    return integer.getValue().isZero() ? "false" : "true";
  if (integer.getType().isUnsignedInteger())
    return std::to_string(integer.getValue().getZExtValue());
  int64_t number = integer.getValue().getSExtValue();
  if (number == std::numeric_limits<int64_t>::min())
    return "INT64_MIN";
  return number < 0 ? "(" + std::to_string(number) + ")"
                    : std::to_string(number);
}

std::string numberText(double value) {
  std::string text;
  raw_string_ostream(text) << format("%.17g", value);
  return text;
}

std::string quoted(StringRef text) {
  // Octal escapes end after three digits, whatever follows; no trigraph
  // survives.
  std::string result = "\"";
  for (unsigned char c : text) {
    if (isPrint(c) && c != '"' && c != '\\' && c != '?')
      result += char(c);
    else {
      const char digits[] = {'\\', char('0' + (c >> 6)),
                             char('0' + (c >> 3 & 7)), char('0' + (c & 7))};
      result.append(digits, 4);
    }
  }
  return result + "\"";
}

namespace cpp {

//===----------------------------------------------------------------------===//
// Expressions
//===----------------------------------------------------------------------===//

namespace {

/// How loosely an expression's parts hang together.
enum Looseness { Atom, Factors, Terms, Comparison, And, Or, Conditional };

Looseness loosenessOf(StringRef op) {
  return StringSwitch<Looseness>(op)
      .Cases({"*", "/", "%"}, Factors)
      .Cases({"+", "-"}, Terms)
      .Cases({"<", "<=", ">", ">=", "==", "!="}, Comparison)
      .Case("&&", And)
      .Case("||", Or)
      .Cases({"?", ":"}, Conditional)
      .Default(Atom);
}

/// The loosest operator outside of brackets: all that have two operands stand
/// between spaces.
Looseness loosest(StringRef text) {
  Looseness result = text.starts_with("-") ? Factors : Atom;
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    // Escapes are octal: a quote ends the string.
    inString ^= c == '"';
    if (inString)
      continue;
    // Of a comparison it would stand behind a space.
    bool angle = i > 0 && !StringRef(" -").contains(text[i - 1]);
    if (StringRef("([{").contains(c) || (c == '<' && angle))
      ++depth;
    else if (StringRef(")]}").contains(c) || (c == '>' && angle))
      --depth;
    else if (c == ' ' && depth == 0)
      result = std::max(result, loosenessOf(text.drop_front(i + 1).take_until(
                                    [](char next) { return next == ' '; })));
  }
  return result;
}

std::string operand(const Code &x, Looseness most) {
  return loosest(x) > most ? "(" + x + ")" : std::string(x);
}

} // namespace

std::string atom(const Code &x) { return operand(x, Atom); }

std::string sum(const Code &a, const Code &b) {
  if (a == "0" || b == "0")
    return a == "0" ? b : a;
  return operand(a, Terms) + " + " + operand(b, Terms);
}

std::string difference(const Code &a, const Code &b) {
  return operand(a, Terms) + " - " + operand(b, Factors);
}

std::string product(const Code &a, const Code &b) {
  if (a == "1" || b == "1")
    return a == "1" ? b : a;
  return atom(a) + " * " + atom(b);
}

std::string quotient(const Code &a, const Code &b) {
  return b == "1" ? std::string(a) : atom(a) + " / " + atom(b);
}

std::string remainder(const Code &a, const Code &b) {
  return atom(a) + " % " + atom(b);
}

std::string compare(const Code &a, const Code &op, const Code &b) {
  return operand(a, Terms) + " " + op + " " + operand(b, Terms);
}

std::string both(const Code &a, const Code &b) {
  return operand(a, And) + " && " + operand(b, And);
}

std::string either(const Code &a, const Code &b) {
  return operand(a, Comparison) + " || " + operand(b, Comparison);
}

std::string negation(const Code &x) { return "!" + atom(x); }

std::string select(const Code &condition, const Code &yes, const Code &no) {
  return operand(condition, Or) + " ? " + operand(yes, Or) + " : " +
         operand(no, Or);
}

std::string element(const Code &array, const Code &at) {
  return array + "[" + at + "]";
}

std::string member(const Code &object, const Code &name) {
  return object + "." + name;
}

std::string addressOf(const Code &x) { return "&" + x; }

std::string reference(const Code &x) { return x + "&"; }

std::string call(const Code &callee, Codes arguments) {
  return callee + "(" + join(arguments, ", ") + ")";
}

std::string templated(const Code &name, Codes arguments) {
  return name + "<" + join(arguments, ", ") + ">";
}

std::string scoped(const Code &scope, const Code &name) {
  return scope + "::" + name;
}

std::string runtime(const Code &name) { return scoped("dt::rt", name); }

std::string castTo(const Code &kind, const Code &to, const Code &x) {
  return call(templated(kind, {words({to, "*"})}), {x});
}

std::string field(const Code &name, const Code &value) {
  return "." + name + " = " + value;
}

std::string list(Codes values, unsigned indent) {
  std::string separator = indent ? ",\n" + std::string(indent, ' ') : ", ";
  return "{" + join(values, separator) + "}";
}

std::string construct(const Code &type, Codes values, unsigned indent) {
  return type + list(values, indent);
}

std::string table(Codes values) {
  return "{\n    " + join(values, ",\n    ") + "}";
}

std::string hexadecimal(uint64_t number) {
  return "0x" + utohexstr(number) + "u";
}

std::string unsignedNumber(uint64_t number) {
  return std::to_string(number) + "u";
}

std::string annotated(const Code &x, const Code &what) {
  return x + " /*" + what + "*/";
}

//===----------------------------------------------------------------------===//
// Statements
//===----------------------------------------------------------------------===//

std::string words(Codes words) {
  std::string result;
  for (const Code &word : words) {
    bool pointer = !result.empty() && StringRef("*&").contains(result.back());
    result += (result.empty() || pointer ? "" : " ") + word;
  }
  return result;
}

std::string statement(const Code &x) { return x + ";"; }

std::string declare(const Code &type, const Code &name, const Code &value) {
  std::string declared = words({type, name});
  return value.empty() ? statement(declared) : assign(declared, value);
}

std::string constant(const Code &type, const Code &name, const Code &value) {
  return declare(words({"const", type}), name, value);
}

std::string
constants(const Code &type,
          ArrayRef<std::pair<std::string, std::string>> namesAndValues) {
  SmallVector<std::string> all;
  for (auto &[name, value] : namesAndValues)
    all.push_back(name + " = " + value);
  return "const " + type + " " + join(all, ", ") + ";";
}

std::string assign(const Code &place, const Code &value) {
  return place + " = " + value + ";";
}

std::string openBits(const Code &bits) {
  return "for (; " + bits + "; " + bits + " &= " + bits + " - 1) {";
}

std::string close() { return "}"; }

std::string pragma(Codes words) { return "#pragma " + join(words, " "); }

std::string clause(const Code &name, const Code &what, const Code &x) {
  return name + "(" + what + " : " + x + ")";
}

std::string comment(Codes words) {
  return "// " + commentText(join(words, " "));
}

std::string documentation(Codes words) { return "/" + comment(words); }

std::string phrase(Codes words) { return join(words, " ") + "."; }

std::string listed(Codes parts) { return join(parts, ", "); }

std::string symbol(const Code &name) { return "@" + name; }

std::string labelled(const Code &label, const Code &what) {
  return label + ": " + what;
}

std::string cited(const Code &name) { return "'" + name + "'"; }

} // namespace cpp
} // namespace dt::codegen
