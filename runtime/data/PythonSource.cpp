//===- PythonSource.cpp - samples that Python makes -----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "runtime/data/PythonSource.h"
#include "runtime/data/Json.h"

#include <filesystem>

namespace dt::rt::data {

bool hasPythonSource(const nlohmann::json &sections) {
  return sections.is_object() && sections.contains("data") &&
         sections["data"].is_object() && sections["data"].contains("source");
}

/// "my_data.py:Pairs?{…}=0.5" or "package.module:Pairs".
static std::string wholePath(const JsonView &source,
                             const std::string &folder) {
  std::string text = source.text();
  size_t options = text.find('?'), colon = text.rfind(':', options);
  if (colon == std::string::npos || colon == 0 || colon + 1 == text.size())
    source.fail("expected FILE.py:NAME or PACKAGE.MODULE:NAME, not \"" + text +
                "\"");
  std::filesystem::path file = text.substr(0, colon);
  if (file.extension() != ".py" || file.is_absolute())
    return text;
  return std::filesystem::absolute(folder / file).lexically_normal().string() +
         text.substr(colon);
}

static void checkNames(const JsonView &data, const char *key) {
  for (const JsonView &name :
       data.has(key) ? data.at(key).list() : std::vector<JsonView>())
    name.text();
}

nlohmann::json readPythonSource(const nlohmann::json &sections,
                                const std::string &where,
                                const std::string &folder) {
  JsonView data =
      JsonView(sections, where.empty() ? "" : where + ": ").at("data");
  data.only({"source", "axes", "names", "numbers"});
  JsonView source = data.at("source");
  nlohmann::json made = data.raw();
  made["source"] = nlohmann::json::array();
  if (source.raw().is_array())
    for (const JsonView &one : source.list())
      made["source"].push_back(wholePath(one, folder));
  else
    made["source"].push_back(wholePath(source, folder));
  if (made["source"].empty())
    source.fail("expected at least one source");
  if (data.has("axes"))
    for (auto &entry : data.at("axes").object().raw().items())
      data.at("axes").at(entry.key()).integer(0, 15);
  checkNames(data, "names");
  checkNames(data, "numbers");
  return made;
}

} // namespace dt::rt::data
