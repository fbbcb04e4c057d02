//===- PictureTest.cpp - decoding and scaling -------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Values that can be computed by hand, and files that must be refused.
//
//===----------------------------------------------------------------------===//

#include "test/runtime/data/Fixture.h"

#include "runtime/data/DecodeMemory.h"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <thread>

#include <jpeglib.h>
#include <png.h>

using namespace dt;
using namespace dt::rt::data;
using namespace dt::test;

namespace {
constexpr int64_t plenty = 1 << 20;

std::string jpeg(const Picture &picture, int components = 3) {
  jpeg_compress_struct out;
  jpeg_error_mgr errors;
  out.err = jpeg_std_error(&errors);
  jpeg_create_compress(&out);
  unsigned char *buffer = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&out, &buffer, &size);
  out.image_width = JDIMENSION(picture.width);
  out.image_height = JDIMENSION(picture.height);
  out.input_components = components;
  out.in_color_space = components == 3 ? JCS_RGB : JCS_GRAYSCALE;
  jpeg_set_defaults(&out);
  jpeg_set_quality(&out, 95, TRUE);
  jpeg_start_compress(&out, TRUE);
  while (out.next_scanline < out.image_height) {
    auto *row = const_cast<uint8_t *>(
        &picture.rgb[size_t(out.next_scanline * picture.width * components)]);
    jpeg_write_scanlines(&out, &row, 1);
  }
  jpeg_finish_compress(&out);
  std::string bytes(reinterpret_cast<char *>(buffer), size);
  jpeg_destroy_compress(&out);
  free(buffer);
  return bytes;
}

std::string encode(uint32_t format, int width, int height, const void *pixels,
                   const void *map = nullptr, int entries = 0) {
  png_image image;
  std::memset(&image, 0, sizeof image);
  image.version = PNG_IMAGE_VERSION;
  image.width = png_uint_32(width);
  image.height = png_uint_32(height);
  image.format = format;
  image.colormap_entries = png_uint_32(entries);
  png_alloc_size_t size = 1 << 16;
  std::string out(size, '\0');
  EXPECT_TRUE(
      png_image_write_to_memory(&image, &out[0], &size, 0, pixels, 0, map))
      << image.message;
  out.resize(size);
  return out;
}

TEST(Picture, PngRoundTrip) {
  Picture in = solid(5, 3, 1, 2, 3);
  in.rgb[7] = 200;
  Picture out = decodePicture(encodePng(in), plenty);
  EXPECT_EQ(out.width, 5);
  EXPECT_EQ(out.height, 3);
  EXPECT_EQ(out.rgb, in.rgb);
}

TEST(Picture, TransparencyIsOnWhite) {
  uint8_t pixels[] = {100, 0, 0, 0, 100, 0, 0, 255, 100, 0, 0, 51};
  Picture out = decodePicture(encode(PNG_FORMAT_RGBA, 3, 1, pixels), plenty);
  EXPECT_EQ(out.rgb,
            (std::vector<uint8_t>{255, 255, 255, 100, 0, 0, 224, 204, 204}));
}

TEST(Picture, PaletteAndGrey) {
  uint8_t index[] = {1, 0}, map[] = {1, 2, 3, 4, 5, 6}, grey[] = {7, 8};
  EXPECT_EQ(decodePicture(encode(PNG_FORMAT_RGB_COLORMAP, 2, 1, index, map, 2),
                          plenty)
                .rgb,
            (std::vector<uint8_t>{4, 5, 6, 1, 2, 3}));
  EXPECT_EQ(decodePicture(encode(PNG_FORMAT_GRAY, 2, 1, grey), plenty).rgb,
            (std::vector<uint8_t>{7, 7, 7, 8, 8, 8}));
}

/// One row of samples of `depth` bits as they are to be stored, with a gamma of
/// 1/gamma if there is one.
std::string stored(int type, int depth, int width,
                   const std::vector<uint8_t> &row, double gamma = 0,
                   bool interlaced = false) {
  std::string bytes;
  png_structp png =
      png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &bytes,
      [](png_structp png, png_bytep data, size_t size) {
        static_cast<std::string *>(png_get_io_ptr(png))
            ->append(reinterpret_cast<char *>(data), size);
      },
      [](png_structp) {});
  png_set_IHDR(png, info, png_uint_32(width), 1, depth, type,
               interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
               PNG_COMPRESSION_TYPE_BASE, PNG_FILTER_TYPE_BASE);
  if (gamma)
    png_set_gAMA(png, info, 1 / gamma);
  std::vector<uint8_t> copy = row;
  png_bytep rows[] = {copy.data()};
  png_set_rows(png, info, rows);
  png_write_png(png, info, PNG_TRANSFORM_IDENTITY, nullptr);
  png_destroy_write_struct(&png, &info);
  return bytes;
}

