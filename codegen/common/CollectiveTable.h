//===- CollectiveTable.h - what functions give to collectives ---*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// What CollectiveInfo says of a function, callees included.
//
//===----------------------------------------------------------------------===//

#ifndef CODEGEN_COMMON_COLLECTIVETABLE_H
#define CODEGEN_COMMON_COLLECTIVETABLE_H

#include "dialects/rt/RTBytes.h"

#include <map>
#include <string>
#include <tuple>

namespace dt::codegen {

/// Of one kind, element type and axis; columns of CollectiveInfo.
struct CollectiveAmount {
  rt::CollectiveKind kind = rt::CollectiveKind::AllReduce;
  rt::DType type = rt::DType::F32;
  nn::DimExpr elements;
  int64_t calls = 0, most = 0, packed = 0, beside = 0;
  void add(const CollectiveAmount &other);
};
/// By the kind's name (rows are in alphabetical order), element type, over,
/// stride.
using CollectiveAmounts =
    std::map<std::tuple<std::string, std::string, int64_t, int64_t>,
             CollectiveAmount>;

class CollectiveCounter {
public:
  const CollectiveAmounts &of(rt::FuncOp function);

private:
  void addCollective(rt::CollectiveOp op, const rt::BufferBytes &bytes,
                     CollectiveAmounts &sum);
  llvm::StringMap<CollectiveAmounts> counted;
};

} // namespace dt::codegen

#endif // CODEGEN_COMMON_COLLECTIVETABLE_H
