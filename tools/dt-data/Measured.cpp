//===- Measured.cpp - what files of measured samples hold -----------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// See Measured.h. Files are untrusted.
//
//===----------------------------------------------------------------------===//

#include "tools/dt-data/Measured.h"

#include "passes/planner/describe/Data.h"
#include "runtime/base/Error.h"
#include "runtime/data/BatchPipe.h"
#include "runtime/data/BatchSource.h"
#include "runtime/data/Convert.h"

#include <algorithm>
#include <fstream>
#include <numeric>

using namespace dt;
using namespace dt::tools;
using rt::Error;
using Column = std::vector<int64_t>;

namespace {

constexpr int64_t kMost = int64_t(1) << 48; ///< of a measure
constexpr const char *kSample = "sample";

std::string textAt(const std::string &file, const std::string &tensor) {
  return file + ": tensor '" + tensor + "'";
}

/// "offsets.image.merged" behind "offsets.": {"image", "merged"}.
std::pair<std::string, std::string> splitMeasure(const std::string &name,
                                                 const std::string &where) {
  size_t dot = name.find('.');
  if (dot == std::string::npos || dot == 0 || dot + 1 == name.size())
    throw Error(where + ": expected the name of a kind and of its measure");
  return {name.substr(0, dot), name.substr(dot + 1)};
}

/// A tensor of one axis, of integers of which none is below 0.
Column readColumn(const rt::SafetensorsFile &file, const std::string &name) {
  const rt::TensorView *tensor = file.find(name);
  std::string where = textAt(file.path(), name);
  if (!tensor)
    throw Error(file.path() + ": there is no tensor '" + name + "'");
  if (tensor->shape.size() != 1 || rt::isFloat(tensor->type))
    throw Error(where + " has shape " + rt::shapeText(tensor->shape) +
                (rt::isFloat(tensor->type) ? " of floats" : "") +
                ", expected integers along one axis");
  Column values(size_t(tensor->shape[0]));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = rt::loadInteger(tensor->type,
                                tensor->data + i * rt::sizeOf(tensor->type));
    if (values[i] < 0 || values[i] > kMost)
      throw Error(where + ": element " + std::to_string(i) + " is " +
                  std::to_string(values[i]) + ", expected 0 to 2^48");
  }
  return values;
}

/// Of sums up to and with each item what each has.
Column differencesOf(const Column &sums, const std::string &where) {
  if (sums.empty() || sums[0] != 0 || !std::is_sorted(sums.begin(), sums.end()))
    throw Error(where + ": expected 0, then sums that never descend (offsets)");
  Column own(sums.size() - 1);
  for (size_t i = 0; i < own.size(); ++i)
    own[i] = sums[i + 1] - sums[i];
  return own;
}

/// As many as others have said before, if any have.
void setCount(int64_t &known, bool isKnown, size_t count,
              const std::string &where, const std::string &of) {
  if (isKnown && known != int64_t(count))
    throw Error(where + " is of " + std::to_string(count) + " " + of +
                ", others of the file of " + std::to_string(known));
  known = int64_t(count);
}

/// Names of tensors with a prefix, without it.
std::vector<std::string> namesAfter(const rt::SafetensorsFile &file,
                                    const std::string &prefix) {
  std::vector<std::string> names;
  for (auto &[name, tensor] : file.tensors())
    if (name.compare(0, prefix.size(), prefix) == 0)
      names.push_back(name.substr(prefix.size()));
  return names;
}

// --- batch files -------------------------------------------------------------

MeasuredSamples readBatch(const rt::SafetensorsFile &file) {
  MeasuredSamples out;
  out.samples = -1;
  for (const std::string &name : namesAfter(file, "offsets.")) {
    std::string full = "offsets." + name, where = textAt(file.path(), full);
    auto [kind, measure] = splitMeasure(name, where);
    Column own = differencesOf(readColumn(file, full), where);
    if (kind == kSample) {
      setCount(out.samples, out.samples >= 0, own.size(), where, "samples");
      out.measures[measure] = std::move(own);
      continue;
    }
    auto [entry, fresh] = out.kinds.try_emplace(kind);
    setCount(entry->second.items, !fresh, own.size(), where, "items");
    entry->second.measures[measure] = std::move(own);
  }
  for (const std::string &kind : namesAfter(file, "item_of.")) {
    std::string full = "item_of." + kind, where = textAt(file.path(), full);
    Column owner = readColumn(file, full);
    auto [entry, fresh] = out.kinds.try_emplace(kind);
    setCount(entry->second.items, !fresh, owner.size(), where, "items");
    if (out.samples < 0)
      continue; // how many samples there are is not said
    for (size_t i = 0; i < owner.size(); ++i)
      if (owner[i] >= out.samples)
        throw Error(where + ": item " + std::to_string(i) + " is of sample " +
                    std::to_string(owner[i]) + "; there are " +
                    std::to_string(out.samples));
    entry->second.owner = std::move(owner);
  }
  return out;
}

