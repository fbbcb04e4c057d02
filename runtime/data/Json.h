//===- Json.h - typed reading of JSON with paths in errors ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A view of a JSON value that knows where it stands, so that a wrong recipe
// gives one line that names the key and what was expected.
//
//===----------------------------------------------------------------------===//

#ifndef DT_RUNTIME_DATA_JSON_H
#define DT_RUNTIME_DATA_JSON_H

#include "runtime/base/Error.h"

#include <nlohmann/json.hpp>

#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

namespace dt::rt::data {

class JsonView {
public:
  /// `json` must outlive the view.
  JsonView(const nlohmann::json &json, std::string path)
      : json(&json), path(std::move(path)) {}

  const nlohmann::json &raw() const { return *json; }
  [[noreturn]] void fail(const std::string &what) const {
    bool root = path.size() >= 2 && path.compare(path.size() - 2, 2, ": ") ==
                                        0; // "data.json: " alone
    throw Error(path + (root || path.empty() ? "" : ": ") + what);
  }

  bool has(const char *key) const {
    return json->is_object() && json->contains(key);
  }
  JsonView at(const std::string &key) const {
    object();
    if (!json->contains(key))
      fail("the key \"" + key + "\" is missing");
    return {(*json)[key],
            path + (path.empty() || path.back() == ' ' ? "" : ".") + key};
  }
  JsonView at(size_t i) const {
    return {(*json)[i], path + "[" + std::to_string(i) + "]"};
  }

  const JsonView &object() const {
    if (!json->is_object())
      fail("expected an object");
    return *this;
  }
  /// An object with no other keys than these.
  const JsonView &only(std::initializer_list<const char *> keys) const {
    object();
    for (auto &entry : json->items()) {
      bool known = false;
      std::string names;
      for (const char *key : keys) {
        known |= entry.key() == key;
        names += (names.empty() ? "" : ", ") + std::string(key);
      }
      if (!known)
        fail("unknown key \"" + entry.key() + "\"; expected " + names);
    }
    return *this;
  }
  std::vector<JsonView> list() const {
    if (!json->is_array())
      fail("expected a list");
    std::vector<JsonView> out;
    for (size_t i = 0; i < json->size(); ++i)
      out.push_back(at(i));
    return out;
  }
  std::string text() const {
    if (!json->is_string())
      fail("expected a string");
    return json->get<std::string>();
  }
  bool flag() const {
    if (!json->is_boolean())
      fail("expected true or false");
    return json->get<bool>();
  }
  double number() const {
    if (!json->is_number())
      fail("expected a number");
    return json->get<double>();
  }
  int64_t integer(int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max()) const {
    bool fits = json->is_number_integer() &&
                !(json->is_number_unsigned() &&
                  json->get<uint64_t>() >
                      uint64_t(std::numeric_limits<int64_t>::max()));
    int64_t value = fits ? json->get<int64_t>() : 0;
    if (!fits || value < low || value > high)
      fail("expected a whole number" +
           (low > std::numeric_limits<int64_t>::min()
                ? " from " + std::to_string(low) + " on"
                : std::string()) +
           (high < std::numeric_limits<int64_t>::max()
                ? " up to " + std::to_string(high)
                : std::string()));
    return value;
  }
  /// One of `names`: its number.
  size_t choice(std::initializer_list<const char *> names) const {
    std::string value = text(), all;
    size_t i = 0;
    for (const char *name : names) {
      if (value == name)
        return i;
      all += (i++ ? ", " : "") + std::string(name);
    }
    fail("\"" + value + "\" is not one of " + all);
  }

private:
  const nlohmann::json *json;
  std::string path;
};

} // namespace dt::rt::data

#endif // DT_RUNTIME_DATA_JSON_H
