//===- Sample.cpp - one sample: members, document, pictures -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Sample.h. Everything in a sample is untrusted: names are only looked up
// among the sample's own members, sizes are checked before reading.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Sample.h"

#include "runtime/base/Files.h"
#include "runtime/base/ReadJson.h"
#include "runtime/data/DecodeMemory.h"

#include <algorithm>
#include <cstdlib>

using namespace dt::rt;
using namespace dt::rt::data;
using Json = nlohmann::json;

int64_t Document::lossTokens() const {
  return std::count(loss.begin(), loss.end(), 1);
}

std::vector<size_t> Document::firstElements(const PictureKind &kind,
                                            size_t number) const {
  std::vector<size_t> first{0};
  for (const DocumentItem &item : items[number])
    first.push_back(first.back() + size_t(kind.elements(item.squares)));
  return first;
}

namespace {
/// A part of a segment, before templates: kind is textKind or a picture kind.
struct RawPart {
  int kind;
  std::string text;
  int member = -1;
};
struct RawSample {
  std::vector<std::vector<RawPart>> segments;
  int64_t label = -1;
};

std::string readBounded(const Limits &limits, const Member &member,
                        const ReadMember &read) {
  if (member.size > limits.text)
    throw Error("member '" + printable(member.name) + "' has " +
                std::to_string(member.size) + " bytes; the limit is " +
                std::to_string(limits.text));
  return read(member);
}

/// Whether a member's name is this one, in letters of any case, as cameras and
/// WebDataset have them. `name`: in small ones.
bool isNamed(const Member &member, const std::string &name) {
  return std::equal(member.name.begin(), member.name.end(), name.begin(),
                    name.end(), [](unsigned char a, char b) {
                      return (a >= 'A' && a <= 'Z' ? a - 'A' + 'a' : a) ==
                             static_cast<unsigned char>(b);
                    });
}

/// Without the mark and the line end that editors add.
std::string plainText(std::string text) {
  if (text.compare(0, 3, "\xef\xbb\xbf") == 0)
    text.erase(0, 3);
  for (char end : {'\n', '\r'})
    if (!text.empty() && text.back() == end)
      text.pop_back();
  return text;
}

Json parseJson(const std::string &text) {
  Json json = readJsonIfGood(text);
  if (json.is_null())
    throw Error("bad JSON");
  return json;
}

class Reader {
public:
  Reader(const Config &config, const std::vector<Member> &members,
         const ReadMember &read)
      : config(config), members(members), read(read) {}

  RawSample raw() {
    RawSample out;
    int json = findShort("json");
    if (json < 0) {
      shortForm(out);
      return out;
    }
    std::string text = content(json);
    Json parsed = readJsonIfGood(text);
    if (isLong(parsed, out))
      return out;
    try {
      shortForm(out);
    } catch (const SystemError &) {
      throw;
    } catch (const Error &) {
      if (parsed.is_null())
        throw Error("bad JSON");
      throw;
    }
    // Metadata may be anything (Python writes NaN); segments may not.
    if (parsed.is_null() && text.find("\"segments\"") != std::string::npos)
      throw Error("bad JSON");
    return out;
  }

private:
  int find(const std::string &name) const {
    for (size_t i = 0; i < members.size(); ++i)
      if (members[i].name == name)
        return int(i);
    return -1;
  }

  /// Of the short form: the name may be in capitals.
  int findShort(const std::string &name) const {
    for (size_t i = 0; i < members.size(); ++i)
      if (isNamed(members[i], name))
        return int(i);
    return -1;
  }

  /// Pictures of other formats are no samples without a picture.
  void expectReadable() const {
    for (const char *name : {"webp", "gif", "bmp", "tif", "tiff", "avif",
                             "heic", "heif", "jxl", "jp2", "ppm", "tga"})
      if (int member = findShort(name); member >= 0)
        throw Error("member '" + printable(members[size_t(member)].name) +
                    "': expected a picture as PNG or JPEG (png, jpg, jpeg); "
                    "other formats are not read");
  }

  std::string content(int member) const {
    return readBounded(config.limits, members[size_t(member)], read);
  }

