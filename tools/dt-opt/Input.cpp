//===- Input.cpp - ONNX models and recipes as MLIR buffers ------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Input.h"
#include "tools/common/CommandLine.h"
#include "tools/dt-opt/Bytecode.h"
#include "tools/dt-opt/Nesting.h"

#include "models/frontend/import/Import.h"
#include "models/frontend/json/RegularFile.h"
#include "models/frontend/recipe/Program.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Support/FileUtilities.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;

namespace {

llvm::cl::OptionCategory
    importOptions("DistTrain import",
                  "For a single .onnx. A recipe (.json) says all this itself.");
llvm::cl::opt<std::string>
    dimsOption("dims", llvm::cl::cat(importOptions),
               llvm::cl::value_desc("batch=sample,seq=40"),
               llvm::cl::desc("Bind symbolic dims: to a number, or to the item "
                              "kind that they count"));
llvm::cl::list<std::string> lossOption(
    "loss", llvm::cl::cat(importOptions),
    llvm::cl::value_desc("kind:output[:target]"),
    llvm::cl::desc("Train on this loss, e.g. cross_entropy:logits, mse:output, "
                   "graph_output:loss, clip_contrastive:logits"));
const std::string optimizerHelp =
    "Optimizer and its settings, named as in a recipe: " +
    dt::models::listOptimizers();
llvm::cl::opt<std::string>
    optimizerOption("optimizer", llvm::cl::cat(importOptions),
                    llvm::cl::init("adamw"),
                    llvm::cl::value_desc("adamw:lr=1e-3,weight_decay=0.1"),
                    llvm::cl::desc(optimizerHelp));
llvm::cl::list<std::string>
    initOption("init", llvm::cl::cat(importOptions),
               llvm::cl::value_desc("[pattern:]rule"),
               llvm::cl::desc("How parameters start whose values the file does "
                              "not have, e.g. 'normal(0, 0.02)'"));
llvm::cl::list<std::string> trainableOption(
    "trainable", llvm::cl::cat(importOptions), llvm::cl::value_desc("pattern"),
    llvm::cl::desc("Only initializers of these names train (default: what the "
                   "file marks, or all that look like weights)"));
dt::NumberOption batchOption("batch", llvm::cl::cat(importOptions),
                             llvm::cl::init(1),
                             llvm::cl::desc("Samples of a step"));
dt::NumberOption microOption(
    "micro", llvm::cl::cat(importOptions), llvm::cl::init(0),
    llvm::cl::desc(
        "Samples of a microbatch (default: as the plan says, else all)"));
llvm::cl::opt<std::string> splitOption(
    "split", llvm::cl::cat(importOptions), llvm::cl::value_desc("auto"),
    llvm::cl::desc("auto: find the modules (encoder, towers, ...) that the "
                   "graph holds and cut it there"));
llvm::cl::opt<std::string> precisionOption(
    "precision", llvm::cl::cat(importOptions), llvm::cl::init("f32"),
    llvm::cl::value_desc("f32|bf16|tf32"),
    llvm::cl::desc("bf16: multiply in bfloat16; sums, norms, losses and the "
                   "optimizer stay float32. tf32: as f32, but a GPU may "
                   "round what products multiply to TF32"));
llvm::cl::opt<std::string> residualOption(
    "residual", llvm::cl::cat(importOptions), llvm::cl::init("f32"),
    llvm::cl::value_desc("f32|bf16"),
    llvm::cl::desc("bf16: beside --precision=bf16, what layers hand on is "
                   "stored in bfloat16 too"));
llvm::cl::opt<std::string> gradientsOption(
    "gradients", llvm::cl::cat(importOptions), llvm::cl::init("f32"),
    llvm::cl::value_desc("f32|bf16"),
    llvm::cl::desc("bf16: beside --precision=bf16, gradients of what products "
                   "read in bfloat16 are stored so too"));
dt::NumberOption seedOption("seed", llvm::cl::cat(importOptions),
                            llvm::cl::init(0),
                            llvm::cl::desc("Key of all random draws"));

llvm::Expected<dt::models::Recipe> recipeOfOptions(StringRef path) {
  dt::models::Recipe recipe;
  recipe.path = "command line";
  StringRef parent = llvm::sys::path::parent_path(path);
  recipe.directory = parent.empty() ? "." : parent.str();
  dt::models::ModuleEntry module;
  for (char c : llvm::sys::path::stem(path))
    module.name += llvm::isAlnum(c) ? c : '_';
  if (module.name.empty() || llvm::isDigit(module.name[0]))
    module.name = "model";
  module.onnx = llvm::sys::path::filename(path).str();
  auto dims = dt::models::parseDimsOption(dimsOption);
  if (!dims)
    return dims.takeError();
  module.dims = *dims;
  for (const std::string &text : lossOption) {
    auto loss = dt::models::parseLossOption(text, module.name);
    if (!loss)
      return loss.takeError();
    if (lossOption.size() > 1)
      loss->name += std::to_string(recipe.losses.size());
    recipe.losses.push_back(*loss);
  }
  for (const std::string &text : initOption) {
    auto init = dt::models::parseInitOption(text);
    if (!init)
      return init.takeError();
    module.init.push_back(*init);
  }
  if (trainableOption.getNumOccurrences()) {
    auto patterns = dt::models::parseTrainableOption(trainableOption);
    if (!patterns)
      return patterns.takeError();
    module.trainable = *patterns;
  }
  if (!splitOption.empty() && splitOption != "auto")
    return llvm::createStringError("--split: expected auto, not '" +
                                   splitOption + "'");
  module.split = !splitOption.empty();
  auto precision = dt::models::parsePrecisionOption(precisionOption);
  if (!precision)
    return precision.takeError();
  module.precision = *precision;
  for (auto [option, narrow] :
       {std::pair(&residualOption, &module.narrowResidual),
        std::pair(&gradientsOption, &module.narrowGradients)}) {
    auto stored =
        dt::models::parseStoredOption(option->ArgStr, *option, module);
    if (!stored)
      return stored.takeError();
    *narrow = *stored;
  }
  recipe.modules.push_back(module);
  auto optimizer = dt::models::parseOptimizerOption(optimizerOption);
  if (!optimizer)
    return optimizer.takeError();
  recipe.optimizer = *optimizer;
  recipe.globalBatch = batchOption;
  recipe.microBatch = microOption ? int64_t(microOption) : int64_t(batchOption);
  recipe.openMicro = !microOption && batchOption > 1;
  if (recipe.microBatch < 1 || recipe.globalBatch < recipe.microBatch)
    return llvm::createStringError("--micro: expected 1 <= micro <= batch");
  recipe.seed = seedOption;
  return recipe;
}

/// What a recipe says itself would be ignored beside it.
llvm::Error checkBesideRecipe() {
  const llvm::cl::Option &loss = lossOption, &init = initOption,
                         &trainable = trainableOption;
  for (const llvm::cl::Option *option :
       std::initializer_list<const llvm::cl::Option *>{
           &dimsOption, &loss, &optimizerOption, &init, &trainable,
           &batchOption, &microOption, &splitOption, &precisionOption,
           &residualOption, &gradientsOption, &seedOption})
    if (option->getNumOccurrences())
      return llvm::createStringError("--" + option->ArgStr +
                                     " goes with a single .onnx; a recipe says "
                                     "this itself (docs/recipe.md)");
  return llvm::Error::success();
}

enum class InputKind { Mlir, Onnx, Recipe, Unknown };

/// By its first bytes. An ONNX model begins with the number of its format (a
/// field that all writers put first, of two bytes), a recipe with a brace,
/// which no MLIR file does but before a '-'; text and bytecode are for MLIR's
/// parser.
InputKind inputKindOf(StringRef head) {
  constexpr char formatTag = 0x08;
  if (head.starts_with("ML\xefR"))
    return InputKind::Mlir;
  if (head.size() > 2 && head[0] == formatTag && head[1] > 0)
    return InputKind::Onnx;
  StringRef text = head.ltrim();
  if (text.starts_with("{") && !text.starts_with("{-"))
    return InputKind::Recipe;
  bool binary = llvm::any_of(
      head, [](char c) { return c >= 0 && c < ' ' && !llvm::isSpace(c); });
  return binary ? InputKind::Unknown : InputKind::Mlir;
}

InputKind inputKind(StringRef path) {
  constexpr uint64_t headBytes = 512;
  if (path.ends_with_insensitive(".json"))
    return InputKind::Recipe;
  if (path.ends_with_insensitive(".onnx") || path.ends_with_insensitive(".pb"))
    return InputKind::Onnx;
  // Others (streams, pipes) would lose what is read here.
  uint64_t size;
  if (path == "-" || !llvm::sys::fs::is_regular_file(path) ||
      llvm::sys::fs::file_size(path, size))
    return InputKind::Mlir;
  auto head =
      llvm::MemoryBuffer::getFileSlice(path, std::min(size, headBytes), 0);
  return head ? inputKindOf((*head)->getBuffer()) : InputKind::Mlir;
}

llvm::Expected<OwningOpRef<mlir::ModuleOp>> importFile(MLIRContext &context,
                                                       StringRef path) {
  if (inputKind(path) == InputKind::Recipe) {
    if (llvm::Error error = checkBesideRecipe())
      return std::move(error);
    auto recipe = dt::models::readRecipe(path);
    if (!recipe)
      return recipe.takeError();
    return dt::models::buildProgram(context, *recipe);
  }
  auto recipe = recipeOfOptions(path);
  if (!recipe)
    return recipe.takeError();
  if (!recipe->losses.empty())
    return dt::models::buildProgram(context, *recipe);
  if (recipe->modules[0].split)
    return llvm::createStringError(
        "--split: expected --loss beside it: modules "
        "are those of a model that trains");
  // Just a look at the graph.
  dt::models::ImportOptions options;
  options.moduleName = recipe->modules[0].name;
  options.recordedPath = recipe->modules[0].onnx;
  for (auto &[name, value] : recipe->modules[0].dims)
    if (auto *number = std::get_if<int64_t>(&value))
      options.dims[name] = *number;
  options.trainable = recipe->modules[0].trainable;
  auto program = dt::models::importOnnx(context, path, options);
  if (program)
    dt::models::setPrecision(dt::dist::getOnly<dt::dist::ModuleOp>(*program),
                             recipe->modules[0]);
  return program;
}

} // namespace

