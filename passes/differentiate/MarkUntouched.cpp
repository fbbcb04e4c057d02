//===- MarkUntouched.cpp - Parameters without a gradient --------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/differentiate/Passes.h"

using namespace mlir;

namespace dt::differentiate {
#define GEN_PASS_DEF_MARKUNTOUCHED
#include "passes/differentiate/Passes.h.inc"
} // namespace dt::differentiate

using namespace dt;

namespace {
struct MarkUntouchedPass
    : differentiate::impl::MarkUntouchedBase<MarkUntouchedPass> {
  void tell(ArrayRef<StringRef> untouched) {
    constexpr size_t shown = 3;
    if (untouched.empty())
      return;
    std::string names = llvm::join(untouched.take_front(shown), "', '");
    getOperation().emitRemark() << "no loss depends on " << untouched.size()
                                << " of the weights that train: '" << names
                                << (untouched.size() > shown ? "', …" : "'");
  }
  void runOnOperation() override {
    llvm::DenseSet<StringRef> touched;
    getOperation().walk(
        [&](nn::AccumulateOp op) { touched.insert(op.getParameter()); });
    SmallVector<StringRef> untouched;
    for (auto parameter : getOperation().getOps<nn::ParameterOp>()) {
      parameter.setNoGradient(false);
      if (!parameter.getTrainable() || touched.contains(parameter.getSymName()))
        continue;
      parameter.setNoGradient(true);
      untouched.push_back(parameter.getSymName());
    }
    tell(untouched);
  }
};
} // namespace
