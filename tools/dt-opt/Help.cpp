//===- Help.cpp - What --help shows -----------------------------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tools/dt-opt/Help.h"

#include "llvm/ADT/STLExtras.h"

using namespace llvm;

namespace {

// Categories are shown in alphabetical order.
cl::OptionCategory mlirOptions("MLIR",
                               "Passes, pipelines and the rest of mlir-opt.");

bool isGeneral(const cl::Option &option) {
  return is_contained(option.Categories, &cl::getGeneralCategory());
}

} // namespace

void dt::hideForeignOptions(ArrayRef<cl::OptionCategory *> ours) {
  for (auto &entry : cl::getRegisteredOptions()) {
    cl::Option &option = *entry.second;
    bool kept = any_of(option.Categories, [&](cl::OptionCategory *category) {
      return is_contained(ours, category) ||
             category->getName() == "Generic Options";
    });
    if (!kept && option.getOptionHiddenFlag() == cl::NotHidden)
      option.setHiddenFlag(cl::Hidden);
  }
}

void dt::sortOptions() {
  for (auto &entry : cl::getRegisteredOptions())
    if (isGeneral(*entry.second) &&
        entry.second->getOptionHiddenFlag() == cl::NotHidden)
      entry.second->addCategory(mlirOptions);
}

std::string dt::getHelpHeader() {
  return R"(The DistTrain compiler: networks in, a program that trains them out.

  dt-opt model.onnx                              print the graph's IR
  dt-opt recipe.json --emit=cpp -o DIR           compile a recipe (docs/recipe.md)
  dt-opt model.onnx --loss=cross_entropy:logits --batch=8 --emit=exe -o DIR
                                                 compile one model, no recipe; build it
  dt-opt recipe.json --emit=plan                 parameters, FLOPs and memory
  dt-opt recipe.json --plan=plan.json --emit=…   for many ranks (docs/plan.md)
  dt-opt recipe.json --emit=memory -o mem.svg    a picture of the arena
  dt-opt recipe.json --plan=… --emit=plan -o plan.html
                                                 layout, schedule and memory as a page
  dt-opt FILE --PASS...                          run passes; FILE may be .mlir, .onnx or .json

--help-hidden also lists the options of LLVM itself.
)";
}
