//===- Functions.cpp - Results of functions that become one -----*- C++ -*-===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "passes/optimize/Functions.h"

using namespace mlir;
using namespace dt::optimize;

SmallVector<func::CallOp> dt::optimize::getCalls(func::FuncOp function) {
  SmallVector<func::CallOp> calls;
  function->getParentOp()->walk([&](func::CallOp call) {
    if (call.getCallee() == function.getSymName())
      calls.push_back(call);
  });
  return calls;
}

/// A call of the function, whose result `place` is in place of those in `gone`.
static void renewCall(func::CallOp call, func::FuncOp function,
                      const llvm::BitVector &gone, unsigned place,
                      ReplaceResults replace) {
  OpBuilder b(call);
  auto now =
      func::CallOp::create(b, call.getLoc(), function, call.getOperands());
  now->setDiscardableAttrs(call->getDiscardableAttrDictionary());
  SmallVector<Value> old;
  for (unsigned i : gone.set_bits())
    old.push_back(call.getResult(i));
  replace(old, now.getResult(place));
  unsigned next = 0;
  for (auto [i, result] : llvm::enumerate(call.getResults()))
    if (!gone.test(i)) {
      next += next == place;
      result.replaceAllUsesWith(now.getResult(next++));
    }
  call.erase();
}

void dt::optimize::joinResults(func::FuncOp function, ArrayRef<unsigned> places,
                               Value joined, ReplaceResults replace) {
  llvm::BitVector gone(function.getNumResults());
  for (unsigned i : places)
    gone.set(i);
  unsigned place = gone.find_first();
  SmallVector<func::CallOp> calls = getCalls(function);
  DictionaryAttr attributes = function.getResultAttrDict(place);
  (void)function.eraseResults(gone);
  (void)function.insertResult(place, joined.getType(), attributes);
  Operation *end = function.front().getTerminator();
  SmallVector<Value> returned;
  for (auto [i, v] : llvm::enumerate(end->getOperands()))
    if (!gone.test(i))
      returned.push_back(v);
  returned.insert(returned.begin() + place, joined);
  end->setOperands(returned);
  for (func::CallOp call : calls)
    renewCall(call, function, gone, place, replace);
}
