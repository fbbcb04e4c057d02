//===- Picture.cpp - decode pictures --------------------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Picture.h. libpng bounds what chunks may allocate, and reads those only
// that say what is stored: its simplified interface would convert between
// gammas. libjpeg is stopped at its first warning and, since progressive files
// can cost much time for few bytes, after a number of scans.
//
//===----------------------------------------------------------------------===//

#include "runtime/data/Picture.h"

#include "runtime/base/Error.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstring>
#include <new>

#include <jpeglib.h>

#include <jerror.h>
#include <png.h>

using namespace dt::rt;
using namespace dt::rt::data;

namespace {
void checkSize(int64_t width, int64_t height, int64_t maxPixels) {
  if (width <= 0 || height <= 0 || width > maxPixels / height)
    throw Error("a picture of " + std::to_string(width) + " x " +
                std::to_string(height) + " pixels; the limit is " +
                std::to_string(maxPixels));
}

/// Memory is short: that is no property of the picture.
void expectMemory(const char *message) {
  for (const char *text :
       {"out of memory", "Out of memory", "nsufficient memory"})
    if (std::strstr(message, text))
      throw std::bad_alloc();
}

/// libpng allocates some chunks before it looks whether the file is that long.
void checkChunks(const std::string &bytes) {
  constexpr size_t kSignature = 8, kAround = 12; // length, type, checksum
  for (size_t at = kSignature; at + kAround <= bytes.size();) {
    size_t length = 0;
    for (size_t i = 0; i < 4; ++i)
      length = length << 8 | uint8_t(bytes[at + i]);
    if (length > bytes.size() - at - kAround)
      throw Error("bad PNG: a chunk of " + std::to_string(length) +
                  " bytes reaches beyond the end");
    if (bytes.compare(at + 4, 4, "IEND") == 0)
      return; // what is behind is not read
    at += kAround + length;
  }
}

/// Owns what libpng has; its functions for errors jump out of the C parts
/// below.
struct PngReader {
  explicit PngReader(const std::string &bytes) : bytes(bytes) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore);
    info = png ? png_create_info_struct(png) : nullptr;
    if (!info) {
      png_destroy_read_struct(&png, &info, nullptr);
      throw std::bad_alloc();
    }
    png_set_read_fn(png, this, read);
  }
  ~PngReader() { png_destroy_read_struct(&png, &info, nullptr); }
  PngReader(const PngReader &) = delete;
  PngReader &operator=(const PngReader &) = delete;

  static void fail(png_structp png, png_const_charp text) {
    auto *self = static_cast<PngReader *>(png_get_error_ptr(png));
    std::snprintf(self->message, sizeof self->message, "%s", text);
    png_longjmp(png, 1);
  }
  static void ignore(png_structp, png_const_charp) {}
  static void read(png_structp png, png_bytep to, size_t size) {
    auto *self = static_cast<PngReader *>(png_get_io_ptr(png));
    if (size > self->bytes.size() - self->at)
      png_error(png, "ends too early");
    std::memcpy(to, self->bytes.data() + self->at, size);
    self->at += size;
  }

  const std::string &bytes;
  size_t at = 0;
  png_structp png = nullptr;
  png_infop info = nullptr;
  int passes = 1;
  char message[128] = {};
};

