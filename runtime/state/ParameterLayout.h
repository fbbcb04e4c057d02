//===- ParameterLayout.h - a rank's part of a parameter ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A parameter may be padded and then cut along several axes of a
// tensor-parallel group (CutInfo). Files know whole tensors without padding;
// this maps elements of a part to them and back, for initial values,
// checkpoints of any plan, exports and dumps; of outputs, too.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STATE_PARAMETERLAYOUT_H
#define DT_RUNTIME_STATE_PARAMETERLAYOUT_H

#include "runtime/Program.h"

#include <string>
#include <vector>

namespace dt::rt {

class ParameterLayout {
public:
  /// A dim's cut with this rank's index on the axis already found.
  struct Cut {
    int64_t dim, chunk, over, place;
  };

  /// The part of the rank with tensor-parallel place `tp`.
  ParameterLayout(const ParameterInfo &parameter, int64_t tp);
  /// `padded` is the shape before the cuts, `whole` without padding. Throws
  /// Error beginning with `where` if they do not fit together.
  ParameterLayout(std::vector<int64_t> whole, std::vector<int64_t> padded,
                  std::vector<Cut> cuts, const std::string &where);

  const std::vector<int64_t> &whole() const { return wholeShape; }
  const std::vector<int64_t> &padded() const { return paddedShape; }
  const std::vector<int64_t> &part() const { return partShape; }
  const std::vector<Cut> &cuts() const { return cutList; }
  int64_t wholeElements() const { return count(wholeShape); }
  int64_t partElements() const { return count(partShape); }
  /// Neither cut nor padded.
  bool identity() const { return flat == 0; }

  /// Elements next to each other in the part and in the whole.
  struct Run {
    int64_t part, whole, count;
  };
  /// Runs of the part's elements [begin, end), ascending; elements of padding
  /// are in none.
  std::vector<Run> runs(int64_t begin, int64_t end) const;
  std::vector<Run> runs() const { return runs(0, partElements()); }

  /// Elements of `size` bytes from the whole into the part; padding is zeroed.
  void extract(const void *whole, void *part, size_t size) const;

private:
  static int64_t count(const std::vector<int64_t> &shape);
  void prepare(const std::string &where);
  void append(std::vector<Run> &out, size_t dim, int64_t part, int64_t whole,
              int64_t begin, int64_t end) const;

  std::vector<int64_t> wholeShape, paddedShape, partShape;
  std::vector<Cut> cutList;
  /// Per dim: pieces of a part's index range in the whole's; padding left out.
  std::vector<std::vector<Run>> pieces;
  std::vector<int64_t> partStride, wholeStride;
  size_t flat = 0; ///< dims from here on are as in the whole
};

} // namespace dt::rt

#endif // DT_RUNTIME_STATE_PARAMETERLAYOUT_H
