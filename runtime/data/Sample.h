//===- Sample.h - one sample: members, document, pictures -------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// How the members of one sample become a document: the token sequence with its
// marks and the items in order. One function does it for the index and for
// batches, so both agree on what is broken.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_SAMPLE_H
#define DT_RUNTIME_DATA_SAMPLE_H

#include "runtime/data/Config.h"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace dt::rt::data {

/// A file of a sample: `name` is what follows "KEY.", at its place in the
/// shard.
struct Member {
  std::string name;
  int64_t offset = 0, size = 0;
};

/// A picture of a sample: which member it is and where in the sequence its
/// marked tokens stand.
struct DocumentItem {
  int member = -1;
  std::vector<int32_t> positions;
  Squares squares; ///< of a picture of any size
};

/// Of each picture kind those of its items; nothing of kinds of one size.
using SampleSquares = std::vector<std::vector<Squares>>;

/// Tokens [0, ids.size()) of a sample; not padded.
struct Document {
  std::vector<int32_t> ids;
  std::vector<uint8_t> loss;        ///< token is a prediction target
  std::vector<int32_t> segment;     ///< number in the sample
  std::vector<int32_t> segmentKind; ///< number in Config::segments
  std::vector<std::vector<DocumentItem>> items; ///< per picture kind
  int64_t label = -1;

  int64_t lossTokens() const;
  /// Of the kind with this number: where the pixels of each of its pictures
  /// begin, then their end.
  std::vector<size_t> firstElements(const PictureKind &kind,
                                    size_t number) const;
};

using ReadMember = std::function<std::string(const Member &)>;

/// Reads JSON and text members (of pictures of any size their headers, unless
/// their squares are known), applies the templates and all bounds. Throws Error
/// with the reason why the sample is broken; the caller knows its name.
Document readDocument(const Config &config, const std::vector<Member> &members,
                      const ReadMember &read,
                      const SampleSquares *known = nullptr);

/// All texts of a sample in order (JSON parts, or KEY.txt), with no recipe: to
/// collect a vocabulary. Throws Error.
std::vector<std::string> readTexts(const Limits &limits,
                                   const std::vector<Member> &members,
                                   const ReadMember &read);

/// A document with its pictures decoded: per kind [items, channels, height,
/// width]; of pictures of any size their patches, one picture behind another.
struct DecodedSample {
  Document document;
  std::vector<std::vector<float>> pixels;
};

/// Which pictures are wanted: number `item` of `kind`.
using WantPicture = std::function<bool(size_t kind, size_t item)>;

/// Document and pictures. Pictures that are not wanted are neither read nor
/// decoded: their pixels are 0, and a kind of which none is wanted has no
/// pixels. Without `want`: all. Throws Error as readDocument.
DecodedSample decodeSample(const Config &config,
                           const std::vector<Member> &members,
                           const ReadMember &read, const WantPicture &want = {},
                           const SampleSquares *known = nullptr);

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_SAMPLE_H
