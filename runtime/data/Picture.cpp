//===- Picture.cpp - decode and scale pictures ------------------*- C++ -*-===//
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
#include <cmath>
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

/// For each target place the source places and weights that make it up.
struct Taps {
  std::vector<int64_t> first, count;
  std::vector<float> weights; // `width` a place
  int64_t width;
};

Taps makeTaps(int64_t from, int64_t to) {
  Taps taps;
  double scale = double(from) / double(to);
  taps.width = scale > 1 ? int64_t(std::ceil(scale)) + 1 : 2;
  taps.weights.assign(size_t(taps.width * to), 0);
  for (int64_t i = 0; i < to; ++i) {
    float *w = &taps.weights[size_t(i * taps.width)];
    if (scale >
        1) { // area: overlap of [i, i + 1) * scale with each source pixel
      double lo = double(i) * scale, hi = double(i + 1) * scale;
      int64_t first = std::min(int64_t(lo), from - 1),
              last = std::min(int64_t(std::ceil(hi)), from);
      for (int64_t j = first; j < last; ++j)
        w[j - first] = float(std::max(0.0, std::min(hi, double(j + 1)) -
                                               std::max(lo, double(j))) /
                             scale);
      taps.first.push_back(first);
      taps.count.push_back(last - first);
    } else {
      double centre =
          std::clamp((double(i) + 0.5) * scale - 0.5, 0.0, double(from - 1));
      int64_t first = int64_t(centre);
      float part = float(centre - double(first));
      w[0] = 1 - part, w[1] = part;
      taps.first.push_back(first);
      taps.count.push_back(first + 1 < from ? 2 : 1);
    }
  }
  return taps;
}

/// The middle axis of [outer, from, inner] becomes `to` long.
template <typename T>
std::vector<float> scaleAxis(const std::vector<T> &in, int64_t outer,
                             int64_t from, int64_t inner, const Taps &taps,
                             int64_t to) {
  std::vector<float> out(size_t(outer * to * inner), 0);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < to; ++i) {
      float *target = &out[size_t((o * to + i) * inner)];
      for (int64_t k = 0; k < taps.count[size_t(i)]; ++k) {
        const T *source =
            &in[size_t((o * from + taps.first[size_t(i)] + k) * inner)];
        float weight = taps.weights[size_t(i * taps.width + k)];
        for (int64_t j = 0; j < inner; ++j)
          target[j] += weight * float(source[j]);
      }
    }
  return out;
}

/// Copies the window at (x, y), which may reach out of the picture: white
/// there.
Picture window(const Picture &in, int64_t x, int64_t y, int64_t width,
               int64_t height) {
  Picture out{width, height,
              std::vector<uint8_t>(size_t(width * height * 3), 255)};
  for (int64_t r = 0; r < height; ++r) {
    int64_t row = r + y, from = std::max<int64_t>(0, x),
            to = std::min(in.width, x + width);
    if (row >= 0 && row < in.height && from < to)
      std::memcpy(&out.rgb[size_t((r * width + from - x) * 3)],
                  &in.rgb[size_t((row * in.width + from) * 3)],
                  size_t(to - from) * 3);
  }
  return out;
}
} // namespace

namespace {
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

Picture data::resize(const Picture &in, int64_t width, int64_t height) {
  if (in.width == width && in.height == height)
    return in;
  std::vector<float> values;
  Taps across = makeTaps(in.width, width), down = makeTaps(in.height, height);
  // The axis first that leaves fewer values: a hostile 1 x 16M picture must not
  // become 1024 x 16M.
  if (in.height * width <= in.width * height) {
    values = scaleAxis(in.rgb, in.height, in.width, 3, across, width);
    values = scaleAxis(values, 1, in.height, width * 3, down, height);
  } else {
    values = scaleAxis(in.rgb, 1, in.height, in.width * 3, down, height);
    values = scaleAxis(values, height, in.width, 3, across, width);
  }
  Picture out{width, height, std::vector<uint8_t>(values.size())};
  for (size_t i = 0; i < values.size(); ++i)
    out.rgb[i] = uint8_t(std::clamp(values[i] + 0.5f, 0.0f, 255.0f));
  return out;
}

Picture data::fitPicture(const Picture &in, int64_t width, int64_t height,
                         Fit fit) {
  if (fit == Fit::Stretch || in.width * height == in.height * width)
    return resize(in, width, height);
  if (fit == Fit::Pad) {
    double scale = std::min(double(width) / double(in.width),
                            double(height) / double(in.height));
    Picture small =
        resize(in, std::max<int64_t>(1, std::llround(double(in.width) * scale)),
               std::max<int64_t>(1, std::llround(double(in.height) * scale)));
    return window(small, -((width - small.width) / 2),
                  -((height - small.height) / 2), width, height);
  }
  int64_t w = in.width, h = in.height;
  if (double(w) * double(height) > double(h) * double(width))
    w = std::max<int64_t>(
        1, std::llround(double(h) * double(width) / double(height)));
  else
    h = std::max<int64_t>(
        1, std::llround(double(w) * double(height) / double(width)));
  return resize(window(in, (in.width - w) / 2, (in.height - h) / 2, w, h),
                width, height);
}

void data::normalise(const Picture &picture, int channels,
                     const std::vector<float> &mean,
                     const std::vector<float> &std, float *out) {
  size_t plane = size_t(picture.width * picture.height);
  for (int c = 0; c < channels; ++c) {
    float m = mean[mean.size() == 1 ? 0 : size_t(c)],
          s = 1 / std[std.size() == 1 ? 0 : size_t(c)];
    for (size_t i = 0; i < plane; ++i) {
      const uint8_t *p = &picture.rgb[3 * i];
      float v = channels == 3 ? float(p[c])
                              : 0.299f * float(p[0]) + 0.587f * float(p[1]) +
                                    0.114f * float(p[2]);
      out[size_t(c) * plane + i] = (v / 255 - m) * s;
    }
  }
}
