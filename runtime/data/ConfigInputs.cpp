//===- ConfigInputs.cpp - the inputs section of a recipe --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// One function per entry kind of docs/data-recipe.md, found by the key that
// only this kind has; references to other entries are resolved when all are
// read.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/ConfigInputs.h"

#include <algorithm>
#include <cmath>

using namespace dt::rt;
using namespace dt::rt::data;

bool InputEntry::integer() const {
  switch (kind) {
  case InputKind::Pixels:
  case InputKind::Noised:
  case InputKind::IndexMask:
  case InputKind::Value:
    return false;
  case InputKind::Random:
    return draw == Draw::UniformInt;
  default:
    return true;
  }
}

namespace {
constexpr int64_t maxElements = int64_t(1) << 32;

int pictureKind(const Config &config, const JsonView &view) {
  int kind = config.findPicture(view.text());
  if (kind < 0)
    view.fail("\"" + view.text() + "\" is not a kind in data.pictures");
  return kind;
}

/// A picture kind that is not ragged occurs once a sample: its items are
/// samples.
int rowsOf(const Config &config, int picture) {
  return config.pictures[size_t(picture)].ragged ? picture : sampleItem;
}

int itemKind(const Config &config, const JsonView &view) {
  return view.text() == "sample" ? sampleItem
                                 : rowsOf(config, pictureKind(config, view));
}

void needText(const Config &config, const JsonView &view) {
  if (config.sequence == 0)
    view.fail("needs data.sequence, data.tokenizer and data.segments");
}

/// Rows of a picture stand in the text as they do in the picture.
void readPicturePositions(Config &config, InputEntry &entry,
                          const JsonView &view) {
  entry.picture = pictureKind(config, view);
  PictureKind &kind = config.pictures[size_t(entry.picture)];
  if (!kind.grid || !config.packed)
    view.fail("expected pictures with \"patches\" and packed texts");
  kind.placed = entry.ofPictures = true;
}

void readTokens(Config &config, InputEntry &entry, const JsonView &view) {
  needText(config, view);
  entry.item = sampleItem;
  entry.shape = {config.sequence};
  switch (view.at("tokens").choice(
      {"ids", "labels", "segment", "position", "mask"})) {
  case 0:
    view.only({"tokens"});
    entry.kind = InputKind::Ids;
    return;
  case 1:
    view.only({"tokens", "shift", "ignore", "segments"});
    entry.kind = InputKind::Labels;
    if (view.has("shift"))
      entry.shift = view.at("shift").integer(0, 1);
    if (view.has("ignore"))
      entry.ignore = view.at("ignore").integer();
    entry.segments.assign(config.segments.size(), !view.has("segments"));
    if (view.has("segments"))
      for (const JsonView &name : view.at("segments").list()) {
        auto found = std::find_if(
            config.segments.begin(), config.segments.end(),
            [&](const SegmentKind &kind) { return kind.name == name.text(); });
        if (found == config.segments.end())
          name.fail("\"" + name.text() + "\" is not in data.segments");
        entry.segments[size_t(found - config.segments.begin())] = true;
      }
    return;
  case 2:
    view.only({"tokens"});
    entry.kind = InputKind::Segment;
    return;
  case 3:
    view.only({"tokens", "within", "pictures"});
    entry.kind = InputKind::Position;
    entry.withinSegment = view.has("within") &&
                          view.at("within").choice({"sample", "segment"}) == 1;
    if (view.has("pictures"))
      readPicturePositions(config, entry, view.at("pictures"));
    return;
  default:
    view.only({"tokens"});
    entry.kind = InputKind::TokenMask;
  }
}

void readIndex(Config &config, InputEntry &entry, const JsonView &view) {
  needText(config, view);
  view.only({"index", "of", "width", "pad"});
  entry.kind = InputKind::Index;
  std::vector<JsonView> into = view.at("index").list();
  if (into.size() != 2 || into[0].text() != "sample" ||
      into[1].text() != "token")
    view.at("index").fail("expected [\"sample\", \"token\"]");
  entry.picture = pictureKind(config, view.at("of"));
  entry.item = rowsOf(config, entry.picture);
  PictureKind &kind = config.pictures[size_t(entry.picture)];
  if (kind.grid && !view.has("width")) {
    entry.perSquare = 1;
    kind.placed = true;
    return;
  }
  JsonView width = view.at("width");
  if (width.raw().is_string()) {
    auto dim = config.dims.find(width.text());
    if (dim == config.dims.end())
      width.fail("\"" + width.text() + "\" is not a dim with a number");
    entry.shape = {dim->second};
  } else {
    entry.shape = {width.integer(1, config.sequence)};
  }
  if (view.has("pad"))
    entry.pad = view.at("pad").integer();
  kind.indexWidth = kind.indexWidth < 0
                        ? entry.shape[0]
                        : std::min(kind.indexWidth, entry.shape[0]);
}

void readShape(InputEntry &entry, const JsonView &view) {
  int64_t elements = 1;
  if (view.has("shape"))
    for (const JsonView &extent : view.at("shape").list()) {
      entry.shape.push_back(extent.integer(1, maxElements));
      if (entry.shape.back() > maxElements / elements)
        view.at("shape").fail("too many elements");
      elements *= entry.shape.back();
    }
}

void readRandom(Config &config, InputEntry &entry, const JsonView &view) {
  entry.kind = InputKind::Random;
  entry.draw =
      Draw(view.at("random").choice({"uniform", "normal", "uniform_int"}));
  entry.item = itemKind(config, view.at("per"));
  readShape(entry, view);
  entry.purpose = view.has("purpose") ? view.at("purpose").text() : entry.name;
  auto number = [&](const char *key, double &value) {
    if (view.has(key))
      value = view.at(key).number();
  };
  switch (entry.draw) {
  case Draw::Uniform:
    view.only({"random", "per", "shape", "purpose", "low", "high", "power"});
    number("low", entry.low);
    number("high", entry.high);
    number("power", entry.power);
    if (!(entry.power > 0))
      view.at("power").fail("expected a number above 0");
    return;
  case Draw::Normal:
    view.only({"random", "per", "shape", "purpose", "mean", "std"});
    number("mean", entry.mean);
    number("std", entry.std);
    return;
  case Draw::UniformInt:
    view.only({"random", "per", "shape", "purpose", "below"});
    entry.below = view.at("below").integer(1, int64_t(1) << 32);
  }
}

/// The betas of DDPM (Ho et al. 2020, linear) and latent diffusion
/// (scaled_linear), as running products: signal = sqrt(a_t), spread = sqrt(1 -
/// a_t).
void readDdpm(InputEntry &entry, const JsonView &view) {
  int64_t steps =
      view.has("steps") ? view.at("steps").integer(1, 1 << 20) : 1000;
  double first =
      view.has("beta_start") ? view.at("beta_start").number() : 0.00085;
  double last = view.has("beta_end") ? view.at("beta_end").number() : 0.012;
  bool linear = view.has("betas") &&
                view.at("betas").choice({"scaled_linear", "linear"}) == 1;
  if (!(first > 0 && first < 1 && last > 0 && last < 1))
    view.fail("expected beta_start and beta_end between 0 and 1");
  double product = 1;
  for (int64_t t = 0; t < steps; ++t) {
    double part = steps > 1 ? double(t) / double(steps - 1) : 0;
    double root =
        std::sqrt(first) + (std::sqrt(last) - std::sqrt(first)) * part;
    product *= 1 - (linear ? first + (last - first) * part : root * root);
    entry.signal.push_back(float(std::sqrt(product)));
    entry.spread.push_back(float(std::sqrt(1 - product)));
  }
}

void readNoised(InputEntry &entry, const JsonView &view) {
  entry.kind = InputKind::Noised;
  entry.ddpm = view.at("schedule").choice({"flow", "ddpm"}) == 1;
  if (entry.ddpm) {
    view.only({"noised", "noise", "time", "schedule", "gives", "steps",
               "beta_start", "beta_end", "betas"});
    readDdpm(entry, view);
  } else {
    view.only({"noised", "noise", "time", "schedule", "gives"});
  }
  entry.velocity =
      view.has("gives") && view.at("gives").choice({"state", "velocity"}) == 1;
}

/// Of each patch where it stands in its picture, or which picture it is of.
void readPatches(Config &config, InputEntry &entry, const JsonView &view) {
  view.only({"patches", "gives", "squares"});
  entry.picture = pictureKind(config, view.at("patches"));
  const PictureKind &kind = config.pictures[size_t(entry.picture)];
  if (!kind.grid)
    view.at("patches").fail("pictures of \"" + kind.name +
                            "\" have one size; expected a kind with "
                            "\"patches\" in data.pictures");
  entry.item = rowsOf(config, entry.picture);
  entry.perSquare = kind.grid.patches();
  size_t gives = view.at("gives").choice({"places", "segment", "windows"});
  constexpr InputKind kinds[] = {InputKind::Places, InputKind::Pictures,
                                 InputKind::Windows};
  entry.kind = kinds[gives];
  if (entry.kind == InputKind::Places)
    entry.shape = {2};
  if (entry.kind == InputKind::Windows)
    entry.window = view.at("squares").integer(1);
  else if (view.has("squares"))
    view.at("squares").fail("goes with windows");
}

void readEntry(Config &config, InputEntry &entry, const JsonView &view) {
  view.object();
  if (view.has("tokens"))
    return readTokens(config, entry, view);
  if (view.has("index"))
    return readIndex(config, entry, view);
  if (view.has("random"))
    return readRandom(config, entry, view);
  if (view.has("noised"))
    return readNoised(entry, view);
  if (view.has("pixels")) {
    view.only({"pixels"});
    entry.kind = InputKind::Pixels;
    entry.picture = pictureKind(config, view.at("pixels"));
    entry.item = rowsOf(config, entry.picture);
    const PictureKind &kind = config.pictures[size_t(entry.picture)];
    if (kind.grid) {
      entry.perSquare = kind.grid.patches();
      entry.shape = {kind.elements()};
    } else {
      entry.shape = {kind.channels, kind.height, kind.width};
    }
  } else if (view.has("patches")) {
    readPatches(config, entry, view);
  } else if (view.has("label")) {
    view.only({"label"});
    view.at("label").choice({"sample"});
    entry.kind = InputKind::Label;
    entry.item = sampleItem;
    config.needsLabel = true;
  } else if (view.has("mask")) {
    view.only({"mask", "trailing"});
    entry.kind = InputKind::IndexMask;
    entry.shape.assign(
        view.has("trailing") ? size_t(view.at("trailing").integer(0, 4)) : 0,
        1);
  } else if (view.has("item_of")) {
    view.only({"item_of"});
    entry.kind = InputKind::ItemOf;
    entry.item = itemKind(config, view.at("item_of"));
  } else if (view.has("value")) {
    view.only({"value", "per", "shape"});
    entry.kind = InputKind::Value;
    entry.value = view.at("value").number();
    entry.item = itemKind(config, view.at("per"));
    readShape(entry, view);
  } else {
    view.fail("expected one of the keys tokens, pixels, patches, label, index, "
              "mask, item_of, random, noised, value");
  }
}

int otherEntry(const Config &config, const JsonView &view) {
  int found = config.findInput(view.text());
  if (found < 0)
    view.fail("\"" + view.text() + "\" is not in inputs");
  return found;
}

/// Resolves what an entry says about other entries. Noised entries refer to no
/// noised ones, so two passes suffice.
void resolve(Config &config, InputEntry &entry, const JsonView &view) {
  if (entry.kind == InputKind::IndexMask) {
    entry.index = otherEntry(config, view.at("mask"));
    const InputEntry &index = config.inputs[size_t(entry.index)];
    if (index.kind != InputKind::Index || index.perSquare)
      view.at("mask").fail("expected the name of an index input with a width");
    entry.item = index.item;
    entry.shape.insert(entry.shape.begin(), index.shape[0]);
  }
  if (entry.kind != InputKind::Noised)
    return;
  entry.clean = otherEntry(config, view.at("noised"));
  entry.noise = otherEntry(config, view.at("noise"));
  entry.time = otherEntry(config, view.at("time"));
  const InputEntry &clean = config.inputs[size_t(entry.clean)],
                   &noise = config.inputs[size_t(entry.noise)],
                   &time = config.inputs[size_t(entry.time)];
  auto simple = [](const InputEntry &e) {
    return e.kind == InputKind::Pixels || e.kind == InputKind::Random ||
           e.kind == InputKind::Value;
  };
  if (!simple(clean) || clean.integer() || clean.perSquare)
    view.at("noised").fail(
        "expected the name of a pixels, random or value input");
  if (!simple(noise) || noise.integer() || noise.shape != clean.shape ||
      noise.item != clean.item)
    view.at("noise").fail(
        "expected an input of floats with the items and shape of \"" +
        clean.name + "\"");
  if (!simple(time) || !time.shape.empty() || time.item != clean.item)
    view.at("time").fail("expected one number for each item of \"" +
                         clean.name + "\"");
  if (entry.ddpm &&
      !(time.integer() && time.below <= int64_t(entry.signal.size())))
    view.at("time").fail("expected a uniform_int draw below the schedule's " +
                         std::to_string(entry.signal.size()) + " steps");
  if (!entry.ddpm && time.integer())
    view.at("time").fail("expected a float from 0 to 1");
  entry.item = clean.item;
  entry.shape = clean.shape;
}
} // namespace

