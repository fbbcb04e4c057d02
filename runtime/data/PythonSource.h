//===- PythonSource.h - samples that Python makes ---------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// `"data": {"source": "my_data.py:Pairs"}` of a recipe: tools/feed makes the
// samples and writes batches into a pipe; nothing here runs Python.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_PYTHONSOURCE_H
#define DT_RUNTIME_DATA_PYTHONSOURCE_H

#include <nlohmann/json.hpp>

#include <string>

namespace dt::rt::data {

/// Whether the sections of a recipe, or data.json, say that Python makes the
/// samples.
bool hasPythonSource(const nlohmann::json &sections);

/// The section `data` of such a recipe, with files of sources as whole paths:
/// they are looked for from the recipe's folder. Throws Error that names the
/// key and what was expected.
nlohmann::json readPythonSource(const nlohmann::json &sections,
                                const std::string &where,
                                const std::string &folder);

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_PYTHONSOURCE_H
