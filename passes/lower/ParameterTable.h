//===- ParameterTable.h - Rows and places of parameters ---------*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef PASSES_LOWER_PARAMETERTABLE_H
#define PASSES_LOWER_PARAMETERTABLE_H

#include "passes/lower/StepPlan.h"

namespace dt::lower {

/// A row of the program's parameter table: the names that one module has for
/// one parameter.
struct ParameterEntry {
  nn::ParameterOp owner;
  llvm::SmallVector<nn::ParameterOp> all; ///< the owner first
  int64_t index = 0;
  /// Places of the value and of its gradient, in regions of their own.
  int64_t offset = 0, gradientOffset = 0;
  int64_t gradientEnd = 0; ///< behind the padding
  bool trainable = false, gradient = false;
  int copyOf = -1; ///< row of another module
  /// The op of the module's last backward function after which the gradient of
  /// a microbatch is complete; null: that function does not add to it.
  mlir::Operation *lastUse = nullptr;

  /// What is stored of it.
  mlir::RankedTensorType getType() const {
    return nn::ParameterOp(owner).getStoredType();
  }
  /// Whether it is stored in fewer bytes than its gradient.
  bool isNarrow() const;
  /// Its gradient is, too.
  bool hasNarrowGradient() const;
  /// Rule of initialisation, "" if values come from the file.
  std::string getInit() const;
  /// Places in ONNX files.
  mlir::ArrayAttr getOnnx(mlir::Builder &b) const;
};

/// Parameters by module, the trainable ones of each first, of these the ones
/// with working copies first, in the order in which the backward function ends
/// with their gradients: what is complete is always one range from the begin,
/// whose sum over replicas can begin. Neighbours of one type are as far apart,
/// in elements, among values as among gradients. What is tied within a module
/// is stored once; over modules there are copies.
class ParameterTable {
public:
  mlir::LogicalResult run(const StepPlan &plan);

  const ParameterEntry &get(nn::ParameterOp p) const {
    return rows[indexOf.lookup(p)];
  }
  const ParameterEntry &get(int row) const { return rows[row]; }
  /// Rows of a module, in order.
  llvm::ArrayRef<ParameterEntry> getModule(unsigned module) const {
    return llvm::ArrayRef(rows).slice(module ? ends[module - 1] : 0,
                                      ends[module] -
                                          (module ? ends[module - 1] : 0));
  }
  /// Bytes of a module's regions: of values, of gradients.
  int64_t getBytes(unsigned module) const { return bytes[module]; }
  int64_t getTrainableBytes(unsigned module) const { return trainable[module]; }

private:
  mlir::LogicalResult findAliases(mlir::ModuleOp program);
  nn::ParameterOp getOwner(nn::ParameterOp p) const {
    auto it = aliases.find(p);
    return it == aliases.end() ? p : it->second;
  }
  mlir::LogicalResult collect(dist::ModuleOp module,
                              std::vector<ParameterEntry> &found);
  mlir::LogicalResult joinCopies();
  static void sortModule(dist::ModuleOp module,
                         llvm::MutableArrayRef<ParameterEntry> rows,
                         rt::FuncOp lastBackward);
  void placeModule(llvm::MutableArrayRef<ParameterEntry> rows);

  llvm::DenseMap<mlir::Operation *, nn::ParameterOp> aliases;
  std::vector<ParameterEntry> rows;
  llvm::DenseMap<mlir::Operation *, unsigned> indexOf;
  std::vector<int64_t> bytes, trainable;
  std::vector<size_t> ends; ///< of each module's rows
};

} // namespace dt::lower

#endif // PASSES_LOWER_PARAMETERTABLE_H