  int64_t checkLabel(int64_t label) const {
    if (label < 0 || (config.labels && label >= config.labels))
      throw Error(
          "class " + std::to_string(label) + " is outside 0.." +
          (config.labels ? std::to_string(config.labels - 1) : std::string()));
    return label;
  }

  RawPart part(const Json &json) const {
    if (!json.is_object() || json.size() != 1 ||
        !json.begin().value().is_string())
      throw Error("JSON: a part must be an object with one key and a string");
    std::string kind = json.begin().key(),
                value = json.begin().value().get<std::string>();
    if (kind == "text")
      return {textKind, value, -1};
    int number = config.findPicture(kind);
    if (number < 0)
      throw Error("JSON: '" + printable(kind) +
                  "' is neither text nor a picture kind of the recipe");
    int member = find(value);
    if (member < 0)
      throw Error("member '" + printable(value) + "' is missing");
    return {number, {}, member};
  }

  /// False: valid JSON without "segments" (WebDataset pairs often have metadata
  /// there).
  bool isLong(const Json &json, RawSample &out) const {
    if (!json.is_object() || !json.contains("segments"))
      return false;
    const Json &segments = json["segments"];
    if (!segments.is_array() || segments.empty())
      throw Error(
          "JSON: \"segments\" must be a list with at least one segment");
    for (const Json &segment : segments) {
      if (!segment.is_array())
        throw Error("JSON: a segment must be a list of parts");
      out.segments.emplace_back();
      for (const Json &value : segment)
        out.segments.back().push_back(part(value));
    }
    if (json.contains("label") && config.needsLabel) {
      if (!json["label"].is_number_integer())
        throw Error("JSON: \"label\" must be a whole number");
      out.label = checkLabel(json["label"].get<int64_t>());
    }
    return true;
  }

  void shortForm(RawSample &out) const {
    std::vector<RawPart> segment;
    int picture = config.findPicture("image");
    for (const char *name : {"png", "jpg", "jpeg"})
      if (int member = findShort(name); member >= 0 && picture >= 0) {
        if (!segment.empty())
          throw Error("two pictures; a KEY.json says which is which");
        segment.push_back({picture, {}, member});
      }
    if (segment.empty() && picture >= 0)
      expectReadable();
    if (int text = findShort("txt"); text >= 0 && config.sequence) {
      segment.push_back({textKind, plainText(content(text)), -1});
    }
    if (int label = findShort("cls"); label >= 0 && config.needsLabel) {
      std::string digits = content(label);
      while (!digits.empty() && (digits.back() == '\n' ||
                                 digits.back() == ' ' || digits.back() == '\r'))
        digits.pop_back();
      if (digits.empty() || digits.size() > 18 ||
          digits.find_first_not_of("0123456789") != std::string::npos)
        throw Error("cls: expected a whole number");
      out.label = checkLabel(std::strtoll(digits.c_str(), nullptr, 10));
    }
    if (segment.empty() && (out.label < 0 || !config.needsLabel))
      throw Error("no segments: neither JSON with \"segments\" nor png, jpg, "
                  "txt or cls that the recipe takes");
    if (!segment.empty())
      out.segments.push_back(std::move(segment));
  }

  const Config &config;
  const std::vector<Member> &members;
  const ReadMember &read;
};

class Builder {
public:
  /// `squaresOf(kind, number, member)` of a picture of any size.
  using FindSquares = std::function<Squares(size_t, size_t, int)>;
  Builder(const Config &config, FindSquares squaresOf)
      : config(config), squaresOf(std::move(squaresOf)) {
    document.items.resize(config.pictures.size());
  }

