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

  /// Gradients of copies in other modules are added one by one to what is
  /// there: in float32.
  static void
  narrowGradients(dist::ModuleOp module,
                  const llvm::EquivalenceClasses<SymbolRefAttr> &tied) {
    for (auto parameter : module.getOps<nn::ParameterOp>()) {
      auto path = SymbolRefAttr::get(
          module.getSymNameAttr(),
          FlatSymbolRefAttr::get(parameter.getSymNameAttr()));
      bool isTied = tied.findLeader(path) != tied.member_end();
      parameter.setNarrowGradient(parameter.getWorking() &&
                                  parameter.getTrainable() && !isTied);
    }
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

  /// The type that some user narrows it to, or to which all that is taken of it
  /// is rounded; or null.
  static FloatType wishOf(ArrayRef<nn::ReadOp> reads) {
    FloatType all;
    bool isRounded = true;
    for (nn::ReadOp read : reads) {
      if (!nn::elementOf(read).isF32())
        return {};
      for (Operation *user : read->getUsers())
        if (FloatType type = narrowedTo(user))
          return type;
      FloatType type = roundedTo(read);
      isRounded &= type != nullptr;
      all = type;
    }
    return isRounded ? all : FloatType();
  }

  static FloatType narrowedTo(Operation *user) {
    auto cast = dyn_cast<nn::CastOp>(user);
    return cast && nn::isNarrow(cast.getType())
               ? llvm::cast<FloatType>(nn::elementOf(cast))
               : FloatType();
  }

  /// Whether an op gives elements of its operands as they are: movement, a
  /// choice between tensors.
  static bool givesElements(Operation *op) {
    auto scatter = dyn_cast<nn::ScatterNdOp>(op);
    return op->hasTrait<nn::MovesElements>() || isa<nn::WhereOp>(op) ||
           (scatter && scatter.getKind() == nn::ScatterKind::set);
  }

  /// What every user narrows `v` to, behind what gives its elements as they are
  /// (a lookup); or null.
  static FloatType roundedTo(Value v) {
    FloatType type;
    for (Operation *user : v.getUsers()) {
      type = givesElements(user) ? roundedTo(user->getResult(0))
                                 : narrowedTo(user);
      if (!type)
        return {};
    }
    return type;
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
