//===- WorkingCopies.cpp - Parameters that are stored narrow ----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/precision/Passes.h"

#include "dialects/nn/NNInference.h"

#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;

namespace dt::precision {
#define GEN_PASS_DEF_WORKINGCOPIES
#include "passes/precision/Passes.h.inc"

namespace {

struct WorkingCopies : impl::WorkingCopiesBase<WorkingCopies> {
  using WorkingCopiesBase::WorkingCopiesBase;
  using Reads = SmallVector<nn::ReadOp>;

  void runOnOperation() override {
    llvm::EquivalenceClasses<SymbolRefAttr> tied;
    for (auto tie : getOperation().getOps<dist::TieOp>())
      tied.unionSets(tie.getAlias(), tie.getParameter());
    for (auto module : getOperation().getOps<dist::ModuleOp>()) {
      run(module, tied);
      if (module.getNarrowGradients())
        narrowGradients(module, tied);
    }
  }

  /// Gradients of copies in other modules, and of rows that are looked up, are
  /// added one by one to what is there: in float32.
  static void
  narrowGradients(dist::ModuleOp module,
                  const llvm::EquivalenceClasses<SymbolRefAttr> &tied) {
    llvm::DenseSet<StringAttr> wide;
    module.walk([&](nn::GatherOp gather) {
      if (nn::ReadOp read = readOf(gather.getInput()))
        wide.insert(read.getParameterAttr().getAttr());
    });
    for (auto parameter : module.getOps<nn::ParameterOp>()) {
      auto path = SymbolRefAttr::get(
          module.getSymNameAttr(),
          FlatSymbolRefAttr::get(parameter.getSymNameAttr()));
      bool isTied = tied.findLeader(path) != tied.member_end();
      parameter.setNarrowGradient(parameter.getWorking() &&
                                  parameter.getTrainable() && !isTied &&
                                  !wide.contains(parameter.getSymNameAttr()));
    }
  }

  /// The read that `v` is a view of, in any type; or null.
  static nn::ReadOp readOf(Value v) {
    Operation *op = v.getDefiningOp();
    while (op && (isa<nn::CastOp>(op) || op->hasTrait<nn::MovesElements>()))
      op = op->getOperand(0).getDefiningOp();
    return dyn_cast_or_null<nn::ReadOp>(op);
  }

  void run(dist::ModuleOp module,
           const llvm::EquivalenceClasses<SymbolRefAttr> &tied) {
    llvm::EquivalenceClasses<StringAttr> tensors;
    for (auto parameter : module.getOps<nn::ParameterOp>())
      tensors.insert(parameter.getSymNameAttr());
    joinTied(module, tied, tensors);
    llvm::MapVector<StringAttr, Reads> reads;
    module.walk([&](nn::ReadOp read) {
      reads[tensors.getLeaderValue(read.getParameterAttr().getAttr())]
          .push_back(read);
    });
    llvm::DenseMap<StringAttr, FloatType> narrow;
    for (auto &[leader, ops] : reads)
      if (FloatType type = wishOf(ops)) {
        narrow[leader] = type;
        for (nn::ReadOp read : ops)
          readNarrow(read, type);
      }
    for (auto parameter : module.getOps<nn::ParameterOp>())
      if (FloatType type =
              narrow.lookup(tensors.getLeaderValue(parameter.getSymNameAttr())))
        parameter.setWorking(type);
  }

  /// Names of one module that are tied, to one another or to the same parameter
  /// of another module, share what is stored.
  static void joinTied(dist::ModuleOp module,
                       const llvm::EquivalenceClasses<SymbolRefAttr> &tied,
                       llvm::EquivalenceClasses<StringAttr> &tensors) {
    llvm::DenseMap<SymbolRefAttr, StringAttr> first;
    for (auto parameter : module.getOps<nn::ParameterOp>()) {
      StringAttr name = parameter.getSymNameAttr();
      auto leader = tied.findLeader(SymbolRefAttr::get(
          module.getSymNameAttr(), FlatSymbolRefAttr::get(name)));
      if (leader != tied.member_end())
        tensors.unionSets(first.try_emplace(*leader, name).first->second, name);
    }
  }

  /// The type that some user narrows it to, or null.
  static FloatType wishOf(ArrayRef<nn::ReadOp> reads) {
    for (nn::ReadOp read : reads)
      for (Operation *user : read->getUsers())
        if (auto cast = dyn_cast<nn::CastOp>(user);
            cast && nn::elementOf(read).isF32() && nn::isNarrow(cast.getType()))
          return llvm::cast<FloatType>(nn::elementOf(cast));
    return {};
  }

  static void readNarrow(nn::ReadOp read, Type narrow) {
    Value value = read.getResult();
    Type wide = value.getType();
    value.setType(nn::withElementType(wide, narrow));
    OpBuilder b(read.getContext());
    b.setInsertionPointAfter(read);
    auto widened = nn::CastOp::create(b, read.getLoc(), wide, value);
    value.replaceAllUsesExcept(widened, widened);
  }
};

} // namespace
} // namespace dt::precision
