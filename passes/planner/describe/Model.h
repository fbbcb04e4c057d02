//===- Model.h - What a planner knows of a model ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Modules as lists of layers, layers as lists of operations with their shapes,
// taken from the layer functions that will run (or from usual sizes:
// Architectures.h). Nothing here knows the hardware or the layout.
//
// What an operation costs depends on the part it works on only through sums
// over the part's items: their number, their measures (docs/sizes.md) and the
// products of these. A part of no items costs nothing.
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_PLANNER_DESCRIBE_MODEL_H
#define PASSES_PLANNER_DESCRIBE_MODEL_H

#include "runtime/Enums.h"

#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

namespace dt::planner {

/// How large an item is: its tokens are the first measure of its kind. A kind
/// may have one other, which need not grow with tokens.
struct ItemSize {
  int32_t tokens = 0, other = 0;
  ItemSize(int32_t tokens = 0, int32_t other = 0)
      : tokens(tokens), other(other) {}
  friend bool operator==(const ItemSize &a, const ItemSize &b) {
    return a.tokens == b.tokens && a.other == b.other;
  }
};

struct TokenSums {
  double items = 0, tokens = 0, squares = 0;
  /// Of the other measure; of its products with tokens; of its squares.
  double others = 0, products = 0, otherSquares = 0;
  static TokenSums of(double tokens, double other = 0) {
    return {1, tokens, tokens * tokens, other, tokens * other, other * other};
  }
  static TokenSums of(const ItemSize &size) {
    return of(size.tokens, size.other);
  }
  TokenSums &operator+=(const TokenSums &sum) {
    items += sum.items;
    tokens += sum.tokens;
    squares += sum.squares;
    others += sum.others;
    products += sum.products;
    otherSquares += sum.otherSquares;
    return *this;
  }
  friend TokenSums operator*(TokenSums m, double factor) {
    return {m.items * factor,  m.tokens * factor,   m.squares * factor,
            m.others * factor, m.products * factor, m.otherSquares * factor};
  }
  std::array<double, 6> all() const {
    return {items, tokens, squares, others, products, otherSquares};
  }
  friend bool operator==(const TokenSums &a, const TokenSums &b) {
    return a.all() == b.all();
  }
  friend bool operator<(const TokenSums &a, const TokenSums &b) {
    return a.all() < b.all();
  }
  bool empty() const { return items <= 0; }
};

/// A figure that grows with a part: so much an item, a token, a token squared,
/// and the same with the other measure.
struct Linear {
  double item = 0, token = 0, square = 0;
  double other = 0, product = 0, otherSquare = 0;
  double at(const TokenSums &m) const {
    return item * m.items + token * m.tokens + square * m.squares +
           (other * m.others + product * m.products +
            otherSquare * m.otherSquares);
  }
  Linear &operator+=(const Linear &more) {
    item += more.item;
    token += more.token;
    square += more.square;
    other += more.other;
    product += more.product;
    otherSquare += more.otherSquare;
    return *this;
  }
  Linear &operator-=(const Linear &less) { return *this += less * -1; }
  friend Linear operator+(Linear a, const Linear &b) { return a += b; }
  friend Linear operator-(Linear a, const Linear &b) { return a -= b; }
  friend Linear operator*(const Linear &l, double factor) {
    return {l.item * factor,  l.token * factor,   l.square * factor,
            l.other * factor, l.product * factor, l.otherSquare * factor};
  }
  std::array<double, 6> all() const {
    return {item, token, square, other, product, otherSquare};
  }
  friend bool operator==(const Linear &a, const Linear &b) {
    return a.all() == b.all();
  }
};
/// Their keys in files.
inline constexpr std::pair<const char *, double Linear::*> kLinear[] = {
    {"item", &Linear::item},       {"token", &Linear::token},
    {"square", &Linear::square},   {"other", &Linear::other},
    {"product", &Linear::product}, {"other_square", &Linear::otherSquare}};
inline Linear perItem(double value) { return {value, 0, 0}; }

struct Op {
  enum Kind { Gemm, Attention, Convolution, Stream };
  /// What tensor parallelism divides: nothing; n; k; all of the work (heads);
  /// or all of it if sequences are parallel too.
  enum Split { Whole, Columns, Depth, Heads, Sequence };
  std::string name;
  Kind kind = Stream;
  Split split = Whole;
  /// Products: rows x k by k x n, `count` of them (`count` kernels of others).
  Linear rows;
  double n = 0, k = 0;
  int count = 1;
  /// FLOPs of what is no product; bytes read and written, weights included.
  Linear flops, bytes;
  double fixedBytes = 0;
  /// Cheap to do again: not kept, done in the backward pass too, unless all is
  /// saved.
  bool cheap = false;
  /// One product for each of a layer's experts (`count` of them), rows being
  /// what one gets of a token on average: expert parallelism shares them out.
  bool expert = false;
};
/// In files (docs/plan-model.schema.json).
inline constexpr llvm::StringRef kOpKinds[] = {"gemm", "attention",
                                               "convolution", "stream"};
inline constexpr llvm::StringRef kOpSplits[] = {"whole", "columns", "depth",
                                                "heads", "sequence"};

using rt::Save;

/// Bytes of a parameter on average: the weight as it is stored, its gradient,
/// the optimizer's state.
struct ParameterBytes {
  double weight = 2, gradient = 4, optimizer = 12;
  friend bool operator==(const ParameterBytes &a, const ParameterBytes &b) {
    return std::tie(a.weight, a.gradient, a.optimizer) ==
           std::tie(b.weight, b.gradient, b.optimizer);
  }
};

struct LayerKind {
  std::string name;
  std::vector<Op> forward, input, weight; ///< gradients of inputs, of weights
  double parameters = 0;                  ///< number, split by TP
  std::optional<ParameterBytes> bytes;    ///< none: the module's
  /// All-reduced over the TP group: bytes of one, and how many.
  Linear reduced;
  int forwardReduces = 0, backwardReduces = 0;
  /// Bytes kept from forward to backward, by Save: what TP divides, what only
  /// sequence parallelism does too, and what nothing divides.
  std::array<Linear, 3> keptSplit, keptSequence;
  Linear output; ///< bytes handed to the next layer
  /// Bytes of keys and values that attention needs of all of a sample's tokens:
  /// what context parallelism gathers. Nothing where there is no attention.
  Linear exchanged;
  /// Of `parameters`, those of experts, and the bytes that tokens take to them:
  /// what expert parallelism divides and moves. 0 where there are none.
  double expertParameters = 0;
  Linear dispatched;
  /// How often rows are routed: the program's layers of experts in this one.
  int routes = 0;
  /// Rows that there is room for over the mean (docs/experts.md#a-capacity); 0:
  /// for all.
  double capacity = 0;
  int getExperts() const; ///< 0 if it has none
};

/// A collective of a TP group, by the bytes of the whole tensor.
struct Exchange {
  rt::CollectiveKind kind = rt::CollectiveKind::AllReduce;
  Linear bytes;
  /// Of other ranks: how many, and their distance. 0: the TP group.
  int over = 0, stride = 1;
  /// Products, also of the layer's, that it is cut with where programs overlap
  /// the two (docs/sharding.md).
  std::vector<Op> beside = {};
  /// Rows of the whole tensor of which a rank's block has a part each; blocks
  /// of several are packed.
  Linear rows = {};
  /// Whether the rank computes products while all of it travels
  /// (docs/streams.md): where backwards are one piece, and where they are
  /// halves.
  bool covered = false, coveredInHalves = false;
  int getOver(int tp) const { return over ? over : tp; }
};

/// A layer as the compiler cuts and differentiates it for one TP degree and one
/// saved set: what one rank does. Nothing of it is divided any further, but
/// over a sample's tokens, and what is done a second time is in `input`.
struct RankLayer {
  std::vector<Op> forward, input, weight;
  std::vector<Exchange> forwardExchanges, backwardExchanges;
  /// Bytes from forward to backward, of these what gradients of weights read,
  /// and what else is kept from input to weight gradients.
  Linear kept, keptToWeights, keptForWeights;
  /// Bytes of outputs that no layer takes (logits) and of raw inputs that no
  /// backward reads, and of what lives inside a task, backwards in one piece or
  /// in halves.
  Linear handedOut, scratch, scratchOfHalves;
  double parameters = 0; ///< number, of this rank
  /// Read between others of its kind: `scratch` has gradients of both ends, and
  /// the first of a stage keeps `keptAtStart` in place of `kept`: what comes in
  /// comes whole, as messages have it.
  bool chained = false;
  Linear keptAtStart;
};
/// Keys in files of its bytes.
inline constexpr std::pair<const char *, Linear RankLayer::*> kRankLayer[] = {
    {"kept", &RankLayer::kept},
    {"kept_to_weights", &RankLayer::keptToWeights},
    {"kept_for_weights", &RankLayer::keptForWeights},
    {"kept_at_start", &RankLayer::keptAtStart},
    {"handed_out", &RankLayer::handedOut},
    {"scratch", &RankLayer::scratch},
    {"scratch_of_halves", &RankLayer::scratchOfHalves}};

/// Samples, or a kind of which a sample holds several. A model may have more
/// kinds than there are names here: Model::items says what they are called.
enum class ItemKind : int { Sample = 0, Image = 1, Target = 2 };
inline constexpr int kMostItemKinds = 16;

/// What layers are described for.
struct LayerVariant {
  int tp = 1;
  Save save = Save::Vjp;
  /// Between layers that follow one another a rank has its share of the tokens
  /// (arXiv 2205.05198); layers that do not are in such a layout as in others.
  bool sequenceParallel = false;
  int ep = 1; ///< ranks that share out experts: of the group, or more
  friend bool operator<(const LayerVariant &a, const LayerVariant &b) {
    return std::tie(a.tp, a.sequenceParallel, a.save, a.ep) <
           std::tie(b.tp, b.sequenceParallel, b.save, b.ep);
  }
};

/// A parameter that several layers read. Each of their kinds counts it; a stage
/// has it once, and each stage that has it updates a copy of its own.
struct Tie {
  std::vector<int> layers; ///< ascending
  double parameters = 0;
  std::optional<ParameterBytes> bytes = std::nullopt; ///< none: the module's
  /// Layers from `begin` to before `end` that read it.
  int count(int begin, int end) const;
};

/// The most that a program lets one part have of a measure, added up over the
/// part's items of a kind: the module's own, or, of samples, one that they
/// hold.
struct PartBound {
  ItemKind kind = ItemKind::Sample;
  bool isOther = false; ///< of the other measure
  double most = 0;
  std::string name = "tokens"; ///< what people call the measure
};

/// Of a module's attention, what other ranks' keys come by with where a
/// sample's tokens are on several (docs/context.md).
struct KeyHeads {
  int count = 0;     ///< heads of keys: what divides all layers'; 0: unknown
  double shared = 1; ///< heads of queries for each of them
  bool ring = false; ///< whether keys of all layers may go round
};

struct Module {
  std::string name;
  ItemKind item = ItemKind::Sample;
  std::string precision = "bf16";
  std::vector<LayerKind> kinds;
  std::vector<int> layers; ///< kinds in the order of the module
  /// By layout, then by kind. Where there is one it is priced in place of the
  /// kind in `kinds`, whose work is divided by rule.
  std::map<LayerVariant, std::vector<RankLayer>> partitioned;
  std::vector<Tie> ties;
  /// Of the largest item that a program is compiled for: tokens, and the other
  /// measure. 0: the module works on no rows of that measure (its items are all
  /// alike), or there is no program.
  double mostTokens = 0, mostOther = 0;
  /// Where the number of items is not all that bounds a part.
  std::vector<PartBound> bounds;
  bool trainable = true;
  /// Whether a gradient must come out of its inputs: something trainable feeds
  /// it.
  bool inputGradient = false;
  /// Most TP that its heads and widths divide by.
  int maxTP = 8;
  KeyHeads keys;
  ParameterBytes bytes; ///< where kinds and ties have none of their own

