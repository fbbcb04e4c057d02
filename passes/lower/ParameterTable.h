//===- ParameterTable.h - Rows and places of parameters -----------*- C++
//-*-===//
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
struct ParameterRow {
  nn::ParameterOp owner;
  llvm::SmallVector<nn::ParameterOp> all; ///< the owner first
  int64_t index = 0, offset = 0;
  bool trainable = false, gradient = false;
  int copyOf = -1; ///< row of another module

  /// Rule of initialisation, "" if values come from the file.
  std::string getInit() const;
  /// Places in ONNX files.
  mlir::ArrayAttr getOnnx(mlir::Builder &b) const;
};

/// Parameters by module, the trainable ones of each first. What is tied within
/// a module is stored once; over modules there are copies.
class ParameterTable {
public:
  mlir::LogicalResult run(const StepPlan &plan);

  const ParameterRow &get(nn::ParameterOp p) const {
    return rows[indexOf.lookup(p)];
  }
  const ParameterRow &get(int row) const { return rows[row]; }
  /// Bytes of a module's region, and of the part that trains.
  int64_t getBytes(unsigned module) const { return bytes[module]; }
  int64_t getTrainableBytes(unsigned module) const { return trainable[module]; }

private:
  mlir::LogicalResult findAliases(mlir::ModuleOp program);
  nn::ParameterOp getOwner(nn::ParameterOp p) const {
    auto it = aliases.find(p);
    return it == aliases.end() ? p : it->second;
  }
  mlir::LogicalResult collect(dist::ModuleOp module,
                              std::vector<ParameterRow> &found);
  mlir::LogicalResult joinCopies();

  llvm::DenseMap<mlir::Operation *, nn::ParameterOp> aliases;
  std::vector<ParameterRow> rows;
  llvm::DenseMap<mlir::Operation *, unsigned> indexOf;
  std::vector<int64_t> bytes, trainable;
};

} // namespace dt::lower

#endif // PASSES_LOWER_PARAMETERTABLE_H