// --- indices of tools/finetune -----------------------------------------------

/// Rows that are samples: the others have reasons why they are none.
std::vector<bool> wholeRows(const rt::SafetensorsFile &file, size_t rows,
                            MeasuredSamples &out) {
  std::vector<bool> whole(rows, true);
  auto note = file.metadata().find("broken");
  nlohmann::json broken = nlohmann::json::parse(
      note == file.metadata().end() ? "{}" : note->second, nullptr, false);
  if (!broken.is_object())
    throw Error(file.path() + ": metadata: broken: expected an object");
  for (auto &[row, reason] : broken.items()) {
    size_t at = size_t(std::strtoull(row.c_str(), nullptr, 10));
    if (at >= rows || !reason.is_string())
      throw Error(file.path() + ": metadata: broken: expected rows below " +
                  std::to_string(rows) + " and a reason of each");
    whole[at] = false;
    ++out.broken[reason.get<std::string>()];
  }
  return whole;
}

Column keep(const Column &values, const std::vector<bool> &whole) {
  Column kept;
  for (size_t i = 0; i < values.size(); ++i)
    if (whole[i])
      kept.push_back(values[i]);
  return kept;
}

/// A measure of items: so many of each row.
void addItems(const rt::SafetensorsFile &file, const std::string &name,
              const Column &values, const std::vector<bool> &whole,
              MeasuredSamples &out) {
  Column counts = readColumn(file, "counts." + name);
  int64_t all = std::accumulate(counts.begin(), counts.end(), int64_t(0));
  if (counts.size() != whole.size() || all != int64_t(values.size()))
    throw Error(textAt(file.path(), "counts." + name) + " counts " +
                std::to_string(all) + " items of " +
                std::to_string(counts.size()) + " samples; there are " +
                std::to_string(values.size()) + " of " +
                std::to_string(whole.size()));
  auto [kind, measure] =
      splitMeasure(name, textAt(file.path(), "measures." + name));
  Column own, owner;
  for (size_t row = 0, item = 0, sample = 0; row < counts.size(); ++row) {
    for (int64_t i = 0; i < counts[row]; ++i, ++item)
      if (whole[row]) {
        own.push_back(values[item]);
        owner.push_back(int64_t(sample));
      }
    sample += whole[row];
  }
  auto [entry, fresh] = out.kinds.try_emplace(kind);
  setCount(entry->second.items, !fresh, own.size(),
           textAt(file.path(), "measures." + name), "items");
  entry->second.measures[measure] = std::move(own);
  entry->second.owner = std::move(owner);
}

MeasuredSamples readIndex(const rt::SafetensorsFile &file) {
  MeasuredSamples out;
  size_t rows = readColumn(file, "wheres").size();
  std::vector<bool> whole = wholeRows(file, rows, out);
  out.samples = std::count(whole.begin(), whole.end(), true);
  for (const std::string &name : namesAfter(file, "measures.")) {
    Column values = readColumn(file, "measures." + name);
    if (file.find("counts." + name)) {
      addItems(file, name, values, whole, out);
      continue;
    }
    if (values.size() != rows)
      throw Error(textAt(file.path(), "measures." + name) + " is of " +
                  std::to_string(values.size()) + " samples; there are " +
                  std::to_string(rows));
    out.measures[name] = keep(values, whole);
  }
  return out;
}

