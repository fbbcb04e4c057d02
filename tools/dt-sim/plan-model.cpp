//===- plan-model.cpp - Descriptions for the planner from parts -----------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Makes a model for `dt-sim --model` of what `dt-opt --emit=plan-model` says:
// one program at several sizes becomes figures of tokens (--at), several
// programs become the modules of one model (--module, --edge).
//
//   plan-model --at=256:a.json --at=1024:b.json --at=4096:c.json -o vit.json
//   plan-model --name=mllm --module=encoder:image:vit.json
//       --module=llm:sample:llama.json --edge=encoder:llm:0:2048 --pace=llm
//
//===----------------------------------------------------------------------===//

#include "passes/plan/Sizes.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace dt::plan;

namespace {

cl::OptionCategory category("plan-model options");
cl::list<std::string>
    at("at", cl::value_desc("tokens:file.json"), cl::cat(category),
       cl::desc("the program with items of so many tokens; three or more"));
cl::list<std::string> modules("module", cl::value_desc("name:item:file.json"),
                              cl::cat(category),
                              cl::desc("a module of the model: the only one "
                                       "of a file, and what it counts"));
cl::list<std::string> edges("edge", cl::value_desc("from:to:item:token"),
                            cl::cat(category),
                            cl::desc("bytes that an item of 'from', and each "
                                     "of its tokens, sends to 'to'"));
cl::opt<std::string> pace("pace", cl::cat(category),
                          cl::desc("the backbone (default: the first module)"));
cl::opt<std::string> precision(
    "precision", cl::cat(category),
    cl::desc("of a program in 32 bits: as if computed in bf16 or f16, with 2 + "
             "4 + 12 bytes a parameter"));
cl::opt<std::string> modelName("name", cl::cat(category),
                               cl::desc("what the model is called"));
cl::opt<std::string> output("o", cl::init("-"), cl::cat(category),
                            cl::value_desc("file.json"),
                            cl::desc("where it goes"));

Error wrong(const Twine &what) {
  return createStringError(inconvertibleErrorCode(), what);
}

Expected<Model> fitAll() {
  std::vector<SizedModel> sizes;
  for (const std::string &entry : at) {
    auto [tokens, file] = StringRef(entry).split(':');
    SizedModel size;
    size.file = file.str();
    if (tokens.getAsDouble(size.tokens) || file.empty())
      return wrong("--at: expected TOKENS:FILE.json, not '" + entry + "'");
    auto model = readModel(file);
    if (!model)
      return model.takeError();
    size.model = std::move(*model);
    sizes.push_back(std::move(size));
  }
  auto model = fitTokens(sizes);
  if (!model)
    return wrong("--at: " + toString(model.takeError()));
  return model;
}

Expected<int> findModule(const Model &model, StringRef option, StringRef name) {
  for (size_t m = 0; m < model.modules.size(); ++m)
    if (model.modules[m].name == name)
      return int(m);
  return wrong(option + ": no --module is named '" + name + "'");
}

Expected<Module> openModule(StringRef entry, const Model &model) {
  auto [name, rest] = entry.split(':');
  auto [item, file] = rest.split(':');
  if (name.empty() || file.empty())
    return wrong("--module: expected NAME:ITEM:FILE.json, not '" + entry + "'");
  auto part = readModel(file);
  if (!part)
    return part.takeError();
  if (part->modules.size() != 1)
    return wrong(file + ": expected one module, not " +
                 Twine(part->modules.size()));
  Module module = std::move(part->modules[0]);
  module.name = name.str();
  int kind = -1;
  for (int i = 0; i <= int(model.items.size()); ++i)
    if (model.getName(ItemKind(i)) == item)
      kind = i;
  if (kind < 0)
    return wrong("--module: '" + item +
                 "' is none of sample, image and target in '" + entry + "'");
  module.item = ItemKind(kind);
  return module;
}

Expected<Model> compose() {
  Model model;
  for (const std::string &entry : modules) {
    auto module = openModule(entry, model);
    if (!module)
      return module.takeError();
    model.modules.push_back(std::move(*module));
  }
  for (const std::string &entry : edges) {
    SmallVector<StringRef> parts;
    StringRef(entry).split(parts, ':');
    ModelEdge edge;
    if (parts.size() != 4 || parts[2].getAsDouble(edge.bytes.item) ||
        parts[3].getAsDouble(edge.bytes.token))
      return wrong("--edge: expected FROM:TO:ITEM:TOKEN, not '" + entry + "'");
    auto from = findModule(model, "--edge", parts[0]);
    if (!from)
      return from.takeError();
    auto to = findModule(model, "--edge", parts[1]);
    if (!to)
      return to.takeError();
    edge.from = *from;
    edge.to = *to;
    model.edges.push_back(edge);
  }
  if (!pace.empty()) {
    auto module = findModule(model, "--pace", pace);
    if (!module)
      return module.takeError();
    model.pace = *module;
  }
  spreadGradients(model);
  if (Error error = model.check())
    return std::move(error);
  return model;
}

Error run() {
  if (at.empty() == modules.empty())
    return wrong("expected either --at or --module");
  if (!at.empty() && (!edges.empty() || !pace.empty()))
    return wrong("--edge and --pace go with --module");
  auto model = at.empty() ? compose() : fitAll();
  if (!model)
    return model.takeError();
  if (!precision.empty()) {
    if (precision != "bf16" && precision != "f16")
      return wrong("--precision: expected bf16 or f16, not '" + precision +
                   "'");
    if (Error error = setMixedPrecision(*model, precision))
      return wrong("--precision: " + toString(std::move(error)));
  }
  condense(*model);
  if (!modelName.empty())
    model->name = modelName;
  std::error_code code;
  raw_fd_ostream out(output, code);
  if (code)
    return wrong(output + ": " + code.message());
  out << printModel(*model) << "\n";
  return Error::success();
}

} // namespace

int main(int argc, char **argv) {
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv,
                              "Makes descriptions of models for planning\n");
  if (Error error = run()) {
    WithColor::error(errs(), "plan-model")
        << toString(std::move(error)) << "\n";
    return 1;
  }
  return 0;
}