/// Gamma is nothing that a model was trained with: Pillow gives these, too.
TEST(Picture, ValuesAreTheStoredOnes) {
  using Bytes = std::vector<uint8_t>;
  const Bytes three = {17, 34, 51};
  auto of = [](const std::string &png) {
    return decodePicture(png, plenty).rgb;
  };
  for (double gamma : {0.0, 1.0, 1.8, 2.2}) {
    EXPECT_EQ(of(stored(PNG_COLOR_TYPE_RGB, 8, 1, three, gamma)), three);
    // 16 bits: the upper 8, whatever the lower ones are.
    EXPECT_EQ(
        of(stored(PNG_COLOR_TYPE_RGB, 16, 1, {17, 17, 34, 0, 51, 255}, gamma)),
        three);
    EXPECT_EQ(of(stored(PNG_COLOR_TYPE_GRAY, 16, 1, {17, 200}, gamma)),
              Bytes(3, 17));
    EXPECT_EQ(of(stored(PNG_COLOR_TYPE_GRAY, 8, 1, {34}, gamma)), Bytes(3, 34));
    EXPECT_EQ(of(stored(PNG_COLOR_TYPE_GRAY, 2, 1, {0x40}, gamma)),
              Bytes(3, 85));
    EXPECT_EQ(of(stored(PNG_COLOR_TYPE_RGB_ALPHA, 16, 1,
                        {17, 17, 34, 0, 51, 255, 255, 255}, gamma)),
              three);
    EXPECT_EQ(of(stored(PNG_COLOR_TYPE_GRAY_ALPHA, 8, 1, {17, 0}, gamma)),
              Bytes(3, 255));
    EXPECT_EQ(of(stored(PNG_COLOR_TYPE_RGB, 8, 2, {1, 2, 3, 4, 5, 6}, gamma,
                        /*interlaced=*/true)),
              (Bytes{1, 2, 3, 4, 5, 6}));
  }
}

TEST(Picture, Jpeg) {
  Picture out = decodePicture(jpeg(solid(16, 8, 200, 100, 50)), plenty);
  ASSERT_EQ(out.rgb.size(), 16u * 8 * 3);
  EXPECT_NEAR(out.rgb[0], 200, 4);
  EXPECT_NEAR(out.rgb[1], 100, 4);
  EXPECT_NEAR(out.rgb[2], 50, 4);
  Picture grey{8, 8, std::vector<uint8_t>(64, 90)};
  out = decodePicture(jpeg(grey, 1), plenty);
  ASSERT_EQ(out.rgb.size(), 192u);
  EXPECT_NEAR(out.rgb[5], 90, 2);
}

TEST(Picture, BrokenFilesAreErrors) {
  std::string good = png(3), photo = jpeg(solid(64, 64, 1, 200, 3));
  EXPECT_ERROR(decodePicture(good.substr(0, good.size() - 20), plenty),
               "bad PNG");
  std::string flipped = good;
  size_t data = good.find("IDAT") + 6;
  flipped[data] = char(flipped[data] ^ 0x55);
  EXPECT_NE(errorOf([&] { decodePicture(flipped, plenty); }), "");
  EXPECT_ERROR(decodePicture(photo.substr(0, photo.size() / 2), plenty),
               "bad JPEG");
  // A chunk that says it is longer than the file must not be allocated.
  std::string longer = good;
  longer.insert(good.find("IDAT") - 4, "\x45\x01\x02\x03"
                                       "eXIfabcd");
  EXPECT_ERROR(decodePicture(longer, plenty),
               "bad PNG: a chunk of 1157693955 bytes reaches beyond");
  EXPECT_EQ(errorOf([&] { decodePicture("GIF89a", plenty); }),
            "neither PNG nor JPEG");
  EXPECT_EQ(errorOf([&] { decodePicture("", plenty); }),
            "neither PNG nor JPEG");
  EXPECT_NE(errorOf([&] { decodePicture("\xff\xd8\xff", plenty); }), "");
}

TEST(Picture, PixelsAreLimitedBeforeDecoding) {
  EXPECT_ERROR(decodePicture(png(3), 15), "the limit is 15");
  EXPECT_ERROR(decodePicture(jpeg(solid(8, 8, 0, 0, 0)), 63),
               "the limit is 63");
  // A header that claims 60000 x 60000 pixels: refused without their memory.
  std::string bomb = png(3);
  for (size_t at : {16u, 20u})
    bomb.replace(at, 4, std::string("\x00\x00\xea\x60", 4));
  EXPECT_NE(errorOf([&] { decodePicture(bomb, plenty); }), "");
}

TEST(Picture, ShrinkingAveragesAreas) {
  Picture in{3, 1, {0, 0, 0, 90, 90, 90, 240, 240, 240}};
  Picture out =
      resize(in, 2, 1); // 1.5 pixels each: (0 + 45) / 1.5, (45 + 240) / 1.5
  EXPECT_EQ(out.rgb, (std::vector<uint8_t>{30, 30, 30, 190, 190, 190}));
}