void data::readInputs(Config &config, const JsonView &inputs) {
  for (auto &item : inputs.object().raw().items()) {
    InputEntry entry;
    entry.name = item.key();
    readEntry(config, entry, inputs.at(item.key()));
    config.inputs.push_back(std::move(entry));
  }
  for (InputEntry &entry : config.inputs)
    resolve(config, entry, inputs.at(entry.name));
}

namespace {
/// "image.1": the part's name in templates.
std::string nameOfPart(const Config &config, const SegmentKind &segment,
                       size_t part) {
  auto end = segment.parts.begin() + int64_t(part);
  auto before = std::count(segment.parts.begin(), end, *end);
  std::string name =
      *end == textKind ? "text" : config.pictures[size_t(*end)].name;
  return before ? name + "." + std::to_string(before) : name;
}

/// Of each square of the part's picture an index has the place of one token.
void checkPlaced(const Config &config, const SegmentKind &segment, size_t part,
                 const JsonView &view) {
  int64_t marked = 0, perSquare = 0;
  for (const TemplateElement &element : segment.tokens)
    if (element.ofPart == int(part)) {
      ++marked;
      perSquare += element.perSquare;
    }
  if (marked != 1 || perSquare != 1)
    view.at("tokens").fail(
        "an input has a place in the text for each square of \"" +
        nameOfPart(config, segment, part) +
        "\"; expected one element that is \"of\" it, with the \"count\" \"" +
        config.pictures[size_t(segment.parts[part])].measure + "\"");
}

/// What a segment holds however long its texts are.
void checkSegment(const Config &config, const SegmentKind &segment,
                  const JsonView &view) {
  int64_t fixed = 0;
  for (const TemplateElement &element : segment.tokens)
    fixed += element.textPart >= 0 || element.perSquare ? 0 : element.count;
  if (fixed > config.sequence && !config.cut)
    view.at("tokens").fail(std::to_string(fixed) +
                           " tokens without any text, but \"sequence\" is " +
                           std::to_string(config.sequence));
  for (size_t k = 0; k < config.pictures.size(); ++k) {
    const PictureKind &kind = config.pictures[k];
    if (std::count(segment.parts.begin(), segment.parts.end(), int(k)) >
        kind.max)
      view.at("parts").fail("more than " + std::to_string(kind.max) + " of \"" +
                            kind.name + "\", " +
                            (kind.ragged
                                 ? "the \"max\" of a sample in items"
                                 : "which is not in items: one a sample"));
  }
  for (size_t i = 0; i < segment.parts.size(); ++i) {
    if (segment.parts[i] == textKind)
      continue;
    const PictureKind &kind = config.pictures[size_t(segment.parts[i])];
    if (kind.placed)
      checkPlaced(config, segment, i, view);
    if (kind.indexWidth < 0)
      continue;
    SegmentKind::Use use = segment.useOf(i);
    if (!use.marked)
      view.at("tokens").fail(
          "no token is \"of\" the part \"" + nameOfPart(config, segment, i) +
          "\", so an index input of it would hold padding only");
    if (use.positions > kind.indexWidth)
      view.at("tokens").fail(std::to_string(use.positions) +
                             " positions are of one \"" + kind.name +
                             "\", but an index input of it has a \"width\" "
                             "of " +
                             std::to_string(kind.indexWidth));
  }
}
} // namespace

void data::checkSegments(const Config &config, const JsonView &segments) {
  std::vector<bool> occurs(config.pictures.size(), false);
  for (const SegmentKind &segment : config.segments) {
    checkSegment(config, segment, segments.at(segment.name));
    for (int part : segment.parts)
      if (part != textKind)
        occurs[size_t(part)] = true;
  }
  for (size_t i = 0; i < occurs.size(); ++i)
    if (!occurs[i])
      segments.fail("no segment has the part \"" + config.pictures[i].name +
                    "\", a kind in data.pictures");
}
