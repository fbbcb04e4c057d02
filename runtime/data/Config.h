//===- Config.h - the data sections of a recipe -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What docs/data-recipe.md describes, parsed and checked: items, dims, data,
// inputs, batch, seed. A wrong key or value is one Error that names the key's
// path, e.g. 'data.json: data.segments.caption.tokens[2].of: ...'. Used by the
// runtime (data.json), by dt- data and, to check a recipe, by the compiler: no
// dependency on MLIR.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_CONFIG_H
#define DT_RUNTIME_DATA_CONFIG_H

#include "runtime/data/Assignment.h"
#include "runtime/data/Manifest.h"
#include "runtime/data/Picture.h"
#include "runtime/data/Tokenizer.h"

#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace dt::rt::data {

/// A kind of picture part. `ragged`: it is an item kind with at most `max` a
/// sample; else every sample has exactly one.
struct PictureKind {
  std::string name;
  int64_t height = 0, width = 0;
  Fit fit = Fit::Stretch;
  int channels = 3;
  std::vector<float> mean{0.5f}, std{0.5f};
  bool ragged = false;
  int64_t max = 1;
  int64_t indexWidth =
      -1; ///< smallest width of an index input of this kind; -1: none
  /// Pictures of any size; height and width are 0.
  PatchGrid grid;
  std::string measure; ///< that counts squares; empty: pictures have one size
  int64_t mostSquares = 0;
  bool placed = false; ///< an index input has the places of all squares
  /// Of a picture of one size; of any size of one patch.
  int64_t elements() const {
    return grid ? channels * grid.frames * grid.size * grid.size
                : channels * height * width;
  }
  int64_t elements(const Squares &squares) const {
    return grid ? squares.count() * grid.patches() * elements() : elements();
  }
};

/// One element of a segment template: `count` special tokens, or the tokens of
/// a text part.
struct TemplateElement {
  int textPart = -1; ///< number in SegmentKind::parts; -1: `token`
  int32_t token = 0;
  int64_t count = 1;
  bool perSquare = false; ///< not `count`: as many as the picture has squares
  bool loss = false;
  int ofPart = -1; ///< picture part whose index has these positions; -1: none
};

struct SegmentKind {
  std::string name;
  std::vector<int> parts; ///< number of the picture kind, or textKind
  std::vector<TemplateElement> tokens;

  /// What the template makes of a part.
  struct Use {
    bool taken = false;    ///< a text: its tokens stand somewhere
    bool marked = false;   ///< a picture: some tokens are "of" it
    bool open = false;     ///< tokens of a text among these, or one a square
    int64_t positions = 0; ///< the others of these
  };
  Use useOf(size_t part) const;
};
constexpr int textKind = -1;
constexpr int sampleItem = -1;

enum class InputKind : uint8_t {
  Ids,
  Labels,
  Segment,
  Position,
  TokenMask,
  Pixels,
  Places,
  Pictures,
  Windows,
  Label,
  Index,
  IndexMask,
  ItemOf,
  Random,
  Noised,
  Value
};
enum class Draw : uint8_t { Uniform, Normal, UniformInt };

/// One entry of `inputs`. `item`: number of the ragged picture kind whose items
/// axis 0 counts, or sampleItem; `picture`: the picture kind it is about, which
/// may be one a sample.
struct InputEntry {
  std::string name;
  InputKind kind = InputKind::Ids;
  int item = sampleItem, picture = -1;
  std::vector<int64_t> shape; ///< without axis 0
  /// Rows for each square of the pictures of `picture`, where axis 0 adds these
  /// up; 0: a row an item.
  int64_t perSquare = 0;
  int64_t shift = 1, ignore = -100;
  std::vector<bool> segments; ///< labels: a flag per segment kind
  bool withinSegment = false; ///< position
  /// Position: [3, 1, tokens] of a time, a height and a width, which pictures
  /// of `picture` have of their own.
  bool ofPictures = false;
  int64_t window = 0; ///< windows: squares along a side
  int64_t pad = -1;   ///< index
  Draw draw = Draw::Uniform;
  double low = 0, high = 1, mean = 0, std = 1, power = 1;
  int64_t below = 0;
  std::string purpose;
  int clean = -1, noise = -1, time = -1,
      index = -1; ///< other entries, by number
  bool ddpm = false, velocity = false;
  std::vector<float> signal, spread; ///< ddpm: sqrt(a_t), sqrt(1 - a_t) per t
  double value = 0;

  /// Has an element a token.
  bool ofTokens() const { return kind <= InputKind::TokenMask; }
  bool
  integer() const; ///< elements are whole numbers (made as int64), else float
};
struct Limits {
  int64_t pixels = 16777216, bytes = 67108864, text = 1048576;
};

struct Config {
  /// `document` is a recipe or data.json, `where` its name for errors. A
  /// vocabulary file is looked for in each of `folders`. Throws Error.
  static Config parse(const nlohmann::json &document, const std::string &where,
                      const std::vector<std::string> &folders);
  static Config load(const std::string &path);

  int64_t sequence = 0; ///< most tokens of a sample; 0: no text
  /// Token tensors are [1, tokens of the part's samples], without padding; else
  /// [samples, sequence].
  bool packed = false;
  Tokenizer tokenizer;
  std::vector<std::string> special;
  int32_t pad = 0;
  bool cut = false;
  bool needsLabel = false;
  int64_t labels = 0; ///< classes; 0: any
  std::vector<SegmentKind> segments;
  std::vector<PictureKind> pictures;
  std::map<std::string, int64_t> dims; ///< those that are numbers
  std::set<std::string> tokenDims;     ///< those that add up samples' tokens
  int64_t mostTokens = 0; ///< bound of that measure; 0: samples have none
  std::vector<InputEntry> inputs;
  Limits limits;
  int64_t globalBatch = 1, microBatch = 1; ///< of a step of parts the most
  StepRule rule;
  uint64_t seed = 0;
  uint64_t key = 0; ///< hash of all that decides which samples are good and how
                    ///< many tokens and items they have

  int findPicture(const std::string &name) const; ///< -1: none
  int findInput(const std::string &name) const;   ///< -1: none
};

/// `recipe` with `data.tokenizer.vocabulary` as a list: what the compiler
/// writes to data.json. Throws Error.
nlohmann::json inlineVocabulary(nlohmann::json recipe,
                                const std::vector<std::string> &folders);

/// FNV-1a.
uint64_t hashBytes(const std::string &bytes,
                   uint64_t start = 0xCBF29CE484222325ull);

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_CONFIG_H
