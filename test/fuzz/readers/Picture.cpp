//===- Picture.cpp - fuzz target of PNG and JPEG ----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Built twice, so that each format has seeds of its own. What is decoded is
// scaled in every way and normalised, as a sample's pictures are.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Picture.h"
#include "test/fuzz/readers/Fuzz.h"

#include <cmath>
#include <cstring>
#include <zlib.h>

using namespace dt;
using namespace dt::rt::data;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  constexpr int64_t kPixels = 1 << 18, kWidth = 7, kHeight = 5;
  std::string bytes(reinterpret_cast<const char *>(data), size);
  fuzz::accepts([&] {
    Picture picture = decodePicture(bytes, kPixels);
    fuzz::expect(picture.width > 0 && picture.height > 0 &&
                     picture.width * picture.height <= kPixels &&
                     int64_t(picture.rgb.size()) ==
                         picture.width * picture.height * 3,
                 "a picture's size is not that of its pixels");
    for (Fit fit : {Fit::Stretch, Fit::Crop, Fit::Pad}) {
      Picture fitted = fitPicture(picture, kWidth, kHeight, fit);
      fuzz::expect(fitted.width == kWidth && fitted.height == kHeight &&
                       fitted.rgb.size() == kWidth * kHeight * 3,
                   "a scaled picture has another size");
      float values[3 * kWidth * kHeight];
      normalise(fitted, 3, {0.5f}, {0.5f}, values);
      for (float value : values)
        fuzz::expect(std::abs(value) <= 1.001f, "a value is outside of -1..1");
    }
    if (picture.width * picture.height <= 4096)
      fuzz::expect(decodePicture(encodePng(picture), kPixels).rgb ==
                       picture.rgb,
                   "a picture changes in a round trip");
  });
  return 0;
}

#ifdef DT_FUZZ_PNG
/// Chunks of a PNG carry a checksum: without the right one nothing else in them
/// is looked at.
static void repairPng(uint8_t *data, size_t size) {
  auto number = [&](size_t at) {
    return size_t(data[at]) << 24 | size_t(data[at + 1]) << 16 |
           size_t(data[at + 2]) << 8 | data[at + 3];
  };
  for (size_t at = 8; at + 12 <= size;) {
    size_t length = number(at);
    if (length > size - at - 12)
      return;
    uLong sum = crc32(0, data + at + 4, uInt(length + 4));
    for (size_t i = 0; i < 4; ++i)
      data[at + 8 + length + i] = uint8_t(sum >> (24 - 8 * i));
    at += 12 + length;
  }
}
#endif

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size,
                                          size_t maxSize, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, maxSize);
  if (seed % 8 == 0)
    return size;
#ifdef DT_FUZZ_PNG
  if (size >= 8)
    std::memcpy(data, "\x89PNG\r\n\x1a\n", 8);
  repairPng(data, size);
#else
  if (size >= 3)
    std::memcpy(data, "\xff\xd8\xff", 3);
#endif
  return size;
}