  void segment(const std::vector<RawPart> &parts) {
    std::vector<DocumentItem *> items(parts.size(), nullptr);
    for (size_t i = 0; i < parts.size(); ++i)
      if (parts[i].kind != textKind)
        addItem(size_t(parts[i].kind), parts[i].member);
    if (!config.sequence)
      return;
    // Pointers only after all insertions: the k-th last item of a kind belongs
    // to the k-th last such part.
    std::vector<size_t> taken(config.pictures.size(), 0);
    for (size_t i = parts.size(); i-- > 0;)
      if (parts[i].kind != textKind) {
        auto &list = document.items[size_t(parts[i].kind)];
        items[i] = &list[list.size() - 1 - taken[size_t(parts[i].kind)]++];
      }
    const SegmentKind &kind = match(parts);
    for (const TemplateElement &element : kind.tokens) {
      DocumentItem *of =
          element.ofPart >= 0 ? items[size_t(element.ofPart)] : nullptr;
      if (element.textPart >= 0)
        for (int32_t id :
             config.tokenizer.encode(parts[size_t(element.textPart)].text))
          token(id, element.loss, of, kind);
      else
        for (int64_t i = 0, n = element.perSquare ? of->squares.count()
                                                  : element.count;
             i < n; ++i)
          token(element.token, element.loss, of, kind);
    }
    ++number;
  }

  Document finish(int64_t label) {
    document.label = label;
    if (config.needsLabel && label < 0)
      throw Error("no class (KEY.cls or \"label\")");
    for (size_t k = 0; k < config.pictures.size(); ++k) {
      const PictureKind &kind = config.pictures[k];
      int64_t count = int64_t(document.items[k].size());
      if (kind.ragged ? count > kind.max : count != 1)
        throw Error(std::to_string(count) + " pictures of the kind " +
                    kind.name + "; " +
                    (kind.ragged
                         ? "at most " + std::to_string(kind.max) + " may be"
                         : "exactly 1 must be") +
                    " in a sample");
      for (const DocumentItem &item : document.items[k])
        if (kind.indexWidth >= 0 &&
            int64_t(item.positions.size()) > kind.indexWidth)
          throw Error(std::to_string(item.positions.size()) +
                      " tokens belong to one " + kind.name + "; at most " +
                      std::to_string(kind.indexWidth) + " fit");
    }
    return std::move(document);
  }

private:
  void addItem(size_t kind, int member) {
    std::vector<DocumentItem> &items = document.items[kind];
    Squares squares;
    // More than there may be are refused in the end: none is looked at.
    if (config.pictures[kind].grid &&
        int64_t(items.size()) < config.pictures[kind].max)
      squares = squaresOf(kind, items.size(), member);
    items.push_back({member, {}, squares});
  }

  const SegmentKind &match(const std::vector<RawPart> &parts) const {
    for (const SegmentKind &kind : config.segments)
      if (kind.parts.size() == parts.size() &&
          std::equal(parts.begin(), parts.end(), kind.parts.begin(),
                     [](const RawPart &p, int k) { return p.kind == k; }))
        return kind;
    std::vector<int> own;
    for (const RawPart &part : parts)
      own.push_back(part.kind);
    std::string others;
    for (const SegmentKind &kind : config.segments)
      others += (others.empty() ? "" : "; ") + kind.name + ": " +
                listParts(kind.parts);
    throw Error("no segment kind of the recipe has the parts " +
                listParts(own) + " (it has " + others + ")");
  }

  std::string listParts(const std::vector<int> &kinds) const {
    constexpr size_t most = 8;
    std::string text;
    for (size_t i = 0; i < std::min(kinds.size(), most); ++i)
      text += (i ? ", " : "") + (kinds[i] == textKind
                                     ? "text"
                                     : config.pictures[size_t(kinds[i])].name);
    return text + (kinds.size() > most ? ", ..." : "");
  }

  void token(int32_t id, bool loss, DocumentItem *of, const SegmentKind &kind) {
    if (int64_t(document.ids.size()) >= config.sequence) {
      if (!config.cut || of)
        throw Error("more than " + std::to_string(config.sequence) + " tokens");
      return;
    }
    if (of)
      of->positions.push_back(int32_t(document.ids.size()));
    document.ids.push_back(id);
    document.loss.push_back(loss);
    document.segment.push_back(number);
    document.segmentKind.push_back(int32_t(&kind - config.segments.data()));
  }

