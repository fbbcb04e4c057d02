//===- ProgramFiles.h - Where a program's files are -------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Weights, data and graphs lie beside a program's sources (docs/program.md).
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_TRAIN_PROGRAMFILES_H
#define DT_RUNTIME_TRAIN_PROGRAMFILES_H

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace dt::rt {

/// The folder above the one that the program runs from, if a program lies
/// there: one that was moved or copied has its own weights. Else `built`, which
/// the sources were compiled in.
std::string findProgramFolder(const std::string &built);

/// data.json of such a folder. Throws Error.
nlohmann::json readDataSections(const std::string &folder);

} // namespace dt::rt

#endif // DT_RUNTIME_TRAIN_PROGRAMFILES_H
