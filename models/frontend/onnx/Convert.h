//===- Convert.h - From protobuf's classes to Model.h's ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Internal to models/frontend/onnx.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_ONNX_CONVERT_H
#define MODELS_FRONTEND_ONNX_CONVERT_H

#include "models/frontend/onnx/Model.h"

#include "models/frontend/onnx/onnx.pb.h"

namespace dt::onnx {

/// Parses a file. Errors are reasons, without file.
llvm::Expected<::onnx::ModelProto> parseFile(llvm::StringRef path);

/// Converts one tensor and checks its size against its data. `folder` is where
/// external data lie (empty: none allowed). Errors are reasons, without file.
llvm::Expected<Tensor> convertTensor(::onnx::TensorProto &proto,
                                     llvm::StringRef folder);

/// A graph's nodes with local functions inlined; fails on recursion and on
/// growth beyond reason. Works on protobuf's classes, before conversion.
llvm::Error inlineFunctions(::onnx::ModelProto &model);

/// Brings nodes into an order in which each follows what it uses; `known` are
/// names from outside. Fails on cycles, unknown and doubly defined names.
/// Returns which node came before what it uses; empty: none did.
llvm::Expected<std::string> sortNodes(Graph &graph,
                                      std::vector<std::string> known);

} // namespace dt::onnx

#endif // MODELS_FRONTEND_ONNX_CONVERT_H