/// The C parts: longjmp may leave them, so they own nothing with a destructor.
/// False: see `message`. Rows are RGBA of 8 bits, as stored: Gamma and colour
/// chunks change no value, and of 16 bits the upper 8 stay (as in Pillow).
bool readPngHeader(PngReader &in) {
  if (setjmp(png_jmpbuf(in.png)))
    return false;
  // All others that a picture need not have, but transparency, are not read.
  png_set_keep_unknown_chunks(in.png, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
  static const png_byte transparency[] = "tRNS";
  png_set_keep_unknown_chunks(in.png, PNG_HANDLE_CHUNK_AS_DEFAULT, transparency,
                              1);
  png_set_benign_errors(in.png, 1);
  png_set_user_limits(in.png, PNG_UINT_31_MAX, PNG_UINT_31_MAX); // see below
  png_read_info(in.png, in.info);
  return true;
}

bool preparePng(PngReader &in) {
  if (setjmp(png_jmpbuf(in.png)))
    return false;
  png_set_expand(in.png); // palettes, few bits, transparency of one colour
  png_set_strip_16(in.png);
  png_set_gray_to_rgb(in.png);
  png_set_add_alpha(in.png, 255, PNG_FILLER_AFTER);
  in.passes = png_set_interlace_handling(in.png);
  png_read_update_info(in.png, in.info);
  return true;
}

bool readPngRows(PngReader &in, uint8_t *rgba, int64_t height, size_t bytes) {
  if (setjmp(png_jmpbuf(in.png)))
    return false;
  for (int pass = 0; pass < in.passes; ++pass)
    for (int64_t y = 0; y < height; ++y)
      png_read_row(in.png, rgba + size_t(y) * bytes, nullptr);
  png_read_end(in.png, nullptr);
  return true;
}

Picture decodePng(const std::string &bytes, int64_t maxPixels) {
  checkChunks(bytes);
  PngReader in(bytes);
  auto expect = [&](bool good) {
    if (good)
      return;
    expectMemory(in.message);
    throw Error(std::string("bad PNG: ") + in.message);
  };
  expect(readPngHeader(in));
  int64_t width = png_get_image_width(in.png, in.info),
          height = png_get_image_height(in.png, in.info);
  checkSize(width, height, maxPixels);
  expect(preparePng(in));
  size_t row = png_get_rowbytes(in.png, in.info);
  if (row != size_t(width) * 4)
    throw Error("bad PNG: an unknown layout of pixels");
  Picture out{width, height, {}};
  out.rgb.resize(row * size_t(height));
  expect(readPngRows(in, out.rgb.data(), height, row));
  // In place: a second copy of a large picture is what memory is short of.
  size_t n = out.rgb.size() / 4;
  for (size_t i = 0; i < n; ++i) {
    unsigned alpha = out.rgb[4 * i + 3];
    for (size_t c = 0; c < 3; ++c)
      out.rgb[3 * i + c] = uint8_t(
          (out.rgb[4 * i + c] * alpha + 255 * (255 - alpha) + 127) / 255);
  }
  out.rgb.resize(3 * n);
  return out;
}

struct JpegFailure {
  jpeg_error_mgr base; // first: libjpeg hands out a pointer to it
  jpeg_progress_mgr progress;
  jmp_buf jump;
  char message[JMSG_LENGTH_MAX];
  bool memory; ///< it was short
};

void jpegFail(j_common_ptr info) {
  auto *failure = reinterpret_cast<JpegFailure *>(info->err);
  info->err->format_message(info, failure->message);
  failure->memory = info->err->msg_code == JERR_OUT_OF_MEMORY;
  longjmp(failure->jump, 1);
}

void jpegMessage(j_common_ptr info, int level) {
  if (level < 0) // a warning means that data is missing or corrupt: libjpeg
                 // would fill in grey
    jpegFail(info);
}

void jpegProgress(j_common_ptr info) {
  constexpr int maxScans = 100;
  auto *in = reinterpret_cast<j_decompress_ptr>(info);
  if (in->input_scan_number > maxScans) {
    auto *failure = reinterpret_cast<JpegFailure *>(info->err);
    std::snprintf(failure->message, sizeof failure->message,
                  "more than %d scans", maxScans);
    longjmp(failure->jump, 1);
  }
}

/// The C part: longjmp may leave it, so it owns nothing with a destructor.
/// False: see `failure.message`. Reads the header and checks the size.
bool openJpeg(jpeg_decompress_struct &in, JpegFailure &failure,
              const std::string &bytes, int64_t maxPixels) {
  if (setjmp(failure.jump))
    return false;
  jpeg_create_decompress(&in);
  in.progress = &failure.progress;
  jpeg_mem_src(&in, reinterpret_cast<const unsigned char *>(bytes.data()),
               bytes.size());
  jpeg_read_header(&in, TRUE);
  if (in.image_width > maxPixels / std::max<int64_t>(in.image_height, 1)) {
    std::snprintf(failure.message, sizeof failure.message,
                  "%u x %u pixels; the limit is %lld", in.image_width,
                  in.image_height, (long long)maxPixels);
    return false;
  }
  return true;
}

/// As openJpeg, after it.
bool readJpegRows(jpeg_decompress_struct &in, JpegFailure &failure,
                  std::vector<uint8_t> &pixels) {
  if (setjmp(failure.jump))
    return false;
  bool cmyk =
      in.jpeg_color_space == JCS_CMYK || in.jpeg_color_space == JCS_YCCK;
  in.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&in);
  size_t stride = size_t(in.output_width) * size_t(in.output_components);
  pixels.resize(stride * in.output_height);
  while (in.output_scanline < in.output_height) {
    JSAMPROW row = &pixels[stride * in.output_scanline];
    jpeg_read_scanlines(&in, &row, 1);
  }
  jpeg_finish_decompress(&in);
  return true;
}

