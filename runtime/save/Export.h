//===- Export.h - trained weights back into ONNX files ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Copies the ONNX files a program was made from and replaces the contents of
// the initializers that are parameters. A program links no ONNX library, and a
// generic rewrite would lose what it does not know; so this walks the protobuf
// wire format and leaves every other byte as it is.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_SAVE_EXPORT_H
#define DT_RUNTIME_SAVE_EXPORT_H

#include "runtime/step/Trainer.h"

namespace dt::rt {

/// Of an export: adapters, by the names that checkpoints have for them.
inline constexpr char kAdaptersFile[] = "adapters.safetensors";

/// Throws CommonError unless exportOnnx can be expected to go well: the folder
/// takes files, the sources are there and have the parameters. Makes the
/// folder. All ranks call it.
void checkExport(const Trainer &trainer, const std::string &onnxDirectory,
                 const std::string &target, DType floats = DType::F32);

/// Writes each file that a parameter refers to from `onnxDirectory` to `target`
/// (created if needed). Weights are inside the file; if a file's would
/// exceed 1.5 GB they go to `<file>.data` beside it. All ranks call it, rank 0
/// writes. With `floats` BF16 a float32 initializer NAME becomes NAME.bf16, and
/// a Cast in front of all nodes makes NAME of it: half the bytes, in float32
/// what bf16 holds. Adapters go to kAdaptersFile. Files appear when all are
/// complete, else the earlier ones stay. Throws CommonError naming file and
/// initializer. `averages`: of what trains, these are written.
void exportOnnx(const Trainer &trainer, const std::string &onnxDirectory,
                const std::string &target, DType floats = DType::F32,
                bool averages = false);

} // namespace dt::rt

#endif // DT_RUNTIME_SAVE_EXPORT_H
