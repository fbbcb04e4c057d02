//===- IndexFile.cpp - the index beside a shard -----------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Index.h. JSON with a column a property: readable, and small. The file is
// a cache that anyone may have written, so each value is checked as it is read.
//
//===----------------------------------------------------------------------===//

#include "runtime/base/Files.h"
#include "runtime/base/ReadJson.h"
#include "runtime/data/Index.h"
#include "runtime/data/Json.h"

#include <unistd.h>

using namespace dt::rt;
using namespace dt::rt::data;
using Json = nlohmann::json;

namespace {
constexpr int version = 4;

std::string keyOf(const Config &config, const PositionedFile &file) {
  std::string text = std::to_string(version) + " " +
                     std::to_string(file.size()) + " " +
                     std::to_string(file.modified());
  return hexText(hashBytes(text, config.key));
}

/// Over all the rest of an index. As dumped with replacements, since names are
/// bytes.
std::string checkOf(const Json &rest) {
  return hexText(
      hashBytes(rest.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

/// Gone at the end, unless it was renamed.
struct RemovedFile {
  std::string path;
  ~RemovedFile() { ::unlink(path.c_str()); }
};

std::vector<Squares> readSquares(const PictureKind &kind,
                                 const JsonView &view) {
  std::vector<Squares> all;
  for (const JsonView &picture : view.list()) {
    Squares squares{int32_t(picture.at(size_t(0)).integer(1, kind.mostSquares)),
                    int32_t(picture.at(1).integer(1, kind.mostSquares))};
    if (squares.count() > kind.mostSquares)
      picture.fail("more than there may be");
    all.push_back(squares);
  }
  return all;
}

IndexedSample readSample(const Config &config, const JsonView &columns,
                         size_t i, int64_t shardBytes) {
  IndexedSample sample;
  sample.key = columns.at("key").at(i).text();
  sample.problem = columns.at("problem").at(i).text();
  for (const JsonView &view : columns.at("members").at(i).list()) {
    if (view.list().size() != 3)
      view.fail("expected [name, offset, size]");
    Member member{view.at(size_t(0)).text(), view.at(1).integer(0, shardBytes),
                  view.at(2).integer(0, shardBytes)};
    if (member.size > shardBytes - member.offset)
      view.fail("outside the shard");
    sample.members.push_back(std::move(member));
  }
  if (!sample.ok())
    return sample;
  sample.tokens =
      int32_t(columns.at("tokens").at(i).integer(0, config.sequence));
  sample.labels =
      int32_t(columns.at("labels").at(i).integer(0, config.sequence));
  std::vector<JsonView> items = columns.at("items").at(i).list();
  if (items.size() != config.pictures.size())
    columns.fail("expected a count for each picture kind");
  std::vector<JsonView> squares = columns.at("squares").at(i).list();
  if (squares.size() != items.size())
    columns.fail("expected squares for each picture kind");
  for (size_t k = 0; k < items.size(); ++k) {
    const PictureKind &kind = config.pictures[k];
    sample.items.push_back(int32_t(items[k].integer(0, kind.max)));
    sample.squares.push_back(readSquares(kind, squares[k]));
    if (kind.grid && int64_t(sample.squares[k].size()) != sample.items[k])
      squares[k].fail("expected those of each picture");
  }
  return sample;
}
} // namespace

std::string data::indexPath(const std::string &path) {
  return path + ".idx.json";
}

bool data::loadIndex(const Config &config, const std::string &path,
                     ShardIndex &index) {
  std::string text;
  try {
    text = readText(indexPath(path), SIZE_MAX);
  } catch (const Error &) {
    return false;
  }
  return parseIndex(config, path, text, index);
}

bool data::parseIndex(const Config &config, const std::string &path,
                      const std::string &text, ShardIndex &index) {
  Json json = readJsonIfGood(text);
  if (!json.is_object())
    return false;
  auto check = json.find("check");
  if (check == json.end())
    return false;
  Json hash = std::move(*check);
  json.erase(check);
  if (hash != checkOf(json))
    return false;
  PositionedFile file(path);
  try {
    JsonView root(json, "");
    if (root.at("key").text() != keyOf(config, file))
      return false;
    ShardIndex out;
    out.problem = root.at("problem").text();
    JsonView columns = root.at("samples");
    size_t count = columns.at("key").list().size();
    for (const char *name :
         {"problem", "members", "tokens", "labels", "items", "squares"})
      if (columns.at(name).list().size() != count)
        return false;
    for (size_t i = 0; i < count; ++i)
      out.samples.push_back(readSample(config, columns, i, file.size()));
    index = std::move(out);
    return true;
  } catch (const Error &) {
    return false; // a damaged cache is built anew
  }
}

std::string data::indexText(const Config &config, const std::string &path,
                            const ShardIndex &index) {
  Json columns = {{"key", Json::array()},     {"problem", Json::array()},
                  {"members", Json::array()}, {"tokens", Json::array()},
                  {"labels", Json::array()},  {"items", Json::array()},
                  {"squares", Json::array()}};
  for (const IndexedSample &sample : index.samples) {
    Json members = Json::array();
    for (const Member &member : sample.members)
      members.push_back({member.name, member.offset, member.size});
    columns["key"].push_back(sample.key);
    columns["problem"].push_back(sample.problem);
    columns["members"].push_back(std::move(members));
    columns["tokens"].push_back(sample.tokens);
    columns["labels"].push_back(sample.labels);
    columns["items"].push_back(sample.items);
    Json squares = Json::array();
    for (const std::vector<Squares> &kind : sample.squares) {
      squares.push_back(Json::array());
      for (const Squares &picture : kind)
        squares.back().push_back({picture.down, picture.across});
    }
    columns["squares"].push_back(std::move(squares));
  }
  PositionedFile file(path);
  Json json = {{"version", version},
               {"key", keyOf(config, file)},
               {"problem", index.problem},
               {"samples", std::move(columns)}};
  json["check"] = checkOf(json);
  return json.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
}

bool data::saveIndex(const std::string &path, const std::string &text,
                     std::string *why) {
  try {
    // Of this process alone: others may index the same shard.
    std::string temporary =
        indexPath(path) + "." + std::to_string(::getpid()) + ".tmp";
    RemovedFile guard{temporary};
    ::unlink(temporary.c_str());
    FileWriter file(temporary);
    file.write(text);
    file.close();
    renamePath(temporary, indexPath(path));
    return true;
  } catch (const SystemError &e) {
    if (why && e.code != EACCES && e.code != EPERM && e.code != EROFS)
      *why = e.what();
    return false;
  }
}

bool data::saveIndex(const Config &config, const std::string &path,
                     const ShardIndex &index) {
  return saveIndex(path, indexText(config, path, index));
}