TEST(Picture, EnlargingIsBilinear) {
  Picture in{2, 1, {0, 0, 0, 100, 100, 100}};
  Picture out = resize(in, 4, 1); // centres at -0.25, 0.25, 0.75, 1.25
  EXPECT_EQ(out.rgb, (std::vector<uint8_t>{0, 0, 0, 25, 25, 25, 75, 75, 75, 100,
                                           100, 100}));
}

/// Of Qwen2-VL's processor (transformers' smart_resize), in squares of 28.
TEST(Picture, SquaresAreThoseOfTheLibrary) {
  PatchGrid grid{14, 2, 1, 28 * 28, 28 * 28 * 20};
  struct Case {
    int64_t width, height;
    Squares squares;
  } cases[] = {{28, 28, {1, 1}}, {37, 100, {4, 1}},  {1, 1, {1, 1}},
               {14, 42, {2, 1}}, {480, 640, {5, 3}}, {2600, 13, {1, 15}},
               {70, 70, {2, 2}}, {126, 98, {4, 4}},  {140, 14, {1, 4}}};
  for (const Case &c : cases)
    EXPECT_EQ(squaresOf(c.width, c.height, grid), c.squares)
        << c.width << " x " << c.height;
  EXPECT_EQ(errorOf([&] { squaresOf(2601, 13, grid); }),
            "a picture of 2601 x 13, more than 200 times as long as wide");
  // There it has 54 squares, more than the bound.
  EXPECT_EQ(errorOf([&] { squaresOf(20, 3000, grid); }),
            "a picture of 20 x 3000 has no size within min_pixels and "
            "max_pixels");
}

TEST(Picture, ThinPicturesStayCheap) {
  Picture out = resize(solid(1, 1 << 20, 9, 9, 9), 512, 512);
  EXPECT_EQ(out.rgb.size(), 512u * 512 * 3);
  EXPECT_EQ(out.rgb[1000], 9);
}

TEST(Picture, FitCropAndPad) {
  Picture in{4, 2, {}};
  for (int y = 0; y < 2; ++y)
    for (int x = 0; x < 4; ++x)
      in.rgb.insert(in.rgb.end(), 3, uint8_t(10 * x));
  EXPECT_EQ(fitPicture(in, 2, 2, Fit::Crop).rgb[0], 10);
  EXPECT_EQ(fitPicture(in, 2, 2, Fit::Stretch).rgb[0], 5);
  Picture padded = fitPicture(in, 4, 4, Fit::Pad);
  EXPECT_EQ(padded.rgb[0], 255);
  EXPECT_EQ(padded.rgb[4 * 3], 0);
  EXPECT_EQ(padded.rgb[4 * 3 + 3], 10);
  EXPECT_EQ(padded.rgb[12 * 3], 255);
}

TEST(Picture, Normalise) {
  Picture in{1, 1, {255, 0, 51}};
  float out[3];
  normalise(in, 3, {0.5f}, {0.5f}, out);
  EXPECT_FLOAT_EQ(out[0], 1);
  EXPECT_FLOAT_EQ(out[1], -1);
  EXPECT_FLOAT_EQ(out[2], -0.6f);
  normalise(in, 3, {0, 0, 0.2f}, {1, 1, 2}, out);
  EXPECT_NEAR(out[2], 0, 1e-6);
  normalise(in, 1, {0}, {1}, out);
  EXPECT_NEAR(out[0], 0.299 + 0.114 * 0.2, 1e-6);
}

/// By the header, before anything is decoded.
TEST(Picture, MemoryThatAPictureTakes) {
  std::string bytes = encodePng(solid(300, 200, 1, 2, 3));
  int64_t least = 300 * 200 * 4, most = 300 * 200 * 8 + 12 * 200 * 8 + 12 * 64;
  EXPECT_GE(pictureMemory(bytes, plenty, 8, 8), least);
  EXPECT_LE(pictureMemory(bytes, plenty, 8, 8), most + int64_t(bytes.size()));
  EXPECT_GE(pictureMemory(jpeg(solid(300, 200, 1, 2, 3)), plenty, 8, 8), least);
  bytes[16] = 0x40; // declares a width of a thousand million
  EXPECT_ERROR(pictureMemory(bytes, plenty, 8, 8), "the limit is 1048576");
  EXPECT_LT(pictureMemory("no picture", plenty, 8, 8), 4096);
}

TEST(Picture, ThreadsShareTheMemory) {
  std::atomic<int> decoding{0}, together{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i)
    threads.emplace_back([&, i] {
      // More than there is counts as all of it.
      DecodeLease lease(i ? decodeMemory / 3 : 2 * decodeMemory);
      EXPECT_LE(DecodeLease::held(), decodeMemory);
      int now = ++decoding;
      for (int seen = together; seen < now;)
        if (together.compare_exchange_weak(seen, now))
          break;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      --decoding;
    });
  for (std::thread &thread : threads)
    thread.join();
  EXPECT_LE(together, 3);
  EXPECT_EQ(DecodeLease::held(), 0);
  EXPECT_LE(DecodeLease::most(), decodeMemory);
}
} // namespace
