//===- plan-model.cpp - Descriptions of several sizes as one --------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// Makes figures of tokens of what `dt-opt --emit=plan-model` says of one
// program at several sizes:
//
//   plan-model --at=256:a.json --at=1024:b.json --at=4096:c.json -o vit.json
//
//===----------------------------------------------------------------------===//

#include "passes/planner/describe/Sizes.h"
#include "tools/common/Output.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/WithColor.h"
#include "llvm/Support/raw_ostream.h"

using namespace llvm;
using namespace dt::planner;

namespace {

cl::OptionCategory category("plan-model options");
cl::list<std::string>
    at("at", cl::value_desc("tokens:file.json"), cl::cat(category),
       cl::desc("the program with items of so many tokens; three or more"));
cl::opt<double> cutAt("cut-at", cl::value_desc("tokens"), cl::init(0),
                      cl::cat(category),
                      cl::desc("the size for which layers are cut over ranks "
                               "(default: the largest)"));
cl::opt<std::string> precision(
    "precision", cl::cat(category),
    cl::desc("of a program in 32 bits: as if computed in bf16 or f16, with 2 + "
             "4 + 12 bytes a parameter"));
cl::opt<std::string> modelName("name", cl::cat(category),
                               cl::desc("what the model, and a module that is "
                                        "alone in it, is called"));
cl::opt<std::string> output("o", cl::init("-"), cl::cat(category),
                            cl::value_desc("file.json"),
                            cl::desc("where it goes"));

Error wrong(const Twine &what) { return createStringError(what); }

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
  if (cutAt && llvm::none_of(sizes, [](const SizedModel &size) {
        return size.tokens == cutAt;
      }))
    return wrong("--cut-at: expected the tokens of one of --at");
  std::vector<std::string> leftOut;
  auto model = fitTokens(sizes, cutAt, &leftOut);
  for (const std::string &text : leftOut)
    WithColor::warning(errs(), "plan-model") << text << "\n";
  if (!model)
    return wrong("--at: " + toString(model.takeError()));
  return model;
}

Error run() {
  auto model = fitAll();
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
  if (!modelName.empty()) {
    model->name = modelName;
    if (model->modules.size() == 1)
      model->modules[0].name = modelName;
  }
  return dt::writeOutput(output, [&](raw_ostream &os) {
    os << printModel(*model) << "\n";
    return Error::success();
  });
}

} // namespace

int main(int argc, char **argv) {
  dt::expectStandardOutput();
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
