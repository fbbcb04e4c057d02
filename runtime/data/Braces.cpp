//===- Braces.cpp - names that a pattern stands for -----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Braces.h"

#include "runtime/base/Files.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <glob.h>
#include <optional>

using namespace dt::rt;
using namespace dt::rt::data;

namespace {
using Names = std::vector<std::string>;

constexpr int kDeepest = 32;       ///< braces in braces
constexpr size_t kMostDigits = 18; ///< of an end, so that it fits

struct Range {
  int64_t first, last, step;
  size_t width; ///< 0: as many digits as a number has
  bool letters;
};

class BraceExpander {
public:
  BraceExpander(const std::string &pattern, size_t most)
      : pattern(pattern), most(most) {}

  Names run() { return expand(pattern, 0); }

private:
  [[noreturn]] void fail(const std::string &reason) const {
    throw Error(pattern + ": " + reason);
  }
  [[noreturn]] void failMany() const {
    fail("its braces stand for more than " + std::to_string(most) + " names");
  }

  /// All combinations of what the pieces of `text` stand for.
  Names expand(const std::string &text, int depth) const {
    if (depth > kDeepest)
      fail("more than " + std::to_string(kDeepest) + " braces in each other");
    Names out{""};
    for (size_t at = 0; at < text.size();) {
      size_t end = text[at] == '{' ? closing(text, at) + 1 : plainEnd(text, at);
      std::string piece = text.substr(at, end - at);
      out = combine(out,
                    text[at] == '{' ? expandBrace(piece, depth) : Names{piece});
      at = end;
    }
    return out;
  }

  Names combine(const Names &left, const Names &right) const {
    if (left.size() > most / right.size())
      failMany();
    Names out;
    out.reserve(left.size() * right.size());
    for (const std::string &l : left)
      for (const std::string &r : right)
        out.push_back(l + r);
    return out;
  }

  /// `text` from `{` to `}`.
  Names expandBrace(const std::string &text, int depth) const {
    std::string inside = text.substr(1, text.size() - 2);
    if (std::optional<Range> range = readRange(inside))
      return expandRange(*range);
    Names parts = splitList(inside), out;
    for (const std::string &part : parts)
      for (std::string &name : expand(part, depth + 1)) {
        if (out.size() == most)
          failMany();
        out.push_back(parts.size() > 1 ? std::move(name) : "{" + name + "}");
      }
    return out;
  }

  /// Of plain text up to a brace.
  size_t plainEnd(const std::string &text, size_t at) const {
    for (; at < text.size() && text[at] != '{'; ++at)
      if (text[at] == '\\')
        ++at;
      else if (text[at] == '}')
        fail("a '}' without its '{' (\\} stands for the character)");
    return std::min(at, text.size());
  }

  size_t closing(const std::string &text, size_t open) const {
    int depth = 0;
    for (size_t at = open; at < text.size(); ++at)
      if (text[at] == '\\')
        ++at;
      else if (text[at] == '{')
        ++depth;
      else if (text[at] == '}' && --depth == 0)
        return at;
    fail("a '{' without its '}' (\\{ stands for the character)");
  }

  static Names splitList(const std::string &inside) {
    Names parts{""};
    int depth = 0;
    for (size_t at = 0; at < inside.size(); ++at) {
      char c = inside[at];
      depth += (c == '{') - (c == '}');
      if (c == ',' && depth == 0) {
        parts.emplace_back();
        continue;
      }
      parts.back() += c;
      if (c == '\\' && at + 1 < inside.size())
        parts.back() += inside[++at];
    }
    return parts;
  }

  static bool isNumber(const std::string &text) {
    size_t sign = !text.empty() && text[0] == '-';
    return text.size() > sign &&
           std::all_of(text.begin() + ptrdiff_t(sign), text.end(),
                       [](unsigned char c) { return std::isdigit(c); });
  }
  static bool isLetter(const std::string &text) {
    return text.size() == 1 &&
           std::isalpha(static_cast<unsigned char>(text[0]));
  }

  int64_t number(const std::string &text) const {
    if (text.size() > kMostDigits)
      fail("'" + text + "' has more than " + std::to_string(kMostDigits) +
           " digits");
    return std::strtoll(text.c_str(), nullptr, 10);
  }

  /// FIRST..LAST or FIRST..LAST..STEP; anything else is no range.
  std::optional<Range> readRange(const std::string &inside) const {
    Names ends;
    for (size_t at = 0; at <= inside.size();) {
      size_t dots = std::min(inside.find("..", at), inside.size());
      ends.push_back(inside.substr(at, dots - at));
      at = dots + 2;
    }
    if (ends.size() < 2 || ends.size() > 3 ||
        (ends.size() == 3 && !isNumber(ends[2])))
      return std::nullopt;
    int64_t step = ends.size() == 3 ? std::llabs(number(ends[2])) : 1;
    if (step == 0)
      fail("a range with a step of 0");
    if (isLetter(ends[0]) && isLetter(ends[1]))
      return Range{ends[0][0], ends[1][0], step, 0, true};
    if (!isNumber(ends[0]) || !isNumber(ends[1]))
      return std::nullopt;
    auto padded = [](const std::string &text) {
      size_t sign = text[0] == '-';
      return text.size() > sign + 1 && text[sign] == '0';
    };
    size_t width = padded(ends[0]) || padded(ends[1])
                       ? std::max(ends[0].size(), ends[1].size())
                       : 0;
    return Range{number(ends[0]), number(ends[1]), step, width, false};
  }

  Names expandRange(const Range &range) const {
    int64_t distance = std::llabs(range.last - range.first) / range.step,
            step = range.last < range.first ? -range.step : range.step;
    if (uint64_t(distance) >= most)
      failMany();
    Names out;
    for (int64_t i = 0; i <= distance; ++i)
      out.push_back(nameOf(range, range.first + i * step));
    return out;
  }

  static std::string nameOf(const Range &range, int64_t value) {
    if (range.letters)
      return std::string(1, char(value));
    std::string digits = std::to_string(std::llabs(value)),
                sign = value < 0 ? "-" : "";
    size_t size = sign.size() + digits.size();
    return sign +
           std::string(range.width > size ? range.width - size : 0, '0') +
           digits;
  }

  const std::string &pattern;
  size_t most;
};
} // namespace

std::vector<std::string> data::expandBraces(const std::string &pattern,
                                            size_t most) {
  return BraceExpander(pattern, most).run();
}

std::vector<std::string> data::matchPaths(const std::string &name) {
  glob_t found;
  int code = ::glob(name.c_str(), 0, nullptr, &found);
  std::vector<std::string> paths;
  if (code == 0)
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  if (code != 0 && code != GLOB_NOMATCH)
    failedCall(name, "search");
  return paths;
}