llvm::cl::OptionCategory &dt::getImportOptions() { return importOptions; }

bool dt::isImported(StringRef path) {
  InputKind kind = inputKind(path);
  return kind == InputKind::Onnx || kind == InputKind::Recipe;
}

llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>>
dt::readInput(StringRef path, const DialectRegistry &registry,
              Diagnostics &diagnostics) {
  if (path != "-")
    if (llvm::Error wrong = models::expectRegular(path))
      return llvm::createStringError("cannot open input file '" + path +
                                     "': " + toString(std::move(wrong)));
  std::string message;
  auto file = openInputFile(path, &message);
  if (!file)
    return llvm::createStringError(message);
  if (inputKind(path) == InputKind::Unknown)
    return llvm::createStringError(
        path + ": expected an ONNX model, a recipe (JSON) or MLIR (text or "
               "bytecode), and it begins like none of them");
  if (!isImported(path)) {
    if (llvm::Error deep = checkNesting(file->getBuffer(), path))
      return std::move(deep);
    if (llvm::Error damaged = checkBytecode(file->getBuffer(), path, registry))
      return std::move(damaged);
    return file;
  }
  MLIRContext context(registry);
  context.loadAllAvailableDialects(); // plugins bring operators
  diagnostics.attach(context, /*named=*/true);
  auto program = importFile(context, path);
  if (!program)
    return program.takeError();
  if (!*program)
    return llvm::createStringError("");
  std::string bytes;
  llvm::raw_string_ostream os(bytes);
  if (failed(writeBytecodeToFile(**program, os)))
    return llvm::createStringError(path + ": cannot be written as bytecode");
  return llvm::MemoryBuffer::getMemBufferCopy(bytes, path);
}