/// A JPEG in memory, its header read. Throws Error.
struct JpegReader {
  JpegReader(const std::string &bytes, int64_t maxPixels) {
    std::memset(&in, 0, sizeof in);
    std::memset(&failure, 0, sizeof failure);
    in.err = jpeg_std_error(&failure.base);
    failure.base.error_exit = jpegFail;
    failure.base.emit_message = jpegMessage;
    failure.progress.progress_monitor = jpegProgress;
    if (!openJpeg(in, failure, bytes, maxPixels)) {
      jpeg_destroy_decompress(&in);
      fail();
    }
  }
  ~JpegReader() { jpeg_destroy_decompress(&in); }
  JpegReader(const JpegReader &) = delete;
  JpegReader &operator=(const JpegReader &) = delete;

  [[noreturn]] void fail() const {
    if (failure.memory)
      throw std::bad_alloc();
    throw Error(std::string("bad JPEG: ") + failure.message);
  }

  jpeg_decompress_struct in;
  JpegFailure failure;
};

Picture decodeJpeg(const std::string &bytes, int64_t maxPixels) {
  JpegReader reader(bytes, maxPixels);
  jpeg_decompress_struct &in = reader.in;
  std::vector<uint8_t> pixels;
  if (!readJpegRows(in, reader.failure, pixels))
    reader.fail();
  Picture out{int64_t(in.output_width), int64_t(in.output_height), {}};
  if (in.out_color_space == JCS_RGB) {
    out.rgb = std::move(pixels);
    return out;
  }
  bool inverted =
      in.saw_Adobe_marker; // Adobe writes CMYK inverted: 255 is no ink
  out.rgb.resize(pixels.size() / 4 * 3);
  for (size_t i = 0, n = pixels.size() / 4; i < n; ++i)
    for (size_t c = 0; c < 3; ++c) {
      unsigned ink = pixels[4 * i + c], black = pixels[4 * i + 3];
      out.rgb[3 * i + c] = uint8_t(
          inverted ? ink * black / 255 : (255 - ink) * (255 - black) / 255);
    }
  return out;
}

bool isPng(const std::string &bytes) {
  return bytes.size() >= 8 &&
         std::memcmp(bytes.data(), "\x89PNG\r\n\x1a\n", 8) == 0;
}
bool isJpeg(const std::string &bytes) {
  return bytes.size() >= 3 && std::memcmp(bytes.data(), "\xff\xd8\xff", 3) == 0;
}

/// Four bytes of a PNG header, which comes first in every file.
int64_t bigEndian(const std::string &bytes, size_t at) {
  int64_t value = 0;
  for (size_t i = at; i < at + 4; ++i)
    value = value << 8 | uint8_t(bytes[i]);
  return value;
}
} // namespace

std::pair<int64_t, int64_t> data::pictureSize(const std::string &bytes,
                                              int64_t maxPixels) {
  if (isPng(bytes) && bytes.size() >= 24)
    return {bigEndian(bytes, 16), bigEndian(bytes, 20)};
  if (!isJpeg(bytes))
    return {0, 0};
  JpegReader reader(bytes, maxPixels);
  return {reader.in.image_width, reader.in.image_height};
}

int64_t data::pictureMemory(const std::string &bytes, int64_t maxPixels,
                            int64_t width, int64_t height) {
  int64_t w = 0, h = 0, pixel = 4;
  if (isPng(bytes) && bytes.size() >= 24) {
    w = bigEndian(bytes, 16), h = bigEndian(bytes, 20);
    checkSize(w, h, maxPixels);
  } else if (isJpeg(bytes)) {
    JpegReader reader(bytes, maxPixels);
    w = reader.in.image_width, h = reader.in.image_height;
    // Progressive: coefficients of the whole picture.
    if (jpeg_has_multiple_scans(&reader.in))
      pixel += 2 * reader.in.num_components;
  }
  pixel += 3; // fitPicture may cut a part out
  return int64_t(bytes.size()) + w * h * pixel +
         12 * std::min(h * width, w * height) + 12 * width * height;
}

Picture data::decodePicture(const std::string &bytes, int64_t maxPixels) {
  if (isPng(bytes))
    return decodePng(bytes, maxPixels);
  if (isJpeg(bytes))
    return decodeJpeg(bytes, maxPixels);
  throw Error("neither PNG nor JPEG");
}

std::string data::encodePng(const Picture &picture) {
  png_image image;
  std::memset(&image, 0, sizeof image);
  image.version = PNG_IMAGE_VERSION;
  image.width = png_uint_32(picture.width);
  image.height = png_uint_32(picture.height);
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  if (!png_image_write_to_memory(&image, nullptr, &size, 0, picture.rgb.data(),
                                 0, nullptr))
    throw Error(std::string("PNG: ") + image.message);
  std::string out(size, '\0');
  if (!png_image_write_to_memory(&image, &out[0], &size, 0, picture.rgb.data(),
                                 0, nullptr))
    throw Error(std::string("PNG: ") + image.message);
  out.resize(size);
  return out;
}
