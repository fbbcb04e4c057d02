//===- Pieces.h - tensors that several ranks have parts of ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A safetensors file a rank. What is a whole tensor is stored as such; of a
// piece the header's note "pieces" says what it is of: {key: {"tensor",
// "whole": shape in files, "padded", "cuts": [[dim, chunk, over, place]],
// "flat": [a, b) in the part that the cuts give}}. The files of all ranks
// together hold every element once, so they can be read under any other plan.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_STATE_PIECES_H
#define DT_RUNTIME_STATE_PIECES_H

#include "runtime/base/Safetensors.h"
#include "runtime/device/Device.h"
#include "runtime/state/ParameterLayout.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace dt::rt {

/// Writes device memory as it is then, or as a snapshot has it.
class PieceWriter {
public:
  /// Is shown all values before they are written, in host memory, some at a
  /// time; may throw.
  using Check = std::function<void(const void *values, size_t bytes)>;

  /// Elements [begin, end) of the part with this layout; `device` points to the
  /// first.
  void add(const std::string &name, DType type, const ParameterLayout &layout,
           int64_t begin, int64_t end, const void *device, Check check = {});
  /// Of all that was added.
  size_t bytes() const;
  /// Begins copies of all, so that the state may change before `write`, which
  /// any thread may call then. False: there is no memory for them.
  bool copyTo(device::Snapshot &snapshot);
  /// Gives the copies up: `write` reads the state, which has not changed.
  void forgetCopies();
  /// Returns the hash of the file. Throws Error.
  uint64_t write(const std::string &path, Folder folder = Folder::Named);

private:
  struct Piece {
    const void *memory; ///< of the device
    size_t bytes;
    Check check;
    size_t place = 0; ///< in the snapshot
  };
  SafetensorsWriter writer;
  nlohmann::json notes = nlohmann::json::object();
  std::vector<Piece> pieces;
  device::Snapshot *copies = nullptr;
};

class PieceReader {
public:
  /// `name`: of all of them together, for errors; without it that of the ranks'
  /// files. Throws Error if a file is not what it should be.
  explicit PieceReader(const std::vector<std::string> &paths,
                       const std::string &name = "");

  bool has(const std::string &name) const {
    return pieces.count(name) > 0 || others.count(name) > 0;
  }
  /// All of them, also of types that are not read: asking for more than the
  /// name of such a one throws.
  std::vector<std::string> names() const;
  /// The whole tensor; throws Error if it is missing, of another type or shape,
  /// or if an element is in no piece.
  std::vector<std::byte> whole(const std::string &name, DType type,
                               const std::vector<int64_t> &shape) const;
  /// Elements [begin, end) of the part that `layout` makes of the tensor, into
  /// `out`; padding becomes 0. Reads the bytes of these elements only (and
  /// short gaps between them). Throws Error as whole().
  void part(const std::string &name, DType type, const ParameterLayout &layout,
            int64_t begin, int64_t end, void *out) const;
  /// As part(), but floats of another type become `type`.
  std::vector<std::byte> floats(const std::string &name, DType type,
                                const ParameterLayout &layout, int64_t begin,
                                int64_t end) const;
  /// Its shape and type, as the first piece says. Throws if it is missing.
  std::vector<int64_t> shapeOf(const std::string &name) const;
  DType typeOf(const std::string &name) const;

private:
  struct Piece {
    const SafetensorsReader *file;
    const TensorPlace *place;
    std::vector<int64_t> whole, padded;
    std::vector<ParameterLayout::Cut> cuts;
    int64_t begin, end;
  };
  const std::vector<Piece> &get(const std::string &name) const;
  /// The layout of a piece of a tensor with this type and shape.
  ParameterLayout layoutOf(const Piece &piece, const std::string &name,
                           DType type, const std::vector<int64_t> &shape) const;

  std::string where; ///< for errors
  std::vector<std::unique_ptr<SafetensorsReader>> files;
  std::map<std::string, std::vector<Piece>> pieces;
  std::map<std::string, std::string>
      others; ///< their types, which are not read
};

} // namespace dt::rt

#endif // DT_RUNTIME_STATE_PIECES_H
