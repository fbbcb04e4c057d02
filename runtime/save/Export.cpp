//===- Export.cpp - trained weights back into ONNX files --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Field numbers are in OnnxFields.h.
//
//===----------------------------------------------------------------------===//

#include "runtime/save/Export.h"
#include "runtime/base/Files.h"
#include "runtime/base/Protobuf.h"
#include "runtime/base/Safetensors.h"
#include "runtime/data/Convert.h"
#include "runtime/save/OnnxFields.h"
#include "runtime/save/Outputs.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <unistd.h>

namespace dt::rt {

namespace {

namespace fs = std::filesystem;

constexpr size_t kInlineLimit =
    1500u * 1000 * 1000; // protobuf messages end at 2 GB
/// TensorProto's numbers of floats.
constexpr std::pair<int64_t, DType> kFloatTypes[] = {
    {1, DType::F32}, {10, DType::F16}, {11, DType::F64}, {16, DType::BF16}};

using namespace protobuf;

/// What the output is made of, in order: bytes of the source, own bytes, or a
/// parameter's value.
struct Piece {
  std::string_view source;
  std::string own;
  const ParameterInfo *parameter = nullptr;
  size_t size = 0;
  DType type = DType::F32; ///< of a parameter's value, in the file
};
using Pieces = std::vector<Piece>;

void append(Pieces &pieces, std::string_view source) {
  pieces.push_back({source, {}, nullptr, source.size()});
}
void append(Pieces &pieces, std::string own) {
  size_t size = own.size();
  pieces.push_back({{}, std::move(own), nullptr, size});
}
size_t bytesOf(const Pieces &pieces) {
  size_t size = 0;
  for (const Piece &piece : pieces)
    size += piece.size;
  return size;
}

int64_t numberOf(DType type) {
  for (auto &[number, known] : kFloatTypes)
    if (known == type)
      return number;
  return 0;
}

/// The node that widens a narrow initializer to what the graph reads.
std::string castNode(const std::string &from, const std::string &to,
                     DType type) {
  constexpr uint64_t kInt = 2; // AttributeProto.AttributeType
  std::string attribute = lengthField(1, "to") +
                          varintField(3, uint64_t(numberOf(type))) +
                          varintField(20, kInt);
  return lengthField(1, lengthField(1, from) + lengthField(2, to) +
                            lengthField(3, from) + lengthField(4, "Cast") +
                            lengthField(5, attribute));
}

bool holdsValue(uint32_t number) {
  return (number >= 4 && number <= 7) || (number >= 9 && number <= 11) ||
         number == 13 || number == 14;
}

/// One ONNX file on its way to the folder `root`.
class FileExport {
public:
  FileExport(const Trainer &trainer, const WholeParameters *values,
             const fs::path &source, const std::string &root,
             const std::string &name, DType floats)
      : trainer(trainer), values(values), source(source.string()),
        sourceDirectory(source.parent_path()), root(root), name(name),
        target(fs::path(root) / name), floats(floats) {
    content = readText(this->source, SIZE_MAX);
  }

  void add(const std::string &initializer, const ParameterInfo *parameter) {
    replace[initializer] = parameter;
  }

  /// Throws Error if the file cannot be exported; writes nothing.
  void check() {
    model();
    for (auto &[name, parameter] : replace)
      if (!seen.count(name))
        throw Error(source + ": initializer '" + name + "' is not in the file");
    for (const std::string &location : locations) {
      externalPath(location);
      std::error_code error;
      if (!fs::is_regular_file(sourceDirectory / location, error))
        throw Error(source + ": external data '" + location +
                    "': no such file");
    }
    if (fs::is_directory(target))
      throw Error(target.string() + ": is a folder, expected a file");
  }

  /// Everything under temporary names, to be put in place together.
  void write(std::vector<Replacement> &out) {
    size_t bytes = 0;
    for (const Piece &piece : model())
      bytes += piece.parameter ? piece.size : 0;
    external = bytes > kInlineLimit;
    Pieces pieces = model();
    for (auto &[name, parameter] : replace)
      if (!seen.count(name))
        throw Error(source + ": initializer '" + name + "' is not in the file");
    makeFoldersIn(root, fs::path(name).parent_path().string());
    if (external)
      writePieces(outside, out.emplace_back(target.string() + ".data"));
    copyExternal(out);
    writePieces(pieces, out.emplace_back(target.string()));
  }

private:
  Pieces model() {
    Pieces pieces;
    Field field;
    for (FieldReader reader(content, source); reader.next(field);) {
      if (field.number == 25 && field.wire == Bytes)
        findLocations(OnnxMessage::Function, field.body, source, locations);
      if (field.number != 7 || field.wire != Bytes) {
        append(pieces, field.whole);
        continue;
      }
      nest(pieces, 7, graph(field.body));
    }
    return pieces;
  }

