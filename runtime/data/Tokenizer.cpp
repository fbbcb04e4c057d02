//===- Tokenizer.cpp - text to token ids ------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Tokenizer.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Tokenizer.h"

#include "runtime/base/Files.h"

#include <sstream>

using namespace dt::rt;
using namespace dt::rt::data;

namespace {
constexpr size_t kMostVocabulary = 1 << 28;

/// Reads one code point of UTF-8 (shortest form, no surrogates) and moves `at`
/// behind it.
uint32_t nextCodePoint(const std::string &text, size_t &at) {
  auto byte = [&](size_t i) {
    return i < text.size() ? uint32_t(uint8_t(text[i])) : 0u;
  };
  uint32_t lead = byte(at);
  if (lead < 0x80)
    return ++at, lead;
  int more = lead >= 0xC2 && lead < 0xE0   ? 1
             : (lead & 0xF0) == 0xE0       ? 2
             : lead >= 0xF0 && lead < 0xF5 ? 3
                                           : 0;
  uint32_t code = lead & (more == 1 ? 0x1F : more == 2 ? 0x0F : 0x07);
  for (int i = 1; i <= more; ++i) {
    if ((byte(at + size_t(i)) & 0xC0) != 0x80)
      more = 0;
    code = code << 6 | (byte(at + size_t(i)) & 0x3F);
  }
  bool shortest =
      more == 1 ||
      (more == 2 && code >= 0x800 && (code < 0xD800 || code > 0xDFFF)) ||
      (more == 3 && code >= 0x10000 && code <= 0x10FFFF);
  if (!shortest)
    throw Error("text is not UTF-8");
  at += size_t(more) + 1;
  return code;
}

std::string toUtf8(uint32_t code) {
  std::string out;
  if (code < 0x80)
    return std::string(1, char(code));
  int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  out += char((more == 1   ? 0xC0
               : more == 2 ? 0xE0
                           : 0xF0) |
              (code >> (6 * more)));
  while (more-- > 0)
    out += char(0x80 | ((code >> (6 * more)) & 0x3F));
  return out;
}

bool isSpace(uint32_t c) {
  return c == ' ' || (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x1F) ||
         c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 ||
         c == 0x202F || c == 0x205F || c == 0x3000;
}

uint32_t lower(uint32_t c) {
  if ((c >= 'A' && c <= 'Z') || (c >= 0xC0 && c <= 0xDE && c != 0xD7))
    return c + 32;
  return c == 0x2019 ? '\'' : c;
}
} // namespace

bool data::isUtf8(const std::string &text) {
  try {
    for (size_t at = 0; at < text.size();)
      nextCodePoint(text, at);
    return true;
  } catch (const Error &) {
    return false;
  }
}

std::vector<std::string> data::splitWords(const std::string &text) {
  std::vector<std::string> words;
  std::string run;
  auto flush = [&] {
    if (!run.empty())
      words.push_back(std::move(run));
    run.clear();
  };
  for (size_t at = 0; at < text.size();) {
    uint32_t c = lower(nextCodePoint(text, at));
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '\'') {
      run += char(c);
      continue;
    }
    flush();
    if (!isSpace(c))
      words.push_back(toUtf8(c));
  }
  flush();
  return words;
}

std::vector<std::string> data::readVocabulary(const std::string &path) {
  std::istringstream in;
  try {
    in.str(readText(path, kMostVocabulary));
  } catch (const SystemError &e) {
    throw Error(e.what() +
                std::string(" (data.tokenizer.vocabulary of the recipe)"));
  }
  std::vector<std::string> words;
  for (std::string line; std::getline(in, line);) {
    if (words.empty() && line.compare(0, 3, "\xef\xbb\xbf") == 0)
      line.erase(0, 3);
    if (!line.empty() && line.back() == '\r')
      line.pop_back();
    if (line.empty())
      throw Error(path + ": line " + std::to_string(words.size() + 1) +
                  " is empty; expected one word a line");
    words.push_back(line);
  }
  return words;
}

Tokenizer Tokenizer::bytes(int32_t first) {
  Tokenizer t;
  t.which = Kind::Bytes;
  t.first = first;
  t.count = first + 256;
  return t;
}

Tokenizer Tokenizer::words(int32_t first,
                           const std::vector<std::string> &vocabulary,
                           int32_t unknown) {
  Tokenizer t;
  t.which = Kind::Words;
  t.first = first;
  t.count = first + int32_t(vocabulary.size());
  t.unknown = unknown;
  t.list = vocabulary;
  for (size_t i = 0; i < vocabulary.size(); ++i)
    if (!t.index.emplace(vocabulary[i], first + int32_t(i)).second)
      throw Error("the vocabulary has the word '" + printable(vocabulary[i]) +
                  "' twice");
  return t;
}

std::vector<int32_t> Tokenizer::encode(const std::string &text) const {
  std::vector<int32_t> ids;
  if (which == Kind::Bytes)
    for (unsigned char c : text)
      ids.push_back(first + c);
  if (which == Kind::Words)
    for (const std::string &word : splitWords(text)) {
      auto found = index.find(word);
      if (found == index.end() && unknown < 0)
        throw Error("the word '" + printable(word) +
                    "' is not in the vocabulary");
      ids.push_back(found == index.end() ? unknown : found->second);
    }
  return ids;
}

std::string Tokenizer::decode(const std::vector<int32_t> &ids) const {
  std::string out;
  bool glue = true;
  for (int32_t id : ids) {
    if (id < first || id >= count)
      continue;
    if (which == Kind::Bytes) {
      out += char(id - first);
      continue;
    }
    const std::string &word = list[size_t(id - first)];
    bool mark = word == "-" || word == "," || word == ":" || word == ".";
    if (!glue && !mark)
      out += ' ';
    out += word;
    glue = word == "-";
  }
  return out;
}