  /// The layers of a layout; without sequence parallelism if they know none.
  /// Null: divided by rule.
  const std::vector<RankLayer> *getPartitioned(LayerVariant layout) const;
  /// Experts that ranks can share out evenly: what divides those of all layers
  /// that have any; 0 if none has.
  int getExperts() const;
  /// For which numbers of ranks that share out experts, 1 among them, layers
  /// are described that a unit may have (dialects/dist/SharedExperts.h).
  std::vector<int> listExpertRanks(int tp, int64_t cp, int64_t dp) const;
  double getParameters() const;
  /// Calls f(kind, count) for runs of equal layers from `begin` to before
  /// `end`.
  template <typename Function>
  void forRuns(int begin, int end, Function f) const {
    for (int i = begin, next = i; i < end; i = next) {
      while (next < end && layers[next] == layers[i])
        ++next;
      f(layers[i], next - i);
    }
  }
  /// The most tokens of its own items that a part may have; 0: no bound.
  double getPartTokens() const;
  /// Whether any of its figures grows with the other measure of its items.
  bool hasOther() const { return mostOther > 0; }
  /// Items of the largest size that would be as much; as they are if all are
  /// alike.
  double countLargest(const TokenSums &part) const;
  bool hasBackward() const { return trainable || inputGradient; }
};

/// Bytes an item of the producer sends forward; the gradient is as many.
struct ModelEdge {
  int from = 0, to = 0;
  Linear bytes;
};

/// A contrastive loss: the embeddings of all samples of the batch meet before
/// any has a gradient.
struct Contrast {
  std::vector<int> towers; ///< modules; empty: there is no such loss
  double width = 0;        ///< numbers in an embedding, one of each item
};

struct Model {
  std::string name;
  std::vector<Module> modules;
  std::vector<ModelEdge> edges;
  int pace = 0; ///< the backbone
  /// Names of the kinds of items from 1 on.
  std::vector<std::string> items = {"image", "target"};

