//===- Assemble.cpp - tensors of a part from its samples --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Assemble.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Assemble.h"

#include "runtime/base/Error.h"
#include "runtime/base/Philox.h"

#include <algorithm>
#include <cmath>

using namespace dt::rt;
using namespace dt::rt::data;

int64_t PartSamples::count(int item) const {
  if (item == sampleItem)
    return int64_t(samples.size());
  if (!items.empty())
    return int64_t(items[size_t(item)].size());
  int64_t n = 0;
  for (const DecodedSample *sample : samples)
    n += int64_t(sample->document.items[size_t(item)].size());
  return n;
}

namespace {
int64_t product(const std::vector<int64_t> &shape) {
  int64_t n = 1;
  for (int64_t extent : shape)
    n *= extent;
  return n;
}

template <typename T> T *as(HostTensor &tensor) {
  return reinterpret_cast<T *>(tensor.bytes.data());
}
template <typename T> const T *as(const HostTensor &tensor) {
  return reinterpret_cast<const T *>(tensor.bytes.data());
}

/// Calls f(row, sample, number in the sample) for each item of the part in
/// order.
template <typename F> void eachItem(int item, const PartSamples &part, F f) {
  int64_t row = 0;
  if (item != sampleItem && !part.items.empty()) {
    for (const PartSamples::Item &i : part.items[size_t(item)])
      f(row++, i.sample, i.number);
    return;
  }
  for (size_t s = 0; s < part.samples.size(); ++s) {
    size_t count = item == sampleItem
                       ? 1
                       : part.samples[s]->document.items[size_t(item)].size();
    for (size_t i = 0; i < count; ++i)
      f(row++, s, i);
  }
}

/// Windows of a picture are numbered row by row.
int64_t windowOf(const Squares &squares, int64_t side, int64_t square) {
  int64_t across = (squares.across + side - 1) / side;
  return square / squares.across / side * across +
         square % squares.across / side;
}

const DocumentItem &itemOf(const PartSamples &part, int picture, size_t sample,
                           size_t number) {
  return part.samples[sample]->document.items[size_t(picture)][number];
}
} // namespace

int64_t PartSamples::countSquares(int item) const {
  int64_t squares = 0;
  eachItem(item, *this, [&](int64_t, size_t s, size_t i) {
    squares += itemOf(*this, item, s, i).squares.count();
  });
  return squares;
}

std::vector<int64_t> PartAssembler::firstTokens() const {
  std::vector<int64_t> first{0};
  for (const DecodedSample *sample : part.samples)
    first.push_back(first.back() + (config.packed
                                        ? int64_t(sample->document.ids.size())
                                        : config.sequence));
  return first;
}

void PartAssembler::tokens(const InputEntry &entry, int64_t *out) const {
  std::vector<int64_t> first = firstTokens();
  int64_t before = 0; // segments of earlier samples, where rows have several
  for (size_t s = 0; s < part.samples.size(); ++s) {
    const Document &d = part.samples[s]->document;
    int64_t *row = out + first[s], length = int64_t(d.ids.size()), start = 0;
    for (int64_t p = 0; p < first[s + 1] - first[s]; ++p) {
      size_t i = size_t(p);
      bool in = p < length;
      if (in && (p == 0 || d.segment[i] != d.segment[i - 1]))
        start = p;
      switch (entry.kind) {
      case InputKind::Ids:
        row[p] = in ? d.ids[i] : config.pad;
        break;
      case InputKind::Segment:
        row[p] = in ? before + d.segment[i] : -1;
        break;
      case InputKind::Position:
        row[p] = !entry.withinSegment ? p : in ? p - start : 0;
        break;
      case InputKind::TokenMask:
        row[p] = in;
        break;
      default: { // labels: the first token of a segment is never predicted from
                 // another segment
        size_t target = size_t(p + entry.shift);
        bool valid = p + entry.shift < length && d.loss[target] &&
                     d.segment[target] == d.segment[i] &&
                     entry.segments[size_t(d.segmentKind[target])];
        row[p] = valid ? d.ids[target] : entry.ignore;
      }
      }
    }
    if (config.packed && length > 0)
      before += d.segment.back() + 1;
  }
}

