//===- Tokenizer.h - text to token ids --------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Two small tokenizers that need no model file beyond a list of words: enough
// for demonstrations and for byte-level models. Ids after the special tokens.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_TOKENIZER_H
#define DT_RUNTIME_DATA_TOKENIZER_H

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace dt::rt::data {

/// Lower case (ASCII and Latin-1), right single quote as ', then the matches of
/// [a-z0-9']+|[^\sa-z0-9'] over code points. Throws Error if the text is not
/// UTF-8.
std::vector<std::string> splitWords(const std::string &text);

/// Shortest forms only, no surrogates.
bool isUtf8(const std::string &text);

/// The words of a vocabulary file, one a line; throws Error (file name first).
std::vector<std::string> readVocabulary(const std::string &path);

class Tokenizer {
public:
  enum class Kind : uint8_t { None, Words, Bytes };

  Tokenizer() = default;
  /// The 256 bytes get the ids first, first + 1, ...
  static Tokenizer bytes(int32_t first);
  /// Word i gets the id first + i; other words `unknown`, or are an error if
  /// that is negative.
  static Tokenizer words(int32_t first,
                         const std::vector<std::string> &vocabulary,
                         int32_t unknown);

  Kind kind() const { return which; }
  int32_t size() const { return count; } ///< one more than the largest id
  /// Throws Error that names the unknown word.
  std::vector<int32_t> encode(const std::string &text) const;
  /// Text of ids; ids below `first` are left out. Words are joined as they were
  /// split off: a blank between two, none around - and before , : .
  std::string decode(const std::vector<int32_t> &ids) const;

private:
  Kind which = Kind::None;
  int32_t first = 0, count = 0, unknown = -1;
  std::vector<std::string> list;
  std::unordered_map<std::string, int32_t> index;
};

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_TOKENIZER_H