  Pieces graph(std::string_view message) {
    Pieces pieces;
    Field field;
    casts.clear();
    for (FieldReader reader(message, source); reader.next(field);) {
      const ParameterInfo *parameter = nullptr;
      TensorFacts facts;
      if (field.number == 1 && field.wire == Bytes)
        findLocations(OnnxMessage::Node, field.body, source, locations);
      if (field.number == 5 && field.wire == Bytes) {
        facts = readTensor(field.body, source);
        auto found = replace.find(facts.name);
        parameter = found == replace.end() ? nullptr : found->second;
        if (!parameter && !facts.location.empty())
          locations.insert(facts.location);
      }
      if (parameter)
        nest(pieces, 5, tensor(field.body, facts, *parameter));
      else
        append(pieces, field.whole);
    }
    if (casts.empty())
      return pieces;
    Pieces all; // nodes stand in front of those that read them
    append(all, casts);
    std::move(pieces.begin(), pieces.end(), std::back_inserter(all));
    return all;
  }

  Pieces tensor(std::string_view message, const TensorFacts &facts,
                const ParameterInfo &parameter) {
    seen.insert(facts.name);
    auto type =
        std::find_if(std::begin(kFloatTypes), std::end(kFloatTypes),
                     [&](auto &known) { return known.first == facts.type; });
    if (type == std::end(kFloatTypes) || !isFloat(typeOf(parameter)) ||
        elementCount(facts.dims) != trainer.elements(parameter))
      throw Error(source + ": initializer '" + facts.name + "' has no floats " +
                  shapeText(wholeShape(parameter)) +
                  " as when the program was made");
    DType stored = type->second == DType::F32 ? floats : type->second;
    bool narrow = stored != type->second;
    Pieces pieces;
    Field field;
    for (FieldReader reader(message, source); reader.next(field);)
      if (!holdsValue(field.number) &&
          !(narrow && (field.number == 2 || field.number == 8)))
        append(pieces, field.whole);
    if (narrow) {
      std::string name = facts.name + ".bf16";
      append(pieces,
             varintField(2, uint64_t(numberOf(stored))) + lengthField(8, name));
      casts += castNode(name, facts.name, type->second);
    }
    size_t bytes = size_t(trainer.elements(parameter)) * sizeOf(stored);
    Piece value{{}, {}, &parameter, bytes, stored};
    if (!external) {
      append(pieces, header(9, Bytes) + varintBytes(bytes));
      pieces.push_back(value);
      return pieces;
    }
    auto entry = [&](const char *key, const std::string &text) {
      append(pieces,
             lengthField(13, lengthField(1, key) + lengthField(2, text)));
    };
    entry("location", target.filename().string() + ".data");
    entry("offset", std::to_string(bytesOf(outside)));
    entry("length", std::to_string(bytes));
    append(pieces, varintField(14, 1)); // EXTERNAL
    outside.push_back(value);
    return pieces;
  }

  static void nest(Pieces &pieces, uint32_t number, Pieces inner) {
    append(pieces, header(number, Bytes) + varintBytes(bytesOf(inner)));
    std::move(inner.begin(), inner.end(), std::back_inserter(pieces));
  }

  DType typeOf(const ParameterInfo &parameter) const {
    return trainer.values().type(
        size_t(&parameter - trainer.program().parameters.begin()));
  }

  /// In the file's type. Throws Error if an element is too large for that.
  std::vector<std::byte> valueOf(const Piece &piece) const {
    DType type = typeOf(*piece.parameter);
    std::vector<std::byte> own = values->get(*piece.parameter),
                           value = convert(own, type, piece.type, source);
    if (type == piece.type)
      return value;
    for (size_t i = 0; i * sizeOf(type) < own.size(); ++i) {
      double was = loadFloat(type, own.data() + i * sizeOf(type));
      if (std::isfinite(was) &&
          !std::isfinite(
              loadFloat(piece.type, value.data() + i * sizeOf(piece.type))))
        throw Error(source + ": parameter '" + piece.parameter->tensor.name +
                    "' is " + textOf(piece.type) + " there, too small for " +
                    std::to_string(was));
    }
    return value;
  }

  void writePieces(const Pieces &pieces, const Replacement &to) const {
    FileWriter file(to.temporary());
    for (const Piece &piece : pieces) {
      if (piece.parameter) {
        std::vector<std::byte> value = valueOf(piece);
        file.write(value.data(), value.size());
      } else if (piece.own.empty()) {
        file.write(piece.source.data(), piece.source.size());
      } else {
        file.write(piece.own.data(), piece.own.size());
      }
    }
    file.close(true);
  }

  fs::path externalPath(const std::string &location) const {
    fs::path path(location);
    if (path.is_absolute() ||
        std::find(path.begin(), path.end(), "..") != path.end())
      throw Error(source + ": external data '" + location +
                  "' lies outside of the model's folder");
    return path;
  }

