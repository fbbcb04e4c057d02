//===- ProgramFiles.cpp - Where a program's files are -----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/train/ProgramFiles.h"
#include "runtime/base/ReadJson.h"

#include <filesystem>

namespace dt::rt {

std::string findProgramFolder(const std::string &built) {
  std::error_code none;
  std::filesystem::path above =
      std::filesystem::read_symlink("/proc/self/exe", none)
          .parent_path()
          .parent_path();
  bool isProgram = std::filesystem::exists(above / "data.json", none) &&
                   std::filesystem::exists(above / "main.cpp", none);
  return isProgram ? above.string() : built;
}

nlohmann::json readDataSections(const std::string &folder) {
  std::string path = folder + "/data.json";
  std::error_code none;
  if (!std::filesystem::exists(path, none))
    throw Error(path +
                ": cannot open (does --program name the program's directory?)");
  nlohmann::json sections = readJsonFile(path);
  if (!sections.is_object())
    throw Error(path + ": not a JSON object");
  return sections;
}

} // namespace dt::rt