  llvm::StringRef getName(ItemKind kind) const {
    if (kind == ItemKind::Sample)
      return "sample";
    return items[size_t(kind) - 1];
  }
  Contrast contrast;

  /// One thing that is wrong: no modules, references, figures that are not
  /// finite, a cycle.
  llvm::Error check() const;
  /// FLOPs of one pass over a part: forward, input and weight gradients as the
  /// module's training asks for; no recomputation (model FLOPs).
  double getFlops(int module, const TokenSums &part) const;
};

/// Sets inputGradient of all modules: a gradient must reach whatever is trained
/// in front of them.
void spreadGradients(Model &model);

/// Finds the model that a module is taken from.
using ModelOpener = llvm::function_ref<llvm::Expected<Model>(llvm::StringRef)>;

/// docs/plan-model.schema.json; printModel() and parseModel() are inverse. The
/// model has passed check(). `file` is for messages. Without `open` modules
/// must stand in the file itself; readModel() looks beside it.
llvm::Expected<Model> parseModel(llvm::StringRef json, llvm::StringRef file,
                                 ModelOpener open = {});
llvm::Expected<Model> readModel(llvm::StringRef file);
std::string printModel(const Model &model);

} // namespace dt::planner

#endif // PASSES_PLANNER_DESCRIBE_MODEL_H