MeasuredSamples readSafetensors(const rt::SafetensorsFile &file) {
  bool isIndex = file.find("wheres");
  MeasuredSamples out = isIndex ? readIndex(file) : readBatch(file);
  if (out.measures.empty() && out.kinds.empty())
    throw Error(file.path() + ": no sizes: expected tensors "
                              "offsets.KIND.MEASURE or item_of.KIND (a batch "
                              "file), or an index of tools/finetune");
  out.weights.assign(size_t(std::max<int64_t>(0, out.samples)), 1);
  return out;
}

// --- what the planner reads --------------------------------------------------

MeasuredSamples readDescription(const std::string &path) {
  auto read = planner::readDataFile(rt::readText(path, size_t(1) << 30), path);
  if (!read)
    throw Error(llvm::toString(read.takeError()));
  MeasuredSamples out;
  out.samples = int64_t(read->samples.size());
  out.weights = read->weights;
  auto namesOf = [&](size_t kind) -> std::vector<std::string> {
    if (kind < read->measures.size() && !read->measures[kind].empty())
      return read->measures[kind];
    return {"tokens"};
  };
  using Columns = std::map<std::string, Column>;
  auto add = [](const planner::ItemSize &size,
                const std::vector<std::string> &names, Columns &columns) {
    columns[names[0]].push_back(size.tokens);
    if (names.size() > 1)
      columns[names[1]].push_back(size.other);
  };
  for (size_t k = 0; k < read->kinds.size(); ++k)
    for (const std::string &name : namesOf(k + 1))
      out.kinds[read->kinds[k]].measures[name];
  for (int64_t number = 0; number < out.samples; ++number) {
    const planner::Sample &sample = read->samples[size_t(number)];
    add(sample, namesOf(0), out.measures);
    for (size_t k = 0; k < sample.items.size(); ++k) {
      MeasuredSamples::Kind &kind = out.kinds[read->kinds[k]];
      for (const planner::ItemSize &size : sample.items[k])
        add(size, namesOf(k + 1), kind.measures);
      kind.owner.insert(kind.owner.end(), sample.items[k].size(), number);
      kind.items += int64_t(sample.items[k].size());
    }
  }
  return out;
}

char firstByte(const std::string &path) {
  std::ifstream file(path, std::ios::binary);
  char first = 0;
  file >> first; // behind white space
  return first;
}

template <typename Map> std::string keysOf(const Map &map) {
  std::string keys;
  for (auto &entry : map)
    keys += (keys.empty() ? "" : ", ") + entry.first;
  return keys.empty() ? "none" : keys;
}

template <typename Map>
void checkKeys(const Map &known, const Map &more, const std::string &file,
               const std::string &what) {
  if (keysOf(known) != keysOf(more))
    throw Error(file + ": " + what + " are " + keysOf(more) +
                "; those of the files before are " + keysOf(known));
}

void appendTo(Column &column, const Column &more, int64_t by = 0) {
  for (int64_t value : more)
    column.push_back(value + by);
}

} // namespace

void MeasuredSamples::append(const MeasuredSamples &more,
                             const std::string &file) {
  checkKeys(measures, more.measures, file, "measures of samples");
  if ((samples < 0) != (more.samples < 0))
    throw Error(file + ": expected offsets.sample.MEASURE in all files or in "
                       "none");
  weights.insert(weights.end(), more.weights.begin(), more.weights.end());
  for (auto &[name, column] : measures)
    appendTo(column, more.measures.at(name));
  for (auto &[name, other] : more.kinds)
    kinds.try_emplace(name, other.empty());
  for (auto &[name, kind] : kinds) {
    auto found = more.kinds.find(name); // who says nothing of them has none
    Kind none = kind.empty();
    const Kind &other = found == more.kinds.end() ? none : found->second;
    checkKeys(kind.measures, other.measures, file,
              "measures of '" + name + "'");
    bool owned = kind.isOwned() && other.isOwned();
    for (auto &[measure, column] : kind.measures)
      appendTo(column, other.measures.at(measure));
    if (owned)
      appendTo(kind.owner, other.owner, samples);
    else
      kind.owner.clear();
    kind.items += other.items;
  }
  for (auto &[reason, count] : more.broken)
    broken[reason] += count;
  samples += std::max<int64_t>(0, more.samples);
}

MeasuredSamples::Kind MeasuredSamples::Kind::empty() const {
  Kind none;
  for (auto &entry : measures)
    none.measures[entry.first];
  return none;
}