  /// Other initializers may still point to files beside the source.
  void copyExternal(std::vector<Replacement> &out) const {
    for (const std::string &location : locations) {
      fs::path path = externalPath(location), to = target.parent_path() / path;
      makeFoldersIn(
          root, (fs::path(name).parent_path() / path.parent_path()).string());
      out.emplace_back(to.string());
      std::error_code error;
      fs::copy_file(sourceDirectory / path, out.back().temporary(),
                    fs::copy_options::overwrite_existing, error);
      if (error)
        throw Error(source + ": external data '" + location +
                    "': " + error.message());
      syncPath(out.back().temporary());
    }
  }

  const Trainer &trainer;
  const WholeParameters *values; ///< null: only checked
  std::string source;
  fs::path sourceDirectory;
  std::string root, name; ///< the folder of all, and the file's place below it
  fs::path target;
  std::string content;
  std::map<std::string, const ParameterInfo *> replace;
  std::set<std::string> seen, locations;
  Pieces outside;
  std::string casts; ///< of the graph that is walked
  DType floats;
  bool external = false;
};

using FileExports = std::map<std::string, std::unique_ptr<FileExport>>;

FileExports filesOf(const Trainer &trainer, const WholeParameters *values,
                    const std::string &onnxDirectory, const std::string &target,
                    DType floats) {
  const ProgramInfo &program = trainer.program();
  FileExports files;
  for (size_t i = 0; i < program.parameters.size; ++i) {
    // A copy's references are those of a tensor that files know.
    const ParameterInfo &original =
        program.parameters[trainer.ownership().original(i)];
    for (const OnnxRef &ref : program.parameters[i].onnx) {
      std::unique_ptr<FileExport> &file = files[ref.file];
      if (!file)
        file = std::make_unique<FileExport>(trainer, values,
                                            fs::path(onnxDirectory) / ref.file,
                                            target, ref.file, floats);
      file->add(ref.initializer, &original);
    }
  }
  return files;
}

/// In a file of their own, as the program has them: no graph knows them.
void writeAdapters(const Trainer &trainer, const WholeParameters &values,
                   const std::string &target, std::vector<Replacement> &out) {
  SafetensorsWriter writer;
  bool any = false;
  const Span<ParameterInfo> &parameters = trainer.program().parameters;
  for (size_t i = 0; i < parameters.size; ++i) {
    const ParameterInfo &p = parameters[i];
    if (trainer.ownership().original(i) != i || !isAdapter(p))
      continue;
    any = true;
    writer.add(p.tensor.name, trainer.values().type(i), wholeShape(p),
               values.get(p));
  }
  if (any)
    writer.write(out.emplace_back(target + "/" + kAdaptersFile).temporary());
}

/// Puts all files in place, or, if one cannot be, the earlier ones back.
void commitAll(std::vector<Replacement> &files) {
  struct Change {
    std::string path, before; ///< before: empty if it could not be kept
    bool fresh;
  };
  std::vector<Change> done;
  try {
    for (Replacement &file : files) {
      std::string before = file.path() + ".old.tmp";
      ::unlink(before.c_str());
      if (::link(file.path().c_str(), before.c_str()) != 0)
        before.clear();
      done.push_back(
          {file.path(), before, ::access(file.path().c_str(), F_OK) != 0});
      file.commit();
    }
  } catch (...) {
    for (const Change &change : done)
      if (change.fresh)
        ::unlink(change.path.c_str());
      else if (!change.before.empty()) {
        std::rename(change.before.c_str(), change.path.c_str());
        // Renaming to another name of the same file does nothing.
        ::unlink(change.before.c_str());
      }
    throw;
  }
  for (const Change &change : done)
    if (!change.before.empty())
      ::unlink(change.before.c_str());
}

void expectOther(const std::string &onnxDirectory, const std::string &target) {
  std::error_code error;
  if (fs::equivalent(onnxDirectory, target, error))
    throw Error(
        target +
        ": this is the program's own folder, choose another for --export");
}

} // namespace

void checkExport(const Trainer &trainer, const std::string &onnxDirectory,
                 const std::string &target, DType floats) {
  onFirstRank(trainer.comm(), {}, [&] { expectFolder("--export", target); });
  expectShared(trainer.comm(), "--export", target);
  onFirstRank(trainer.comm(), {}, [&] {
    expectOther(onnxDirectory, target);
    for (auto &[name, file] :
         filesOf(trainer, nullptr, onnxDirectory, target, floats))
      file->check();
  });
}

void exportOnnx(const Trainer &trainer, const std::string &onnxDirectory,
                const std::string &target, DType floats, bool averages) {
  checkExport(trainer, onnxDirectory, target, floats);
  WholeParameters values(trainer, target + "/weights", averages);
  onFirstRank(trainer.comm(), {}, [&] {
    std::vector<Replacement> files;
    for (auto &[name, file] :
         filesOf(trainer, &values, onnxDirectory, target, floats))
      file->write(files);
    writeAdapters(trainer, values, target, files);
    commitAll(files);
    syncPath(target);
  });
}

} // namespace dt::rt
