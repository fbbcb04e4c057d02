//===- Emoji.cpp - pictures and names from an emoji font --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Emoji.h. FreeType's FT_LOAD_COLOR gives premultiplied BGRA.
//
//===----------------------------------------------------------------------===//

#include "tools/dt-data/Emoji.h"

#include "runtime/base/Error.h"

#include <ft2build.h>
#include FT_FREETYPE_H

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <set>

using namespace dt;
using namespace dt::tools;
using rt::Error;
using rt::data::Picture;

namespace {
std::string trimmed(const std::string &text) {
  size_t first = text.find_first_not_of(" \t\r"),
         last = text.find_last_not_of(" \t\r");
  return first == std::string::npos ? std::string()
                                    : text.substr(first, last - first + 1);
}

/// "1F408 FE0F": the code point if there is one besides FE0F, else 0.
uint32_t singleCode(const std::string &codes) {
  uint32_t code = 0;
  const char *at = codes.c_str();
  for (char *end; *at; at = end) {
    unsigned long value = std::strtoul(at, &end, 16);
    if (end == at || value > 0x10FFFF)
      return 0;
    if (value == 0xFE0F)
      continue;
    if (code)
      return 0;
    code = uint32_t(value);
  }
  return code;
}

/// Name behind "# 🐈 E0.7 ", lower case, right single quote as '.
std::string nameOf(const std::string &comment) {
  size_t version = comment.find(" E"),
         start = version == std::string::npos ? version
                                              : comment.find(' ', version + 1);
  std::string name = start == std::string::npos
                         ? std::string()
                         : trimmed(comment.substr(start));
  for (size_t at; (at = name.find("\xe2\x80\x99")) != std::string::npos;)
    name.replace(at, 3, "'");
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) {
    return c >= 'A' && c <= 'Z' ? c + 32 : c;
  });
  return name;
}
} // namespace

std::vector<Emoji>
tools::readEmojiNames(const std::string &names,
                      const std::vector<std::string> &groups) {
  std::ifstream in(names);
  if (!in)
    throw Error(names + ": cannot be read (expected Unicode's emoji-test.txt; "
                        "Debian package unicode-data)");
  std::set<std::string> wanted(groups.begin(), groups.end()), seen;
  std::string group, subgroup;
  std::vector<Emoji> out;
  for (std::string line; std::getline(in, line);) {
    for (auto &head : {std::make_pair("# group: ", &group),
                       std::make_pair("# subgroup: ", &subgroup)})
      if (line.rfind(head.first, 0) == 0)
        seen.insert(*head.second =
                        trimmed(line.substr(std::string(head.first).size())));
    size_t semicolon = line.find(';'), hash = line.find('#');
    if (line.empty() || line[0] == '#' || semicolon == std::string::npos ||
        hash == std::string::npos || hash < semicolon ||
        trimmed(line.substr(semicolon + 1, hash - semicolon - 1)) !=
            "fully-qualified")
      continue;
    if (!wanted.count("all") && !wanted.count(group) && !wanted.count(subgroup))
      continue;
    uint32_t code = singleCode(trimmed(line.substr(0, semicolon)));
    std::string name = nameOf(line.substr(hash + 1));
    if (code && !name.empty())
      out.push_back({code, name, {}});
  }
  for (const std::string &name : wanted)
    if (name != "all" && !seen.count(name))
      throw Error(names + ": no group or subgroup '" + name + "'");
  if (out.empty())
    throw Error(names + ": no emoji in these groups");
  return out;
}

namespace {
class Font {
public:
  explicit Font(const std::string &path) : path(path) {
    if (FT_Init_FreeType(&library))
      throw Error("FreeType cannot be initialised");
    if (FT_New_Face(library, path.c_str(), 0, &face)) {
      FT_Done_FreeType(library);
      throw Error(path + ": not a font that FreeType reads (Debian package "
                         "fonts-noto-color-emoji)");
    }
    if (face->num_fixed_sizes < 1 || FT_Select_Size(face, 0)) {
      release();
      throw Error(path + ": has no bitmap pictures (CBDT)");
    }
  }
  ~Font() { release(); }
  Font(const Font &) = delete;
  Font &operator=(const Font &) = delete;

  /// The glyph on a white square.
  Picture draw(uint32_t code, const std::string &name) const {
    FT_UInt glyph = FT_Get_Char_Index(face, code);
    if (!glyph || FT_Load_Glyph(face, glyph, FT_LOAD_COLOR) ||
        face->glyph->bitmap.pixel_mode != FT_PIXEL_MODE_BGRA)
      throw Error(path + ": no coloured bitmap for '" + name + "'");
    const FT_Bitmap &map = face->glyph->bitmap;
    int64_t width = map.width, height = map.rows,
            side = std::max(width, height);
    Picture out{side, side, std::vector<uint8_t>(size_t(side * side * 3), 255)};
    for (int64_t y = 0; y < height; ++y)
      for (int64_t x = 0; x < width; ++x) {
        const unsigned char *p = map.buffer + y * map.pitch + 4 * x;
        uint8_t *q = &out.rgb[size_t(
            ((y + (side - height) / 2) * side + x + (side - width) / 2) * 3)];
        for (int c = 0; c < 3; ++c)
          q[c] = uint8_t(std::min(255, p[2 - c] + 255 - p[3]));
      }
    return out;
  }

private:
  void release() {
    FT_Done_Face(face);
    FT_Done_FreeType(library);
  }
  std::string path;
  FT_Library library = nullptr;
  FT_Face face = nullptr;
};
} // namespace

void tools::drawEmoji(const std::string &path, int64_t size,
                      std::vector<Emoji> &emoji) {
  Font font(path);
  for (Emoji &e : emoji)
    e.picture = rt::data::resize(font.draw(e.code, e.name), size, size);
}
