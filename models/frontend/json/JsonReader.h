//===- JsonReader.h - Typed reading of JSON with one good error -*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// A view of a JSON value that knows its path. The first thing that is wrong is
// kept as the error, later ones are not reported: values read after it are
// defaults, so that the code that reads needs no checks between.
//
//===----------------------------------------------------------------------===//

#ifndef MODELS_FRONTEND_JSON_JSONREADER_H
#define MODELS_FRONTEND_JSON_JSONREADER_H

#include "models/frontend/json/RegularFile.h"
#include "runtime/Enums.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <string>
#include <vector>

namespace dt::models {

using OrderedJson = nlohmann::ordered_json;

/// The value of a file that anyone may have written. An error is one line that
/// begins with `path`: no JSON, a name that stands twice in an object (one of
/// the two would be lost), a number beyond a double, or values nested deeper
/// than any of our files (copies of values and their text are made level by
/// level, so depth is bounded by the stack).
llvm::Expected<OrderedJson> parseJson(llvm::StringRef text,
                                      llvm::StringRef path);

/// What `parse` makes of a file's text and path; else a line that begins with
/// the path.
template <typename Parse>
auto readFile(llvm::StringRef path, Parse parse)
    -> decltype(parse(path, path)) {
  auto buffer = readRegular(path);
  if (!buffer)
    return llvm::createStringError(path + ": " +
                                   llvm::toString(buffer.takeError()));
  return parse((*buffer)->getBuffer(), path);
}

/// Text of a file as it may stand in a line that a terminal shows: control
/// characters become '?'.
std::string oneLine(llvm::StringRef text);

/// The texts of an enum of runtime/Enums.h.
template <typename E> std::vector<llvm::StringRef> textsOf() {
  std::vector<llvm::StringRef> texts;
  for (const rt::EnumCase &known : rt::EnumTable<E>::cases)
    texts.push_back(known.text);
  return texts;
}

class JsonReader {
public:
  /// `error` receives "path: what" once; empty so far.
  JsonReader(const OrderedJson *value, std::string path, std::string *error)
      : value(value), path(std::move(path)), error(error) {}

  bool ok() const { return error->empty(); }
  void fail(const llvm::Twine &what) const;
  const OrderedJson &raw() const { return *value; }

  /// An object whose keys are among these.
  void keys(llvm::ArrayRef<llvm::StringRef> known) const;
  bool has(llvm::StringRef key) const;
  /// The value of a key, which must be there.
  JsonReader at(llvm::StringRef key) const;
  /// Entries of an object in the order of the file; none if it is not one.
  std::vector<std::pair<std::string, JsonReader>> entries() const;
  /// Elements of a list.
  std::vector<JsonReader> list() const;
  /// Those of a key's list; none without the key.
  std::vector<JsonReader> listIfAny(llvm::StringRef key) const;
  /// Of a file of which there is one version.
  void checkVersion() const;

  std::string string() const;
  std::vector<std::string> strings() const;
  bool flag() const;
  int64_t integer(int64_t low = std::numeric_limits<int64_t>::min(),
                  int64_t high = std::numeric_limits<int64_t>::max()) const;
  double number(double low = -std::numeric_limits<double>::infinity(),
                double high = std::numeric_limits<double>::infinity()) const;
  /// One of `names`; its position.
  size_t choice(llvm::ArrayRef<llvm::StringRef> names) const;
  /// Position of the one in a list that has this name; `what` they are.
  template <typename List>
  size_t findNamed(const List &list, llvm::StringRef what) const {
    std::vector<llvm::StringRef> names;
    for (const auto &one : list)
      names.push_back(one.name);
    return findName(names, what);
  }
  /// A case of an enum of runtime/Enums.h.
  template <typename E> E choice() const { return E(choice(textsOf<E>())); }

  /// Reads the value of a key into `field`, if the key is there; numbers within
  /// `limits`.
  template <typename T, typename... Limits>
  void read(llvm::StringRef key, T &field, Limits... limits) const {
    if (!has(key))
      return;
    if constexpr (std::is_enum_v<T>)
      field = at(key).choice<T>();
    else if constexpr (std::is_same_v<T, bool>)
      field = at(key).flag();
    else if constexpr (std::is_same_v<T, std::string>)
      field = at(key).string();
    else if constexpr (std::is_integral_v<T>)
      field = T(at(key).integer(limits...));
    else
      field = at(key).number(limits...);
  }

private:
  size_t findName(llvm::ArrayRef<llvm::StringRef> names,
                  llvm::StringRef what) const;
  std::string typeName() const;
  JsonReader child(const OrderedJson *json, std::string childPath) const {
    return JsonReader(json, std::move(childPath), error);
  }

  const OrderedJson *value;
  std::string path;
  std::string *error;
};

/// Has the value of a file read. An error is one line that begins with `path`:
/// that of parseJson, else the first that the readers were told (`fail`).
llvm::Error readJson(llvm::StringRef text, llvm::StringRef path,
                     llvm::function_ref<void(const JsonReader &)> read);

/// "; did you mean 'x'?" for the nearest of `known`, or "".
std::string didYouMean(llvm::StringRef word,
                       llvm::ArrayRef<llvm::StringRef> known);

} // namespace dt::models

#endif // MODELS_FRONTEND_JSON_JSONREADER_H
