//===- Data.cpp - What samples hold, jointly ------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/planner/describe/Data.h"

#include "models/frontend/json/JsonReader.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"

#include <algorithm>
#include <cmath>

using namespace llvm;

namespace dt::planner {

Data::~Data() = default;

namespace {

constexpr int32_t kSequence = 8192;   ///< most tokens of a sample
constexpr double kImageTokens = 1024; ///< median patches of an image
constexpr int32_t kMaxImageTokens = 4096;
/// Backbone tokens of an image over its patches (projectors merge them).
constexpr double kMerge = 0.25;
constexpr double kTargetTokens =
    4096;                            ///< latent positions of a generated image
constexpr double kTargetShare = 0.2; ///< of images that are generated too

/// SplitMix64 from (seed, index): draws do not depend on one another.
class Stream {
public:
  Stream(uint64_t seed, uint64_t index)
      : state(mix(seed * 0x9E3779B97F4A7C15ull + 1) ^ mix(index + 0x1234567)) {}

  double uniform() { // in (0, 1)
    state += 0x9E3779B97F4A7C15ull;
    return (double(mix(state) >> 11) + 0.5) * 0x1.0p-53;
  }
  double normal() {
    double a = uniform(), b = uniform();
    return std::sqrt(-2 * std::log(a)) * std::cos(6.283185307179586 * b);
  }
  /// Median and spread of the logarithm, clamped.
  int32_t lognormal(double median, double sigma, double low, double high) {
    double value = median * std::exp(sigma * normal());
    return int32_t(std::min(std::max(value, low), high));
  }

private:
  static uint64_t mix(uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
    return z ^ (z >> 31);
  }
  uint64_t state;
};

class Generated : public Data {
protected:
  int32_t image(Stream &stream) const {
    return stream.lognormal(kImageTokens, 0.8, 16, kMaxImageTokens);
  }
  int32_t inBackbone(int32_t patches) const {
    return std::max<int32_t>(1, int32_t(patches * kMerge));
  }
  /// At times with a target.
  void addImage(Stream &stream, Sample &sample, int32_t patches) const {
    sample.of(ItemKind::Image).push_back(patches);
    if (stream.uniform() < kTargetShare)
      sample.of(ItemKind::Target)
          .push_back(stream.lognormal(kTargetTokens, 0.5, 256, 16384));
  }
};

class Packed : public Generated {
public:
  Sample draw(uint64_t seed, uint64_t index) const override {
    Stream stream(seed, index);
    Sample sample;
    sample.tokens = kSequence;
    int32_t used = 0;
    // Some sequences are mostly text, some mostly images.
    double textMedian = stream.lognormal(100, 1.0, 8, kSequence);
    while (true) {
      used += stream.lognormal(textMedian, 1.0, 4, kSequence);
      int32_t patches = image(stream);
      used += inBackbone(patches);
      if (used > kSequence)
        return sample;
      addImage(stream, sample, patches);
    }
  }
  std::string describe() const override {
    return formatv("packed sequences of {0} tokens, median image {1} patches",
                   kSequence, kImageTokens);
  }
};

/// A sample is one document: length, images and their sizes are all skewed.
class Documents : public Generated {
public:
  Sample draw(uint64_t seed, uint64_t index) const override {
    Stream stream(seed, index);
    Sample sample;
    sample.tokens = stream.lognormal(700, 1.2, 16, kSequence);
    // Longer documents hold more images; a third holds none.
    if (stream.uniform() < 0.33)
      return sample;
    double mean = 1 + sample.tokens / 400.0;
    int32_t count = stream.lognormal(mean, 1.0, 1, 64);
    for (int32_t i = 0; i < count; ++i) {
      int32_t patches = image(stream);
      if (sample.tokens + inBackbone(patches) > kSequence)
        break;
      sample.tokens += inBackbone(patches);
      addImage(stream, sample, patches);
    }
    return sample;
  }
  std::string describe() const override {
    return formatv("documents of up to {0} tokens, median image {1} patches",
                   kSequence, kImageTokens);
  }
};

class Uniform : public Data {
public:
  explicit Uniform(const Sample &sample) : sample(sample) {}
  Sample draw(uint64_t, uint64_t) const override { return sample; }
  std::string describe() const override {
    std::string items;
    for (const std::vector<ItemSize> &kind : sample.items)
      items += formatv("{0}{1}", items.empty() ? "" : ", ", kind.size());
    return formatv("every sample alike: {0} tokens, items by kind: {1}",
                   sample.tokens, items.empty() ? "none" : items);
  }

private:
  Sample sample;
};

class Measured : public Data {
public:
  explicit Measured(DataFile read) : file(std::move(read)) {
    double sum = 0;
    for (double weight : file.weights)
      until.push_back(sum += weight);
  }
  Sample draw(uint64_t seed, uint64_t index) const override {
    const std::vector<Sample> &samples = file.samples;
    if (file.inOrder)
      return samples[index % samples.size()];
    double at = Stream(seed, index).uniform() * until.back();
    auto it = std::upper_bound(until.begin(), until.end(), at);
    return samples[std::min<size_t>(it - until.begin(), samples.size() - 1)];
  }
  std::vector<std::string> getKinds() const override { return file.kinds; }
  Measures getMeasures() const override { return file.measures; }
  std::string describe() const override {
    return formatv("{0} measured samples", file.samples.size());
  }

private:
  DataFile file;
  std::vector<double> until;
};

int32_t readTokens(const models::JsonReader &json, int64_t low) {
  int64_t value = json.integer(low), most = 1 << 24;
  if (value > most)
    json.fail("expected at most 2^24 tokens");
  return int32_t(std::min(value, most));
}

/// A number, or of a kind with two measures both.
ItemSize readSize(const models::JsonReader &json,
                  ArrayRef<std::string> measures) {
  if (measures.size() < 2)
    return readTokens(json, 0);
  std::vector<models::JsonReader> both = json.list();
  if (both.size() != measures.size()) {
    json.fail("expected a list of " + join(measures, " and "));
    return {};
  }
  return {readTokens(both[0], 0), readTokens(both[1], 0)};
}

/// Names of measures by kind, from samples on.
Data::Measures readMeasures(const models::JsonReader &json,
                            ArrayRef<std::string> kinds) {
  std::vector<std::string> names = {"sample"};
  llvm::append_range(names, kinds);
  json.keys(std::vector<StringRef>(names.begin(), names.end()));
  Data::Measures result(names.size());
  for (size_t k = 0; k < names.size(); ++k) {
    if (!json.has(names[k]))
      continue;
    result[k] = json.at(names[k]).strings();
    if (result[k].empty() || result[k].size() > 2 ||
        (result[k].size() == 2 && result[k][0] == result[k][1]))
      json.at(names[k]).fail("expected one or two names of measures");
  }
  return result;
}

} // namespace

std::unique_ptr<Data> makePacked() { return std::make_unique<Packed>(); }

std::unique_ptr<Data> makeUniform(const Sample &sample) {
  return std::make_unique<Uniform>(sample);
}

Expected<DataFile> readDataFile(StringRef text, StringRef file) {
  DataFile data;
  std::vector<std::string> &kinds = data.kinds;
  auto read = [&](const models::JsonReader &root) {
    root.keys({"kinds", "measures", "samples", "order"});
    if (root.has("order"))
      data.inOrder = root.at("order").choice({"drawn", "file"}) == 1;
    if (root.has("kinds"))
      kinds = root.at("kinds").strings();
    if (kinds.size() > size_t(kMostItemKinds))
      root.at("kinds").fail("expected at most " + Twine(kMostItemKinds));
    for (size_t k = 1; k < kinds.size(); ++k)
      if (is_contained(ArrayRef(kinds).take_front(k), kinds[k]))
        root.at("kinds").fail("'" + kinds[k] + "' stands there twice");
    if (root.has("measures"))
      data.measures = readMeasures(root.at("measures"), kinds);
    auto measuresOf = [&](size_t kind) {
      return data.measures.empty() ? ArrayRef<std::string>()
                                   : ArrayRef(data.measures[kind]);
    };
    for (const models::JsonReader &entry : root.at("samples").list()) {
      entry.keys({"tokens", "items", "count"});
      Sample sample;
      static_cast<ItemSize &>(sample) =
          readSize(entry.at("tokens"), measuresOf(0));
      for (const models::JsonReader &kind : entry.listIfAny("items")) {
        sample.items.emplace_back();
        size_t k = std::min(sample.items.size(), kinds.size());
        for (const models::JsonReader &item : kind.list())
          sample.items.back().push_back(readSize(item, measuresOf(k)));
      }
      // Who has no "items" has none of any kind.
      if (entry.has("items") && sample.items.size() != kinds.size())
        entry.at("items").fail("expected a list for each of the " +
                               Twine(kinds.size()) + " kinds");
      data.samples.push_back(std::move(sample));
      entry.read("count", data.weights.emplace_back(1), 0, 1e15);
    }
  };
  if (Error error = models::readJson(text, file, read))
    return std::move(error);
  if (data.samples.empty())
    return createStringError(file + ": the data description holds no samples");
  if (!any_of(data.weights, [](double weight) { return weight > 0; }))
    return createStringError(
        file + ": the weights of all samples are zero or too large");
  return std::move(data);
}

Expected<std::unique_ptr<Data>> parseData(StringRef text, StringRef file) {
  auto read = readDataFile(text, file);
  if (!read)
    return read.takeError();
  return std::make_unique<Measured>(std::move(*read));
}

Expected<std::unique_ptr<Data>> openData(StringRef name) {
  if (name == "packed")
    return makePacked();
  if (name == "documents")
    return std::make_unique<Documents>();
  auto buffer = models::readRegular(name);
  if (!buffer)
    return createStringError(
        name +
        ": neither packed nor documents, nor a file that can "
        "be read: " +
        toString(buffer.takeError()));
  return parseData((*buffer)->getBuffer(), name);
}

std::vector<Sample> drawBatch(const Data &data, uint64_t seed, int64_t count) {
  std::vector<Sample> result;
  result.reserve(count);
  for (int64_t i = 0; i < count; ++i)
    result.push_back(data.draw(seed, uint64_t(i)));
  return result;
}

TokenSums momentsOf(const Sample &sample, ItemKind kind) {
  TokenSums sum;
  for (const ItemSize &size : sample.getSizes(kind))
    sum += TokenSums::of(size);
  return sum;
}

TokenSums momentsOf(const std::vector<Sample> &samples, ItemKind kind) {
  TokenSums sum;
  for (const Sample &sample : samples)
    sum += momentsOf(sample, kind);
  return sum;
}

std::vector<ItemSize> itemsOf(const std::vector<Sample> &samples,
                              ItemKind kind) {
  std::vector<ItemSize> result;
  for (const Sample &sample : samples)
    append_range(result, sample.getSizes(kind));
  return result;
}

} // namespace dt::planner
