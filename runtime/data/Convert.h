//===- Convert.h - values of whatever type a file has ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Batch files hold tensors as exporters and scripts happen to write them; the
// program takes one type. Elements are read from bytes, which need not be
// aligned.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_CONVERT_H
#define DT_RUNTIME_DATA_CONVERT_H

#include "runtime/base/Safetensors.h"

namespace dt::rt {

bool isFloat(DType type);

/// One element; the type must be of that family (Bool is an integer).
double loadFloat(DType type, const std::byte *p);
/// To the nearest, ties to even.
void storeFloat(DType type, std::byte *p, double value);
int64_t loadInteger(DType type, const std::byte *p);
void storeInteger(DType type, std::byte *p, int64_t value);

/// The tensor in the type that the program takes: integers among themselves,
/// floats too, integers also to F32 and F64; never a float to an integer.
/// Throws Error beginning with `where`.
std::vector<std::byte> convert(const TensorView &from, DType to,
                               const std::string &where);
/// The same of elements one after another.
std::vector<std::byte> convert(std::vector<std::byte> bytes, DType from,
                               DType to, const std::string &where);

} // namespace dt::rt

#endif // DT_RUNTIME_DATA_CONVERT_H
