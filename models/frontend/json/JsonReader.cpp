//===- JsonReader.cpp - Typed reading of JSON with one good error ---------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "models/frontend/json/JsonReader.h"
#include "runtime/base/ReadJson.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"

#include <cmath>

using namespace llvm;

namespace dt::models {

namespace {
const OrderedJson kNull;
} // namespace

std::string oneLine(StringRef text) {
  std::string line = text.str();
  for (char &c : line)
    if ((c >= 0 && c < 32) || c == 127)
      c = '?';
  return line;
}

Expected<OrderedJson> parseJson(StringRef text, StringRef path) {
  try {
    return rt::readJson<OrderedJson>(std::string_view(text), path.str());
  } catch (const rt::Error &error) {
    return createStringError(Twine(error.what()));
  }
}

Error readJson(StringRef text, StringRef path,
               function_ref<void(const JsonReader &)> read) {
  Expected<OrderedJson> json = parseJson(text, path);
  if (!json)
    return json.takeError();
  std::string error;
  read(JsonReader(&*json, "", &error));
  return error.empty() ? Error::success()
                       : createStringError(path + ": " + error);
}

std::string didYouMean(StringRef word, ArrayRef<StringRef> known) {
  StringRef best;
  unsigned distance = std::max<size_t>(word.size() / 3, 1) + 1;
  for (StringRef candidate : known) {
    unsigned d = word.edit_distance(candidate, true, distance);
    if (d < distance) {
      distance = d;
      best = candidate;
    }
  }
  return best.empty() ? "" : ("; did you mean '" + best + "'?").str();
}

void JsonReader::fail(const Twine &what) const {
  if (error->empty())
    *error = oneLine((path + (path.empty() ? "" : ": ") + what).str());
}

std::string JsonReader::typeName() const {
  switch (value->type()) {
  case OrderedJson::value_t::null:
    return "null";
  case OrderedJson::value_t::object:
    return "an object";
  case OrderedJson::value_t::array:
    return "a list";
  case OrderedJson::value_t::string:
    return "the string \"" + value->get<std::string>().substr(0, 40) + "\"";
  case OrderedJson::value_t::boolean:
    return value->get<bool>() ? "true" : "false";
  default:
    return value->dump();
  }
}

void JsonReader::keys(ArrayRef<StringRef> known) const {
  if (!value->is_object())
    return fail("expected an object, not " + typeName());
  for (auto &entry : value->items())
    if (!is_contained(known, StringRef(entry.key())))
      return fail("unknown key '" + entry.key() + "'" +
                  didYouMean(entry.key(), known) +
                  " (keys here: " + join(known, ", ") + ")");
}

bool JsonReader::has(StringRef key) const {
  return value->is_object() && value->contains(key.str());
}

JsonReader JsonReader::at(StringRef key) const {
  std::string childPath = (path + (path.empty() ? "" : ".") + key).str();
  if (!has(key)) {
    if (!value->is_object())
      fail("expected an object, not " + typeName());
    else
      fail("the key '" + key + "' is missing");
    return child(&kNull, childPath);
  }
  return child(&(*value)[key.str()], childPath);
}

std::vector<std::pair<std::string, JsonReader>> JsonReader::entries() const {
  std::vector<std::pair<std::string, JsonReader>> result;
  if (!value->is_object()) {
    fail("expected an object, not " + typeName());
    return result;
  }
  for (auto &entry : value->items())
    result.emplace_back(
        entry.key(),
        child(&entry.value(), path + (path.empty() ? "" : ".") + entry.key()));
  return result;
}

std::vector<JsonReader> JsonReader::list() const {
  std::vector<JsonReader> result;
  if (!value->is_array()) {
    fail("expected a list, not " + typeName());
    return result;
  }
  for (size_t i = 0; i < value->size(); ++i)
    result.push_back(child(&(*value)[i], path + "[" + std::to_string(i) + "]"));
  return result;
}

std::vector<JsonReader> JsonReader::listIfAny(StringRef key) const {
  return has(key) ? at(key).list() : std::vector<JsonReader>();
}

void JsonReader::checkVersion() const {
  if (at("version").integer(1) != 1)
    at("version").fail("expected 1");
}

std::string JsonReader::string() const {
  if (value->is_string())
    return value->get<std::string>();
  fail("expected a string, not " + typeName());
  return "";
}

std::vector<std::string> JsonReader::strings() const {
  std::vector<std::string> result;
  for (const JsonReader &element : list())
    result.push_back(element.string());
  return result;
}

bool JsonReader::flag() const {
  if (value->is_boolean())
    return value->get<bool>();
  fail("expected true or false, not " + typeName());
  return false;
}

int64_t JsonReader::integer(int64_t low, int64_t high) const {
  bool fits =
      value->is_number_integer() &&
      !(value->is_number_unsigned() &&
        value->get<uint64_t>() > uint64_t(std::numeric_limits<int64_t>::max()));
  int64_t result = fits ? value->get<int64_t>() : low;
  if (!fits || result < low) {
    fail("expected a whole number" +
         (low == std::numeric_limits<int64_t>::min()
              ? ""
              : " of at least " + std::to_string(low)) +
         ", not " + typeName());
    return low;
  }
  if (result > high)
    fail("expected at most " + Twine(high));
  return std::min(result, high);
}

double JsonReader::number(double low, double high) const {
  double result = value->is_number() ? value->get<double>() : NAN;
  if (result >= low && result <= high)
    return result;
  std::string range;
  if (std::isfinite(low) && std::isfinite(high))
    range = " from " + OrderedJson(low).dump() + " to " +
            (high == std::nextafter(std::ceil(high), low)
                 ? "below " + OrderedJson(std::ceil(high)).dump()
                 : OrderedJson(high).dump());
  else if (std::isfinite(low))
    range = " of at least " + OrderedJson(low).dump();
  fail("expected a number" + range + ", not " + typeName());
  return std::isfinite(low) ? low : 0;
}

size_t JsonReader::findName(ArrayRef<StringRef> names, StringRef what) const {
  std::string name = string();
  const StringRef *found = llvm::find(names, name);
  if (found != names.end())
    return found - names.begin();
  fail("no " + what + " is named '" + name + "'" + didYouMean(name, names));
  return 0;
}

size_t JsonReader::choice(ArrayRef<StringRef> names) const {
  std::string word = string();
  for (auto [i, name] : enumerate(names))
    if (name == word)
      return i;
  fail("'" + word + "' is not one of " + join(names, ", ") +
       didYouMean(word, names));
  return 0;
}

} // namespace dt::models