  const Config &config;
  FindSquares squaresOf;
  Document document;
  int32_t number = 0;
};

/// A picture's bytes. What is wrong with it is said with its name.
template <typename Use>
auto withPicture(const Config &config, const Member &member,
                 const ReadMember &read, Use use) {
  try {
    if (member.size > config.limits.bytes)
      throw Error(std::to_string(member.size) + " bytes; the limit is " +
                  std::to_string(config.limits.bytes));
    return use(read(member));
  } catch (const SystemError &) {
    throw;
  } catch (const Error &error) {
    throw Error("member '" + printable(member.name) + "': " + error.what());
  }
}

/// By what the header declares.
Squares readSquares(const Config &config, const PictureKind &kind,
                    const Member &member, const ReadMember &read) {
  return withPicture(config, member, read, [&](const std::string &bytes) {
    auto [width, height] = pictureSize(bytes, config.limits.pixels);
    if (width < 1 || height < 1)
      throw Error("neither PNG nor JPEG");
    return squaresOf(width, height, kind.grid);
  });
}

/// Decodes a picture to where it stands.
void decodeInto(const Config &config, const PictureKind &kind,
                const Squares &squares, const std::string &bytes, float *out) {
  int64_t width = kind.grid ? squares.across * kind.grid.side() : kind.width,
          height = kind.grid ? squares.down * kind.grid.side() : kind.height;
  DecodeLease lease(pictureMemory(bytes, config.limits.pixels, width, height));
  Picture picture = fitPicture(decodePicture(bytes, config.limits.pixels),
                               width, height, kind.fit);
  if (!kind.grid)
    return normalise(picture, kind.channels, kind.mean, kind.std, out);
  std::vector<float> plane(size_t(kind.channels * width * height));
  normalise(picture, kind.channels, kind.mean, kind.std, plane.data());
  cutPatches(plane.data(), kind.channels, squares, kind.grid, out);
}
} // namespace

Document data::readDocument(const Config &config,
                            const std::vector<Member> &members,
                            const ReadMember &read,
                            const SampleSquares *known) {
  RawSample raw = Reader(config, members, read).raw();
  Builder builder(config, [&](size_t kind, size_t number, int member) {
    if (!known)
      return readSquares(config, config.pictures[kind], members[size_t(member)],
                         read);
    if (number >= (*known)[kind].size())
      throw Error("other tokens or items than in the index");
    return (*known)[kind][number];
  });
  for (const auto &segment : raw.segments)
    builder.segment(segment);
  return builder.finish(raw.label);
}

std::vector<std::string> data::readTexts(const Limits &limits,
                                         const std::vector<Member> &members,
                                         const ReadMember &read) {
  std::vector<std::string> out;
  for (const Member &member : members) {
    if (isNamed(member, "txt"))
      out.push_back(plainText(readBounded(limits, member, read)));
    if (!isNamed(member, "json"))
      continue;
    Json json = parseJson(readBounded(limits, member, read));
    if (!json.is_object() || !json.contains("segments") ||
        !json["segments"].is_array())
      continue;
    for (const Json &segment : json["segments"])
      for (const Json &part : segment)
        if (part.is_object() && part.contains("text") &&
            part["text"].is_string())
          out.push_back(part["text"].get<std::string>());
  }
  return out;
}

DecodedSample data::decodeSample(const Config &config,
                                 const std::vector<Member> &members,
                                 const ReadMember &read,
                                 const WantPicture &want,
                                 const SampleSquares *known) {
  DecodedSample out{readDocument(config, members, read, known), {}};
  out.pixels.resize(config.pictures.size());
  for (size_t k = 0; k < config.pictures.size(); ++k) {
    const PictureKind &kind = config.pictures[k];
    const auto &items = out.document.items[k];
    std::vector<size_t> first = out.document.firstElements(kind, k);
    for (size_t i = 0; i < items.size(); ++i) {
      if (want && !want(k, i))
        continue;
      out.pixels[k].resize(first.back());
      withPicture(config, members[size_t(items[i].member)], read,
                  [&](const std::string &bytes) {
                    decodeInto(config, kind, items[i].squares, bytes,
                               &out.pixels[k][first[i]]);
                  });
    }
  }
  return out;
}
