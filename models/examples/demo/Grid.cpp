//===- Grid.cpp - pictures and captions on one sheet ------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Grid.h"

#include "runtime/base/Error.h"

#include <ft2build.h>
#include FT_FREETYPE_H

#include <array>
#include <fstream>

using namespace dt;
using namespace dt::demo;
using rt::Error;
using rt::data::Picture;

namespace {
constexpr int scale = 2, margin = 8, line = 13, textSize = 10;
using Colour = std::array<int, 3>;

class Pen {
public:
  explicit Pen(const std::string &path) {
    if (FT_Init_FreeType(&library))
      throw Error("FreeType cannot be initialised");
    if (FT_New_Face(library, path.c_str(), 0, &face) ||
        FT_Set_Pixel_Sizes(face, 0, textSize)) {
      FT_Done_FreeType(library);
      throw Error(path + ": not a font that FreeType reads (Debian package "
                         "fonts-dejavu-core)");
    }
  }
  ~Pen() {
    FT_Done_Face(face);
    FT_Done_FreeType(library);
  }
  Pen(const Pen &) = delete;
  Pen &operator=(const Pen &) = delete;

  /// ASCII on the base line `y`, from `x` on; letters that would pass `end` are
  /// left out.
  void write(Picture &sheet, int64_t x, int64_t y, int64_t end,
             const std::string &text, Colour colour) const {
    for (unsigned char letter : text) {
      if (FT_Load_Char(face, letter, FT_LOAD_RENDER) ||
          x + (face->glyph->advance.x >> 6) > end)
        return;
      const FT_GlyphSlot glyph = face->glyph;
      for (int64_t r = 0; r < int64_t(glyph->bitmap.rows); ++r)
        for (int64_t c = 0; c < int64_t(glyph->bitmap.width); ++c)
          blend(sheet, x + glyph->bitmap_left + c, y - glyph->bitmap_top + r,
                glyph->bitmap.buffer[r * glyph->bitmap.pitch + c], colour);
      x += glyph->advance.x >> 6;
    }
  }

private:
  static void blend(Picture &sheet, int64_t x, int64_t y, int cover,
                    Colour colour) {
    if (x < 0 || y < 0 || x >= sheet.width || y >= sheet.height)
      return;
    uint8_t *pixel = &sheet.rgb[size_t(y * sheet.width + x) * 3];
    for (size_t c = 0; c < 3; ++c)
      pixel[c] = uint8_t((pixel[c] * (255 - cover) + colour[c] * cover) / 255);
  }

  FT_Library library = nullptr;
  FT_Face face = nullptr;
};

void paste(Picture &sheet, const Picture &picture, int64_t x, int64_t y) {
  for (int64_t r = 0; r < picture.height * scale; ++r)
    for (int64_t c = 0; c < picture.width * scale; ++c)
      for (int64_t k = 0; k < 3; ++k)
        sheet.rgb[size_t(((y + r) * sheet.width + x + c) * 3 + k)] =
            picture
                .rgb[size_t((r / scale * picture.width + c / scale) * 3 + k)];
}
} // namespace

void demo::writeGrid(const std::string &path, const std::vector<Tile> &tiles,
                     int columns, const std::string &font) {
  if (tiles.empty())
    return;
  Pen pen(font);
  int64_t side = tiles[0].truth.width * scale,
          high = tiles[0].truth.height * scale;
  int64_t width = 2 * side + margin, height = high + 2 * line + margin;
  int64_t rows = (int64_t(tiles.size()) + columns - 1) / columns;
  Picture sheet{columns * width, rows * height, {}};
  sheet.rgb.assign(size_t(sheet.width * sheet.height * 3), 255);
  for (size_t i = 0; i < tiles.size(); ++i) {
    const Tile &tile = tiles[i];
    int64_t x = int64_t(i) % columns * width, y = int64_t(i) / columns * height;
    paste(sheet, tile.truth, x, y);
    paste(sheet, tile.drawn, x + side, y);
    int64_t end = x + width - 2;
    pen.write(sheet, x + 2, y + high + line - 2, end, tile.name, {0, 0, 0});
    pen.write(sheet, x + 2, y + high + 2 * line - 2, end, tile.caption,
              tile.caption == tile.name ? Colour{0, 128, 0}
                                        : Colour{200, 0, 0});
  }
  std::string bytes = rt::data::encodePng(sheet);
  std::ofstream stream(path, std::ios::binary);
  if (!stream.write(bytes.data(), std::streamsize(bytes.size())).flush())
    throw Error(path + ": cannot be written");
}
