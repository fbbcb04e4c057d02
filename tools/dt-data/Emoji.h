//===- Emoji.h - pictures and names from an emoji font ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Real pictures with captions from two Debian packages (a colour font with
// bitmap glyphs, the Unicode names), so that demonstrations need no download
// and the repository no pictures.
//
//===----------------------------------------------------------------------===//

#ifndef DT_TOOLS_DTDATA_EMOJI_H
#define DT_TOOLS_DTDATA_EMOJI_H

#include "runtime/data/Picture.h"

#include <cstdint>
#include <string>
#include <vector>

namespace dt::tools {

struct Emoji {
  uint32_t code;
  std::string name; ///< lower case
  rt::data::Picture picture;
};

/// Fully qualified emoji of one code point (variation selector dropped) in
/// these groups or subgroups
/// ("all": every one), in the file's order. `names` is Unicode's
/// emoji-test.txt. Pictures are empty. Throws rt::Error.
std::vector<Emoji> readEmojiNames(const std::string &names,
                                  const std::vector<std::string> &groups);

/// Draws them from a font with colour bitmaps (CBDT/CBLC): on white, made
/// square, shrunk to size x size. Throws rt::Error.
void drawEmoji(const std::string &font, int64_t size,
               std::vector<Emoji> &emoji);

} // namespace dt::tools

#endif // DT_TOOLS_DTDATA_EMOJI_H