/// As Qwen2-VL counts: texts have one number for all three axes; squares of a
/// picture one time, and a height and a width from there on; what follows goes
/// on behind the larger of its sides.
void PartAssembler::picturePositions(const InputEntry &entry,
                                     int64_t *out) const {
  std::vector<int64_t> first = firstTokens();
  for (size_t s = 0; s < part.samples.size(); ++s) {
    const Document &d = part.samples[s]->document;
    std::vector<const DocumentItem *> pictureAt(d.ids.size(), nullptr);
    for (const DocumentItem &item : d.items[size_t(entry.picture)])
      if (!item.positions.empty())
        pictureAt[size_t(item.positions[0])] = &item;
    int64_t following = 0;
    auto put = [&](size_t token, int64_t down, int64_t across) {
      int64_t at = first[s] + int64_t(token), all = first.back();
      out[at] = following;
      out[all + at] = following + down;
      out[2 * all + at] = following + across;
    };
    for (size_t t = 0; t < d.ids.size();) {
      if (entry.withinSegment && t && d.segment[t] != d.segment[t - 1])
        following = 0;
      if (!pictureAt[t]) {
        put(t++, 0, 0);
        ++following;
        continue;
      }
      const Squares &squares = pictureAt[t]->squares;
      for (int64_t i = 0; i < squares.count(); ++i)
        put(t++, i / squares.across, i % squares.across);
      following += std::max(squares.down, squares.across);
    }
  }
}

void PartAssembler::index(const InputEntry &entry, int64_t *out) const {
  std::vector<int64_t> first = firstTokens();
  if (entry.perSquare) {
    eachItem(entry.item, part, [&](int64_t, size_t s, size_t i) {
      for (int32_t position : itemOf(part, entry.picture, s, i).positions)
        *out++ = first[s] + position;
    });
    return;
  }
  int64_t width = entry.shape[0];
  eachItem(entry.item, part, [&](int64_t row, size_t s, size_t i) {
    const auto &positions = itemOf(part, entry.picture, s, i).positions;
    for (int64_t k = 0; k < width; ++k)
      out[row * width + k] = k < int64_t(positions.size())
                                 ? first[s] + positions[size_t(k)]
                                 : entry.pad;
  });
}

void PartAssembler::pixels(const InputEntry &entry, float *out) const {
  const PictureKind &kind = config.pictures[size_t(entry.picture)];
  // Of each sample where its pictures are, found once.
  std::vector<std::vector<size_t>> first(part.samples.size());
  eachItem(entry.item, part, [&](int64_t, size_t s, size_t i) {
    if (first[s].empty())
      first[s] =
          part.samples[s]->document.firstElements(kind, size_t(entry.picture));
    const float *all = part.samples[s]->pixels[size_t(entry.picture)].data();
    out = std::copy(all + first[s][i], all + first[s][i + 1], out);
  });
}

/// By squares, as their pixels stand (cutPatches).
void PartAssembler::patches(const InputEntry &entry, int64_t *out) const {
  const PatchGrid &grid = config.pictures[size_t(entry.picture)].grid;
  int64_t windows = 0; // of the pictures before
  eachItem(entry.item, part, [&](int64_t row, size_t s, size_t i) {
    const Squares &squares = itemOf(part, entry.picture, s, i).squares;
    for (int64_t square = 0; square < squares.count(); ++square)
      for (int64_t p = 0; p < grid.patches(); ++p) {
        if (entry.kind != InputKind::Places) {
          *out++ = entry.kind == InputKind::Pictures
                       ? row
                       : windows + windowOf(squares, entry.window, square);
          continue;
        }
        *out++ = square / squares.across * grid.merge + p / grid.merge;
        *out++ = square % squares.across * grid.merge + p % grid.merge;
      }
    if (entry.kind == InputKind::Windows)
      windows += windowOf(squares, entry.window, squares.count() - 1) + 1;
  });
}

void PartAssembler::indexMask(const InputEntry &entry, float *out) const {
  const InputEntry &of = config.inputs[size_t(entry.index)];
  int64_t width = of.shape[0];
  eachItem(of.item, part, [&](int64_t row, size_t s, size_t i) {
    size_t used =
        part.samples[s]->document.items[size_t(of.picture)][i].positions.size();
    for (int64_t k = 0; k < width; ++k)
      out[row * width + k] = size_t(k) < used;
  });
}

void PartAssembler::draws(const InputEntry &entry, HostTensor &out) const {
  int64_t elements = product(entry.shape);
  int64_t max =
      entry.item == sampleItem ? 1 : config.pictures[size_t(entry.item)].max;
  uint64_t purpose = philoxPurpose(entry.purpose.c_str());
  eachItem(entry.item, part, [&](int64_t row, size_t s, size_t i) {
    Random random(config.seed, purpose, uint64_t(part.step),
                  uint64_t(part.places[s] * max + int64_t(i)));
    int64_t at = row * elements;
    switch (entry.draw) {
    case Draw::UniformInt: // multiply-shift instead of modulo: the bias is
                           // below 2^-32 * below
      for (int64_t e = 0; e < elements; ++e)
        as<int64_t>(out)[at + e] = int64_t(
            (uint64_t(random.bits(uint64_t(e))) * uint64_t(entry.below)) >> 32);
      break;
    case Draw::Uniform:
      for (int64_t e = 0; e < elements; ++e) {
        double u = random.uniform(uint64_t(e));
        if (entry.power != 1)
          u = std::pow(u, entry.power);
        as<float>(out)[at + e] =
            float(entry.low + (entry.high - entry.low) * u);
      }
      break;
    case Draw::Normal:
      random.normals(as<float>(out) + at, uint64_t(elements));
      if (entry.mean != 0 || entry.std != 1)
        for (int64_t e = 0; e < elements; ++e)
          as<float>(out)[at + e] =
              float(entry.mean + entry.std * double(as<float>(out)[at + e]));
    }
  });
}

