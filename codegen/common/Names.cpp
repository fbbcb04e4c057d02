//===- Names.cpp - from names in models to names in C++ -------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/Names.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

using namespace llvm;

namespace dt::codegen {

/// Keywords of C++20 and names that emitted code or the runtime's macros use.
static bool isReserved(StringRef name) {
  static const StringSet<> words = {
      "alignas",       "alignof",     "and",
      "and_eq",        "asm",         "auto",
      "bitand",        "bitor",       "bool",
      "break",         "case",        "catch",
      "char",          "char8_t",     "char16_t",
      "char32_t",      "class",       "compl",
      "concept",       "const",       "consteval",
      "constexpr",     "constinit",   "const_cast",
      "continue",      "co_await",    "co_return",
      "co_yield",      "decltype",    "default",
      "delete",        "do",          "double",
      "dynamic_cast",  "else",        "enum",
      "explicit",      "export",      "extern",
      "false",         "float",       "for",
      "friend",        "goto",        "if",
      "inline",        "int",         "long",
      "mutable",       "namespace",   "new",
      "noexcept",      "not",         "not_eq",
      "nullptr",       "operator",    "or",
      "or_eq",         "private",     "protected",
      "public",        "register",    "reinterpret_cast",
      "requires",      "return",      "short",
      "signed",        "sizeof",      "static",
      "static_assert", "static_cast", "struct",
      "switch",        "template",    "this",
      "thread_local",  "throw",       "true",
      "try",           "typedef",     "typeid",
      "typename",      "union",       "unsigned",
      "using",         "virtual",     "void",
      "volatile",      "wchar_t",     "while",
      "xor",           "xor_eq",      "main",
      "std",           "dt",          "asm",
      "linux",         "unix",        "NULL",
      "INFINITY",      "NAN",         "EOF",
      "errno",         "assert",      "int8_t",
      "int32_t",       "int64_t",     "uint8_t",
      "uint32_t",      "uint64_t",    "size_t"};
  return words.contains(name);
}

/// What EmitC calls its values (v1, i2 of a loop): ours must differ.
static bool looksGenerated(StringRef name) {
  return name.size() > 1 && isLower(name[0]) &&
         name.drop_front().find_if_not(isDigit) == StringRef::npos;
}

std::string identifier(StringRef name) {
  std::string result;
  for (char c : name) {
    char next = isAlnum(c) ? c : '_';
    // Two underscores in a row are reserved.
    if (next == '_' && !result.empty() && result.back() == '_')
      continue;
    result += next;
  }
  while (result.size() > 1 && result.back() == '_')
    result.pop_back();
  if (result.empty() || result == "_")
    result = "x";
  if (isDigit(result[0]))
    result = "n" + result;
  // An underscore and a capital is reserved, an underscore alone only globally;
  // drop both.
  if (result[0] == '_')
    result = identifier(StringRef(result).drop_front());
  if (isReserved(result) || looksGenerated(result))
    result += "_";
  return result;
}

std::string typeIdentifier(StringRef name) {
  std::string result;
  bool upper = true;
  for (char c : name) {
    if (!isAlnum(c)) {
      upper = true;
      continue;
    }
    result += upper ? toUpper(c) : c;
    upper = false;
  }
  if (result.empty() || isDigit(result[0]))
    result = "N" + result;
  return result;
}

std::string commentText(StringRef text) {
  std::string result = text.str();
  for (char &c : result)
    if (!isPrint(c) || c == '\\')
      c = '?';
  return result;
}

std::string markdownText(StringRef text) {
  std::string result;
  for (char c : commentText(text)) {
    if (StringRef("|<>&`*_[]").contains(c))
      result += '\\';
    result += c;
  }
  return result;
}

std::string snake(StringRef a, StringRef b) { return (a + "_" + b).str(); }

std::string camel(StringRef a, StringRef b) { return (a + b).str(); }

std::string dotted(StringRef a, StringRef b) { return (a + "." + b).str(); }

std::string NameScope::unique(StringRef wanted) {
  std::string base = identifier(wanted), name = base;
  for (int i = 2; !taken.insert(name).second; ++i)
    name = base + "_" + std::to_string(i);
  return name;
}

} // namespace dt::codegen
