//===- Pieces.cpp - tensors that several ranks have parts of --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/state/Pieces.h"
#include "runtime/base/ReadJson.h"
#include "runtime/data/Convert.h"
#include "runtime/device/Device.h"

#include <algorithm>
#include <cstring>

namespace dt::rt {

namespace {

constexpr const char *kNote = "pieces";

/// Numbers of an untrusted note.
std::vector<int64_t> numbers(const nlohmann::json &object, const char *key,
                             const std::string &where) {
  std::vector<int64_t> list;
  auto found = object.find(key);
  bool good = found != object.end() && found->is_array() && found->size() <= 32;
  if (good)
    for (const nlohmann::json &v : *found) {
      good &= v.is_number_unsigned() && v.get<uint64_t>() < (1ull << 40);
      list.push_back(good ? v.get<int64_t>() : 0);
    }
  if (!good)
    throw Error(where + ": \"" + key + "\" is not a list of numbers");
  return list;
}

std::vector<ParameterLayout::Cut> readCuts(const nlohmann::json &object,
                                           const std::string &where) {
  std::vector<ParameterLayout::Cut> cuts;
  auto found = object.find("cuts");
  if (found == object.end() || !found->is_array() || found->size() > 32)
    throw Error(where + ": \"cuts\" is not a list");
  for (const nlohmann::json &cut : *found) {
    std::vector<int64_t> n = numbers({{"cut", cut}}, "cut", where);
    if (n.size() != 4)
      throw Error(where + ": a cut is not four numbers");
    cuts.push_back({n[0], n[1], n[2], n[3]});
  }
  return cuts;
}

} // namespace

void PieceWriter::add(const std::string &name, DType type,
                      const ParameterLayout &layout, int64_t begin, int64_t end,
                      const void *device, Check check) {
  pieces.push_back(
      {device, size_t(end - begin) * sizeOf(type), std::move(check)});
  if (layout.identity() && begin == 0 && end == layout.partElements())
    return writer.add(name, type, layout.whole(), device);
  nlohmann::json cuts = nlohmann::json::array();
  for (const ParameterLayout::Cut &cut : layout.cuts())
    cuts.push_back({cut.dim, cut.chunk, cut.over, cut.place});
  std::string key = name + "[" + std::to_string(begin) + "]";
  notes[key] = {{"tensor", name},
                {"whole", layout.whole()},
                {"padded", layout.padded()},
                {"cuts", cuts},
                {"flat", {begin, end}}};
  writer.add(key, type, {end - begin}, device);
}

size_t PieceWriter::bytes() const {
  size_t sum = 0;
  for (const Piece &piece : pieces)
    sum += piece.bytes;
  return sum;
}

bool PieceWriter::copyTo(device::Snapshot &snapshot) {
  snapshot.clear();
  for (Piece &piece : pieces)
    piece.place = snapshot.add(piece.memory, piece.bytes);
  copies = snapshot.begin() ? &snapshot : nullptr;
  return copies;
}

void PieceWriter::forgetCopies() {
  copies->clear();
  copies = nullptr;
}

uint64_t PieceWriter::write(const std::string &path, Folder folder) {
  if (!notes.empty())
    writer.note(kNote, notes.dump());
  std::vector<std::byte> buffer;
  auto source = [&](size_t tensor, size_t from, size_t &bytes) {
    const Piece &piece = pieces[tensor];
    const std::byte *values;
    if (copies) {
      values = copies->read(piece.place + from, bytes);
    } else {
      buffer.resize(bytes);
      values = buffer.data();
      device::copyToHost(buffer.data(),
                         static_cast<const std::byte *>(piece.memory) + from,
                         bytes);
    }
    if (piece.check)
      piece.check(values, bytes);
    return values;
  };
  return writer.write(path, source, folder);
}

PieceReader::PieceReader(const std::vector<std::string> &paths,
                         const std::string &name) {
  for (const std::string &path : paths) {
    files.push_back(std::make_unique<SafetensorsReader>(path));
    const SafetensorsReader &file = *files.back();
    where = path;
    nlohmann::json notes = nlohmann::json::object();
    if (auto text = file.metadata().find(kNote); text != file.metadata().end())
      notes = readJsonIfGood(text->second);
    if (!notes.is_object())
      throw Error(path + ": its note \"pieces\" is not JSON");
    for (auto &[key, other] : file.otherTensors())
      others[key] = other.type;
    for (auto &[key, place] : file.tensors()) {
      auto note = notes.find(key);
      int64_t elements = elementCount(place.shape);
      if (note == notes.end()) {
        pieces[key].push_back(
            {&file, &place, place.shape, place.shape, {}, 0, elements});
        continue;
      }
      std::string at = path + ": tensor '" + key + "'";
      if (!note->is_object() || !note->contains("tensor") ||
          !(*note)["tensor"].is_string())
        throw Error(at + ": its note is not that of a piece");
      std::vector<int64_t> flat = numbers(*note, "flat", at);
      if (flat.size() != 2 || flat[1] < flat[0] ||
          flat[1] - flat[0] != elements)
        throw Error(at + ": \"flat\" does not fit its size");
      pieces[(*note)["tensor"].get<std::string>()].push_back(
          {&file, &place, numbers(*note, "whole", at),
           numbers(*note, "padded", at), readCuts(*note, at), flat[0],
           flat[1]});
    }
  }
  if (!name.empty())
    where = name;
  else if (paths.size() > 1)
    where += " and the other ranks' files";
}

std::vector<std::string> PieceReader::names() const {
  std::vector<std::string> list;
  for (auto &entry : pieces)
    list.push_back(entry.first);
  for (auto &entry : others)
    if (!pieces.count(entry.first))
      list.push_back(entry.first);
  std::sort(list.begin(), list.end());
  return list;
}

const std::vector<PieceReader::Piece> &
PieceReader::get(const std::string &name) const {
  if (auto other = others.find(name); other != others.end())
    throw Error(where + ": tensor '" + name + "' is " + other->second +
                ", a type that is not read");
  auto found = pieces.find(name);
  if (found == pieces.end())
    throw Error(where + ": tensor '" + name + "' is missing");
  return found->second;
}

std::vector<int64_t> PieceReader::shapeOf(const std::string &name) const {
  return get(name)[0].whole;
}

DType PieceReader::typeOf(const std::string &name) const {
  return get(name)[0].place->type;
}

std::vector<std::byte>
PieceReader::whole(const std::string &name, DType type,
                   const std::vector<int64_t> &shape) const {
  get(name);
  ParameterLayout layout(shape, shape, {}, where + ": tensor '" + name + "'");
  std::vector<std::byte> out(size_t(layout.wholeElements()) * sizeOf(type));
  part(name, type, layout, 0, layout.wholeElements(), out.data());
  return out;
}

ParameterLayout PieceReader::layoutOf(const Piece &piece,
                                      const std::string &name, DType type,
                                      const std::vector<int64_t> &shape) const {
  std::string at = piece.file->path() + ": tensor '" + name + "'";
  if (piece.place->type != type || piece.whole != shape)
    throw Error(at + " is " + textOf(piece.place->type) + " " +
                shapeText(piece.whole) + ", expected " + textOf(type) + " " +
                shapeText(shape));
  // Padding is at most a group's ranks in a dim; a larger one is damage.
  for (size_t d = 0; d < piece.padded.size() && d < shape.size(); ++d)
    if (piece.padded[d] > shape[d] + (1 << 20))
      throw Error(at + ": \"padded\" does not fit its shape");
  ParameterLayout layout(piece.whole, piece.padded, piece.cuts, at);
  if (piece.end > layout.partElements())
    throw Error(at + ": \"flat\" lies outside of its part");
  return layout;
}

namespace {

/// Elements that are next to each other in a piece and in what is asked for.
struct Stretch {
  int64_t from, to, count;
};

/// Both lists ascend in the whole too, since cuts keep the order.
std::vector<Stretch>
intersect(const std::vector<ParameterLayout::Run> &piece,
          const std::vector<ParameterLayout::Run> &wanted) {
  std::vector<Stretch> out;
  for (size_t p = 0, w = 0; p < piece.size() && w < wanted.size();) {
    const ParameterLayout::Run &a = piece[p], &b = wanted[w];
    int64_t begin = std::max(a.whole, b.whole),
            end = std::min(a.whole + a.count, b.whole + b.count);
    if (begin < end)
      out.push_back(
          {a.part + begin - a.whole, b.part + begin - b.whole, end - begin});
    ++(a.whole + a.count < b.whole + b.count ? p : w);
  }
  return out;
}

/// Reads stretches that are near each other at once.
void readStretches(const SafetensorsReader &file, const TensorPlace &place,
                   int64_t first, const std::vector<Stretch> &list, size_t size,
                   int64_t begin, std::byte *out) {
  constexpr int64_t block = 4 << 20, gap = 1 << 14; // bytes
  std::vector<std::byte> buffer;
  for (size_t i = 0; i < list.size();) {
    int64_t from = list[i].from, count = list[i].count, bytes = int64_t(size);
    size_t last = i + 1;
    for (; last < list.size() &&
           (list[last].from - from - count) * bytes <= gap &&
           (list[last].from + list[last].count - from) * bytes <= block;
         ++last)
      count = list[last].from + list[last].count - from;
    uint64_t at = uint64_t(from - first) * size;
    if (last == i + 1) {
      file.read(place, at, size_t(count) * size,
                out + size_t(list[i].to - begin) * size);
    } else {
      buffer.resize(size_t(count) * size);
      file.read(place, at, buffer.size(), buffer.data());
      for (size_t k = i; k < last; ++k)
        std::memcpy(out + size_t(list[k].to - begin) * size,
                    buffer.data() + size_t(list[k].from - from) * size,
                    size_t(list[k].count) * size);
    }
    i = last;
  }
}

} // namespace

void PieceReader::part(const std::string &name, DType type,
                       const ParameterLayout &layout, int64_t begin,
                       int64_t end, void *out) const {
  size_t size = sizeOf(type);
  std::memset(out, 0, size_t(end - begin) * size);
  std::vector<ParameterLayout::Run> wanted = layout.runs(begin, end);
  std::vector<std::pair<int64_t, int64_t>> filled; // [begin, end) in the part
  for (const Piece &piece : get(name)) {
    ParameterLayout own = layoutOf(piece, name, type, layout.whole());
    std::vector<Stretch> list =
        intersect(own.runs(piece.begin, piece.end), wanted);
    readStretches(*piece.file, *piece.place, piece.begin, list, size, begin,
                  static_cast<std::byte *>(out));
    for (const Stretch &s : list)
      filled.push_back({s.to, s.to + s.count});
  }
  // Every element once: the files may be anybody's.
  std::sort(filled.begin(), filled.end());
  int64_t have = 0, need = 0;
  for (size_t i = 0; i < filled.size(); ++i) {
    if (i && filled[i].first < filled[i - 1].second)
      throw Error(where + ": tensor '" + name + "' has elements twice");
    have += filled[i].second - filled[i].first;
  }
  for (const ParameterLayout::Run &run : wanted)
    need += run.count;
  if (have != need)
    throw Error(where + ": tensor '" + name + "' has " + std::to_string(have) +
                " of " + std::to_string(need) + " elements");
}

std::vector<std::byte> PieceReader::floats(const std::string &name, DType type,
                                           const ParameterLayout &layout,
                                           int64_t begin, int64_t end) const {
  DType from = typeOf(name);
  if (!isFloat(from) || !isFloat(type))
    from = type; // or part() throws
  std::vector<std::byte> bytes(size_t(end - begin) * sizeOf(from));
  part(name, from, layout, begin, end, bytes.data());
  return convert(std::move(bytes), from, type, name);
}

} // namespace dt::rt
