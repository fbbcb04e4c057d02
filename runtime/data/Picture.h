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
