//===- ReadJson.h - JSON that anybody may have written ----------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// The one way in which the compiler, the tools and programs read JSON. Copies
// of values, their text and their comparison go down level by level, so what is
// deeper than any of our files is refused while it is read. Of a name that
// stands twice in an object one would be lost: refused, too. A template, since
// the compiler keeps the order of a file's names and programs do not.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_BASE_READJSON_H
#define DT_RUNTIME_BASE_READJSON_H

#include "runtime/base/Error.h"
#include "runtime/base/Files.h"

#include <nlohmann/json.hpp>

#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace dt::rt {

constexpr int kMostJsonDepth = 64;

/// Looks at a text while it is parsed; throws Error.
template <typename Json> class JsonGuard {
public:
  using Event = typename Json::parse_event_t;

  bool operator()(int depth, Event event, const Json &value) {
    if (depth >= kMostJsonDepth)
      throw Error("nested more than " + std::to_string(kMostJsonDepth) +
                  " levels deep");
    if (event == Event::object_start)
      names.emplace_back();
    else if (event == Event::object_end)
      names.pop_back();
    else if (event == Event::key &&
             !names.back().insert(value.template get<std::string>()).second)
      throw Error("the key '" + value.template get<std::string>() +
                  "' stands twice in an object");
    return true;
  }

private:
  std::vector<std::set<std::string>> names; ///< of the objects around
};

/// The value of a text. Throws Error, "where: what is wrong"; the line may hold
/// characters of the text.
template <typename Json = nlohmann::json>
Json readJson(std::string_view text, const std::string &where) {
  JsonGuard<Json> guard;
  try {
    return Json::parse(text.begin(), text.end(),
                       [&](int depth, typename Json::parse_event_t event,
                           Json &value) { return guard(depth, event, value); });
  } catch (const Error &error) {
    throw Error(where + ": " + error.what());
  } catch (const typename Json::exception &error) {
    // The library's text begins with its own error number.
    std::string what = error.what();
    size_t end = what.find("] ");
    throw Error(where + ": not JSON: " +
                what.substr(end == std::string::npos ? 0 : end + 2));
  }
}

/// Of a file of at most a gigabyte; throws SystemError where it cannot be read.
template <typename Json = nlohmann::json>
Json readJsonFile(const std::string &path) {
  return readJson<Json>(readText(path, size_t(1) << 30), path);
}

/// For a text of which only our own is of use: null if it is anything else.
template <typename Json = nlohmann::json>
Json readJsonIfGood(std::string_view text) {
  try {
    return readJson<Json>(text, "");
  } catch (const Error &) {
    return Json();
  }
}

} // namespace dt::rt

#endif // DT_RUNTIME_BASE_READJSON_H
