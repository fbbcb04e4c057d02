//===- Picture.h - decode and scale pictures --------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// PNG and JPEG bytes to what a vision module takes: RGB or grey floats of one
// size, normalised. The bytes are untrusted: pixels are limited before anything
// is allocated, and every decoder complaint makes the picture broken.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_PICTURE_H
#define DT_RUNTIME_DATA_PICTURE_H

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace dt::rt::data {

/// 8 bits RGB, rows from the top, no padding.
struct Picture {
  int64_t width = 0, height = 0;
  std::vector<uint8_t> rgb;
};

/// Decodes PNG (any colour type and depth; transparency on white, mixed in the
/// stored values) or JPEG (RGB, grey, CMYK), told apart by the first bytes.
/// Throws Error with the reason only ("bad PNG: ..."): the caller knows the
/// name. At most `maxPixels`. std::bad_alloc where memory is short.
Picture decodePicture(const std::string &bytes, int64_t maxPixels);

/// Width and height that the header declares; 0 and 0 of neither PNG nor JPEG.
/// Throws Error as decodePicture.
std::pair<int64_t, int64_t> pictureSize(const std::string &bytes,
                                        int64_t maxPixels);

/// Bytes of memory that decoding takes, with `bytes` and fitting to `width` x
/// `height`, by what the header declares. Throws Error as decodePicture where
/// the declared size is too large.
int64_t pictureMemory(const std::string &bytes, int64_t maxPixels,
                      int64_t width, int64_t height);

/// PNG bytes of an RGB picture; throws Error.
std::string encodePng(const Picture &picture);

enum class Fit : uint8_t { Stretch, Crop, Pad };

/// Scales each axis on its own: to fewer pixels by averaging areas, to more
/// bilinearly (pixel centres at half, edges repeated).
Picture resize(const Picture &picture, int64_t width, int64_t height);

/// How pictures of any size are cut: into squares of `merge` x `merge` patches
/// of `size` x `size` pixels. A square is a row of what adds the measure up.
struct PatchGrid {
  int64_t size = 0; ///< 0: pictures have one size
  int64_t merge = 1;
  int64_t frames = 1; ///< how often a patch holds its pixels (video towers: 2)
  int64_t minPixels = 0, maxPixels = 0;

  explicit operator bool() const { return size > 0; }
  int64_t side() const { return size * merge; }     ///< pixels of a square
  int64_t patches() const { return merge * merge; } ///< of a square
};

/// Squares of a picture, down and across.
struct Squares {
  int32_t down = 0, across = 0;
  int64_t count() const { return int64_t(down) * across; }
  bool operator==(const Squares &o) const {
    return down == o.down && across == o.across;
  }
};

/// Into how many squares a picture is resized, as Qwen2-VL's processor has it:
/// each side to the nearest multiple of a square's, both smaller or larger by
/// one factor where the area is not within the bounds. Throws Error with the
/// reason only, also if one side is more than 200 times the other.
Squares squaresOf(int64_t width, int64_t height, const PatchGrid &grid);

/// Patches of a picture that has the size of its squares: squares from the top
/// left on, of each its patches, of each [channels, frames, size, size].
/// `plane` is what normalise() made.
void cutPatches(const float *plane, int channels, const Squares &squares,
                const PatchGrid &grid, float *out);

/// Resize as `fit` says: Crop cuts the centre of the target's shape first, Pad
/// scales the whole picture in and fills with white.
Picture fitPicture(const Picture &picture, int64_t width, int64_t height,
                   Fit fit);

/// [channels, height, width]: (value / 255 - mean) / std. 1 channel: 0.299 R +
/// 0.587 G + 0.114 B.
void normalise(const Picture &picture, int channels,
               const std::vector<float> &mean, const std::vector<float> &std,
               float *out);

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_PICTURE_H