void PartAssembler::noised(const InputEntry &entry, float *out) {
  const HostTensor &clean = get(entry.clean), &noise = get(entry.noise),
                   &time = get(entry.time);
  int64_t elements = product(entry.shape), rows = part.count(entry.item);
  for (int64_t row = 0; row < rows; ++row) {
    float x, n; // result = x * clean + n * noise
    if (entry.ddpm) {
      size_t t = size_t(as<int64_t>(time)[row]);
      x = entry.velocity ? -entry.spread[t] : entry.signal[t];
      n = entry.velocity ? entry.signal[t] : entry.spread[t];
    } else {
      float t = as<float>(time)[row];
      x = entry.velocity ? 1 : t;
      n = entry.velocity ? -1 : 1 - t;
    }
    const float *a = as<float>(clean) + row * elements,
                *b = as<float>(noise) + row * elements;
    for (int64_t e = 0; e < elements; ++e)
      out[row * elements + e] = n * b[e] + x * a[e];
  }
}

const HostTensor &PartAssembler::get(int entry) {
  auto &slot = made[size_t(entry)];
  if (!slot)
    slot = std::make_unique<HostTensor>(make(config.inputs[size_t(entry)]));
  return *slot;
}

HostTensor PartAssembler::make(const InputEntry &entry) {
  HostTensor out;
  out.type = entry.integer() ? DType::I64 : DType::F32;
  out.shape = entry.shape;
  out.shape.insert(out.shape.begin(),
                   entry.perSquare
                       ? entry.perSquare * part.countSquares(entry.item)
                       : part.count(entry.item));
  if (config.packed && entry.ofTokens())
    out.shape = {1, firstTokens().back()};
  if (entry.ofPictures)
    out.shape.insert(out.shape.begin(), 3);
  int64_t count = product(out.shape);
  out.bytes.resize(size_t(count) * sizeOf(out.type));
  switch (entry.kind) {
  case InputKind::Ids:
  case InputKind::Labels:
  case InputKind::Segment:
  case InputKind::Position:
  case InputKind::TokenMask:
    if (entry.ofPictures)
      picturePositions(entry, as<int64_t>(out));
    else
      tokens(entry, as<int64_t>(out));
    break;
  case InputKind::Pixels:
    pixels(entry, as<float>(out));
    break;
  case InputKind::Places:
  case InputKind::Pictures:
  case InputKind::Windows:
    patches(entry, as<int64_t>(out));
    break;
  case InputKind::Label:
    for (size_t s = 0; s < part.samples.size(); ++s)
      as<int64_t>(out)[s] = part.samples[s]->document.label;
    break;
  case InputKind::Index:
    index(entry, as<int64_t>(out));
    break;
  case InputKind::IndexMask:
    indexMask(entry, as<float>(out));
    break;
  case InputKind::ItemOf:
    eachItem(entry.item, part, [&](int64_t row, size_t s, size_t) {
      as<int64_t>(out)[row] = int64_t(s);
    });
    break;
  case InputKind::Random:
    draws(entry, out);
    break;
  case InputKind::Noised:
    noised(entry, as<float>(out));
    break;
  case InputKind::Value:
    for (int64_t i = 0; i < count; ++i)
      as<float>(out)[i] = float(entry.value);
  }
  return out;
}

namespace {
template <typename To> HostTensor convertTo(const HostTensor &in, DType type) {
  HostTensor out;
  out.type = type;
  out.shape = in.shape;
  size_t count = in.bytes.size() / sizeOf(in.type);
  out.bytes.resize(count * sizeof(To));
  for (size_t i = 0; i < count; ++i)
    as<To>(out)[i] =
        in.type == DType::I64 ? To(as<int64_t>(in)[i]) : To(as<float>(in)[i]);
  return out;
}
} // namespace

HostTensor data::convert(const HostTensor &tensor, DType type,
                         const std::string &name) {
  if (tensor.type == type)
    return tensor;
  switch (type) {
  case DType::F32:
    return convertTo<float>(tensor, type);
  case DType::F64:
    return convertTo<double>(tensor, type);
  case DType::I64:
    return convertTo<int64_t>(tensor, type);
  case DType::I32:
    return convertTo<int32_t>(tensor, type);
  case DType::I8:
    return convertTo<int8_t>(tensor, type);
  case DType::U8:
    return convertTo<uint8_t>(tensor, type);
  case DType::Bool:
    return convertTo<bool>(tensor, type);
  default:
    throw Error("input " + name +
                ": the data cannot be given as a 16-bit float; let the graph "
                "take float32");
  }
}
