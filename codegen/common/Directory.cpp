//===- Directory.cpp - writes the emitted directory -----------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "codegen/common/Directory.h"
#include "codegen/common/FreshDirectory.h"
#include "codegen/common/Names.h"
#include "codegen/common/ProgramTable.h"
#include "models/frontend/onnx/Model.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/Process.h"

using namespace mlir;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

namespace dt::codegen {

namespace {

llvm::Error error(const llvm::Twine &what, std::error_code code) {
  return llvm::createStringError(code, what + ": " + code.message());
}

std::string inFolder(StringRef a, const llvm::Twine &b) {
  llvm::SmallString<256> result(a);
  path::append(result, b);
  return std::string(result);
}

llvm::Error writeText(StringRef file, StringRef text) {
  return writeFile(file, [&](llvm::raw_ostream &os) {
    os << text;
    return llvm::Error::success();
  });
}

llvm::Error copyFile(StringRef from, StringRef to) {
  if (std::error_code code = fs::create_directories(path::parent_path(to)))
    return error(path::parent_path(to), code);
  if (std::error_code code = fs::copy_file(from, to))
    return error(to + " (a copy of " + from + ")", code);
  return llvm::Error::success();
}

/// The first folder that holds runtime sources: given, installed beside this
/// program, or this build's.
llvm::Expected<std::string> findRuntime(StringRef given) {
  SmallVector<std::string> places;
  if (!given.empty()) {
    places.push_back(given.str());
  } else {
    static int anchor;
    std::string program = fs::getMainExecutable(nullptr, &anchor);
    places.push_back(inFolder(path::parent_path(path::parent_path(program)),
                              "share/distrain"));
    places.push_back(DT_SOURCE_DIRECTORY);
  }
  for (const std::string &place : places)
    for (const std::string &folder : {place, inFolder(place, "runtime")})
      if (fs::exists(inFolder(folder, "Program.h")))
        return folder;
  return llvm::createStringError("no runtime sources in '" +
                                 llvm::join(places, "' or '") +
                                 "'; say where with --runtime-dir");
}

llvm::Error copyTree(StringRef from, StringRef to,
                     llvm::function_ref<bool(StringRef)> wanted) {
  std::error_code code;
  for (fs::recursive_directory_iterator it(from, code), end; it != end && !code;
       it.increment(code)) {
    StringRef file = it->path();
    StringRef relative = file.drop_front(from.size()).ltrim('/');
    if (it->type() == fs::file_type::directory_file || !wanted(relative))
      continue;
    if (llvm::Error failure = copyFile(file, inFolder(to, relative)))
      return failure;
  }
  return code ? error(from, code) : llvm::Error::success();
}

/// Whether a file of runtime/ is the compiler's.
bool isOfCompiler(StringRef file) {
  return file.starts_with("device/") && file.contains("/codegen/");
}

/// Whether it is in another target's folder.
bool isOfOtherTarget(StringRef file, StringRef target) {
  return file.consume_front("device/") &&
         llvm::any_of(getTargets(), [&](const TargetEntry &other) {
           return other.name != target &&
                  file.starts_with((other.name + "/").str());
         });
}

llvm::Error copyRuntime(StringRef folder, const Target &target,
                        const EmitOptions &options) {
  auto runtime = findRuntime(options.runtimeDirectory);
  if (!runtime)
    return runtime.takeError();
  auto wanted = [&](StringRef file) {
    // What is the program's own has been written.
    if (fs::exists(inFolder(folder, "runtime/" + file)))
      return false;
    StringRef extension = path::extension(file);
    bool source = extension == ".h" || extension == ".def" ||
                  extension == ".cpp" || extension == ".cu" ||
                  extension == ".cmake" ||
                  path::filename(file) == "CMakeLists.txt";
    return source && !isOfCompiler(file) &&
           !path::stem(file).ends_with("Test") &&
           (!isOfOtherTarget(file, options.target) || target.wantsFileOf(file));
  };
  if (llvm::Error failure =
          copyTree(*runtime, inFolder(folder, "runtime"), wanted))
    return failure;
  // Machines with a GPU tend to have little else.
  if (target.extension() == "cu" &&
      fs::exists(StringRef(DT_JSON_DIRECTORY "/nlohmann/json.hpp")))
    return copyTree(DT_JSON_DIRECTORY "/nlohmann",
                    inFolder(folder, "third_party/nlohmann"),
                    [](StringRef) { return true; });
  return llvm::Error::success();
}

/// ONNX files of parameters, with the initializers that these are.
llvm::MapVector<StringRef, llvm::StringSet<>>
collectModels(rt::ProgramOp program) {
  llvm::MapVector<StringRef, llvm::StringSet<>> models;
  program.walk([&](rt::ParameterDeclOp decl) {
    for (Attribute attribute : decl.getOnnx())
      if (auto onnx = dyn_cast<nn::OnnxAttr>(attribute))
        models[onnx.getFile()].insert(onnx.getInitializer());
      else if (auto init = dyn_cast<nn::InitAttr>(attribute))
        models[init.getFile()].insert(init.getInitializer());
  });
  return models;
}

/// The graph, and a file beside it with its external data. Those of parameters
/// are left out: an export writes their values.
llvm::Error copyModel(StringRef from, StringRef to,
                      const llvm::StringSet<> &parameters) {
  std::string constants = to.str() + ".constants";
  auto moved = onnx::moveExternal(from, parameters, path::filename(constants));
  if (!moved)
    return moved.takeError();
  if (moved->tensors.empty())
    return copyFile(from, to);
  if (llvm::Error failure = writeText(to, moved->file))
    return failure;
  return writeFile(constants, [&](llvm::raw_ostream &os) -> llvm::Error {
    for (const onnx::Tensor &tensor : moved->tensors) {
      auto bytes = tensor.readStored();
      if (!bytes)
        return bytes.takeError();
      os << *bytes;
    }
    return llvm::Error::success();
  });
}

llvm::Error copyModels(rt::ProgramOp program, StringRef folder,
                       const EmitOptions &options) {
  for (auto &[file, parameters] : collectModels(program)) {
    std::string from = path::is_absolute(file)
                           ? file.str()
                           : inFolder(options.modelDirectory, file);
    if (file.empty() || !fs::exists(from))
      continue;
    if (llvm::Error failure = copyModel(
            from, inFolder(inFolder(folder, "onnx"), onnxFileName(file)),
            parameters))
      return failure;
  }
  return llvm::Error::success();
}

std::string readme(rt::ProgramOp program, ArrayRef<GeneratedFile> files) {
  std::string text = "# " + markdownText(program.getSymName()) +
                     "\n\nA training program written by DistTrain.\n\n"
                     "    cmake -S . -B build && cmake --build build -j\n    "
                     "build/train --help\n\n"
                     "| file | what |\n| --- | --- |\n"
                     "| program.cpp | tables: parameters, modules, losses, the "
                     "tasks of a step |\n";
  for (auto module : program.getBody().getOps<rt::ModuleOp>())
    text += "| " + identifier(module.getSymName()) + ".h, " +
            identifier(module.getSymName()) + "* | module " +
            markdownText(module.getSymName()) +
            ": named buffers; functions; kernels |\n";
  return text + "| runtime/ | data, step loop, optimizer, checkpoints, library "
                "calls |\n"
                "| weights.safetensors | initial values that the ONNX files "
                "held, as module.parameter |\n"
                "| data.json | how samples become tensors |\n"
                "| onnx/ | the graphs, for --export |\n";
}

llvm::Error fill(StringRef folder, rt::ProgramOp program, const Target &target,
                 ArrayRef<GeneratedFile> files, const EmitOptions &options) {
  for (const GeneratedFile &file : files)
    if (llvm::Error failure = writeText(inFolder(folder, file.path), file.text))
      return failure;
  if (llvm::Error failure =
          writeText(inFolder(folder, "data.json"), options.data + "\n"))
    return failure;
  if (llvm::Error failure =
          writeText(inFolder(folder, "README.md"), readme(program, files)))
    return failure;
  if (llvm::Error failure = copyRuntime(folder, target, options))
    return failure;
  if (options.writeWeights) {
    if (llvm::Error failure = writeWeights(
            program, inFolder(folder, "weights.safetensors"), options))
      return failure;
    if (llvm::Error failure = copyModels(program, folder, options))
      return failure;
  }
  std::string entries;
  std::error_code code;
  for (fs::directory_iterator it(folder, code), end; it != end && !code;
       it.increment(code))
    entries += path::filename(it->path()).str() + "\n";
  if (code)
    return error(folder, code);
  return writeText(inFolder(folder, kManifest), entries);
}

/// Files that say what they said before keep their time, so that a build after
/// emitting again compiles only what changed.
void keepTimes(StringRef fresh, StringRef directory) {
  std::error_code code;
  for (fs::recursive_directory_iterator it(fresh, code), end;
       it != end && !code; it.increment(code)) {
    std::string before = inFolder(
        directory, StringRef(it->path()).drop_front(fresh.size()).ltrim('/'));
    fs::file_status status;
    if (it->type() != fs::file_type::regular_file || fs::status(before, status))
      continue;
    auto now = llvm::MemoryBuffer::getFile(it->path()),
         old = llvm::MemoryBuffer::getFile(before);
    if (!now || !old || (*now)->getBuffer() != (*old)->getBuffer())
      continue;
    int file;
    if (fs::openFileForWrite(it->path(), file, fs::CD_OpenExisting))
      continue;
    // A time that cannot be set costs a compilation and nothing else.
    (void)fs::setLastAccessAndModificationTime(
        file, status.getLastModificationTime());
    (void)llvm::sys::Process::SafelyCloseFileDescriptor(file);
  }
}

} // namespace

llvm::Error
writeFile(StringRef file,
          llvm::function_ref<llvm::Error(llvm::raw_ostream &)> write) {
  if (std::error_code code = fs::create_directories(path::parent_path(file)))
    return error(path::parent_path(file), code);
  std::error_code code;
  llvm::raw_fd_ostream os(file, code, fs::CD_CreateNew);
  if (code)
    return error(file, code);
  llvm::Error failure = write(os);
  os.close();
  code = os.error();
  os.clear_error(); // else the stream ends the program
  if (failure)
    return failure;
  return code ? error(file, code) : llvm::Error::success();
}

LogicalResult writeDirectory(ModuleOp module, rt::ProgramOp program,
                             const Target &target,
                             ArrayRef<GeneratedFile> files,
                             const EmitOptions &options) {
  auto fail = [&](llvm::Error e) {
    return module.emitError() << llvm::toString(std::move(e));
  };
  FreshDirectory directory;
  llvm::Error failure = directory.open(options.directory);
  for (const std::string &line : directory.notes())
    module.emitWarning() << line;
  if (!failure)
    failure = fill(directory.path(), program, target, files, options);
  if (!failure) {
    keepTimes(directory.path(), directory.place());
    failure = directory.commit();
  }
  return failure ? fail(std::move(failure)) : success();
}

} // namespace dt::codegen