bool tools::isMeasured(const std::string &path) {
  return rt::isPipe(path) || rt::isSafetensors(path) || firstByte(path) == '{';
}

MeasuredSamples tools::readMeasured(const std::vector<std::string> &paths) {
  MeasuredSamples all;
  bool isFirst = true;
  auto add = [&](MeasuredSamples one, const std::string &file) {
    if (isFirst)
      all = std::move(one);
    else
      all.append(one, file);
    isFirst = false;
  };
  for (const std::string &path : paths) {
    if (rt::isPipe(path)) {
      rt::BatchPipe pipe(path);
      std::string content;
      for (int64_t step = 0; pipe.next(content); ++step) {
        std::string name = path + ", batch " + std::to_string(step);
        add(readSafetensors(rt::SafetensorsFile(name, std::move(content))),
            name);
      }
      if (isFirst)
        throw Error(path + ": ended before the first batch");
    } else if (rt::isSafetensors(path)) {
      add(readSafetensors(rt::SafetensorsFile(path)), path);
    } else {
      add(readDescription(path), path);
    }
  }
  return all;
}

// --- charts ------------------------------------------------------------------

namespace {

class Charts {
public:
  Charts(const MeasuredSamples &from, size_t files) : from(from) {
    double whole = 0, broken = 0;
    for (double weight : from.weights)
      whole += weight;
    for (auto &reason : from.broken)
      broken += reason.second;
    auto text = [](double count) { return toJson({{0, count}})[0][1].dump(); };
    report.head = std::to_string(files) + (files == 1 ? " file" : " files");
    report.head += from.samples < 0 ? "" : ", " + text(whole) + " samples";
    report.head += from.broken.empty() ? "" : ", " + text(broken) + " broken";
    report.broken = from.broken;
    report.json = {{"files", files},
                   {"reasons", from.broken},
                   {"items", nlohmann::json::object()},
                   {"measures", nlohmann::json::object()}};
    if (from.samples >= 0)
      report.json["samples"] = toJson({{0, whole}})[0][1];
  }

  Report make() {
    for (auto &[name, column] : from.measures) {
      Histogram values = perSample(column);
      report.json["measures"][std::string(kSample) + "." + name]["sample"] =
          toJson(values);
      add(std::string(kSample) + "." + name, "samples", std::move(values));
    }
    for (auto &[name, kind] : from.kinds)
      addKind(name, kind);
    return std::move(report);
  }

private:
  Histogram perSample(const Column &column) const {
    Histogram values;
    for (size_t i = 0; i < column.size(); ++i)
      values[column[i]] += from.weights[i];
    return values;
  }
  void add(std::string title, const char *counted, Histogram values) {
    report.charts.push_back({std::move(title), counted, std::move(values)});
  }

  void addKind(const std::string &name, const MeasuredSamples::Kind &kind) {
    bool owned = from.samples >= 0 && kind.isOwned();
    if (owned) {
      Histogram values = perSample(sumUp(kind, nullptr));
      report.json["items"][name] = toJson(values);
      add(name + ": items of a sample", "samples", std::move(values));
    }
    for (auto &[measure, column] : kind.measures) {
      std::string quantity = name + "." + measure;
      nlohmann::json &json = report.json["measures"][quantity];
      Histogram values;
      for (size_t i = 0; i < column.size(); ++i)
        values[column[i]] += owned ? from.weights[size_t(kind.owner[i])] : 1;
      json["item"] = toJson(values);
      add(quantity + " of an item", "items", std::move(values));
      if (!owned)
        continue;
      Histogram sums = perSample(sumUp(kind, &column));
      json["sample"] = toJson(sums);
      add(quantity + " of all items of a sample", "samples", std::move(sums));
    }
  }

  /// Of each sample: what its items have together, or how many there are.
  Column sumUp(const MeasuredSamples::Kind &kind, const Column *column) const {
    Column sums(size_t(from.samples), 0);
    for (size_t i = 0; i < kind.owner.size(); ++i)
      sums[size_t(kind.owner[i])] += column ? (*column)[i] : 1;
    return sums;
  }

  const MeasuredSamples &from;
  Report report;
};

} // namespace

Report tools::reportOf(const MeasuredSamples &samples, size_t files) {
  return Charts(samples, files).make();
}
