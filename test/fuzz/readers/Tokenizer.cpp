//===- Tokenizer.cpp - fuzz target of vocabularies and texts ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The input is a vocabulary file, a line of four '=', and a text.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Tokenizer.h"
#include "test/fuzz/readers/Fuzz.h"

#include <algorithm>

using namespace dt;
using namespace dt::rt::data;

static void readBytes(const std::string &text) {
  Tokenizer tokenizer = Tokenizer::bytes(5);
  std::vector<int32_t> ids = tokenizer.encode(text);
  fuzz::expect(tokenizer.decode(ids) == text, "bytes change in a round trip");
}

static void readWords(const std::string &vocabulary, const std::string &text) {
  constexpr int32_t kFirst = 3;
  std::string path = fuzz::writeInput("vocabulary", vocabulary);
  std::vector<std::string> words = readVocabulary(path);
  for (int32_t unknown : {-1, 1}) {
    Tokenizer tokenizer = Tokenizer::words(kFirst, words, unknown);
    fuzz::accepts([&] {
      std::vector<int32_t> ids = tokenizer.encode(text);
      for (int32_t id : ids)
        fuzz::expect(id == unknown || (id >= kFirst && id < tokenizer.size()),
                     "a token is outside of the vocabulary");
      if (std::find(ids.begin(), ids.end(), unknown) == ids.end())
        fuzz::expect(tokenizer.encode(tokenizer.decode(ids)) == ids,
                     "words change in a round trip");
    });
  }
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  std::string all(reinterpret_cast<const char *>(data), size);
  size_t line = all.find("====\n");
  std::string vocabulary = all.substr(0, line),
              text = line == std::string::npos ? all : all.substr(line + 5);
  if (isUtf8(text))
    splitWords(text);
  else
    fuzz::expect(!fuzz::accepts([&] { splitWords(text); }),
                 "words of what is not UTF-8");
  readBytes(text);
  fuzz::accepts([&] { readWords(vocabulary, text); });
  return 0;
}
