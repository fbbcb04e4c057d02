//===- DistInterfaces.td - What a collective tells the passes ---------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_DIST_DISTINTERFACES
#define DIALECTS_DIST_DISTINTERFACES

include "mlir/IR/OpBase.td"

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::dt::dist";
  let description = [{
    What all ranks of an axis do together with one tensor each: operand 0 to result 0. Result type, lowering, traffic and price follow from these answers and from the kind's `CollectiveForm`
    (runtime/Enums.h): a kind that gathers takes a cut, one that scatters gives one.
  }];
  let methods = [
    InterfaceMethod<"What the runtime does.", "::dt::rt::CollectiveKind", "getCollectiveKind">,
    InterfaceMethod<"Ranks of the axis.", "uint64_t", "getOver">,
    InterfaceMethod<"Their distance in the group.", "uint64_t", "getStride">,
    InterfaceMethod<"Strips in which it is done (Strips.h); nothing: as a whole.", "::std::optional<uint64_t>", "getStrips">,
    InterfaceMethod<"", "void", "setStrips", (ins "::std::optional<uint64_t>":$strips)>,
    InterfaceMethod<"How a kind that combines does it; nothing: a sum.",
      "::std::optional<::dt::rt::Reduction>", "getReduction", (ins), "", [{ return ::std::nullopt; }]>,
    InterfaceMethod<"How the input is cut if the result has the blocks of all ranks.",
      "::std::optional<::dt::dist::DimCut>", "getTakenCut", (ins), "", [{ return ::std::nullopt; }]>,
    InterfaceMethod<"How the result is cut if the input has a block for every rank.",
      "::std::optional<::dt::dist::DimCut>", "getGivenCut", (ins), "", [{ return ::std::nullopt; }]>
  ];
  let extraClassDeclaration = [{
    const ::dt::rt::CollectiveForm &getForm() {
      return ::dt::rt::formOf(getCollectiveKind());
    }
    ::mlir::Value getInput() { return getOperation()->getOperand(0); }
    ::mlir::Value getResult() { return getOperation()->getResult(0); }
    /// The larger of the two: its bytes are what the ranks exchange.
    ::mlir::Value getWhole() { return getForm().gathers ? getResult() : getInput(); }
  }];
  let verify = [{ return ::dt::dist::verifyCollective($_op); }];
}

#endif // DIALECTS_DIST_DISTINTERFACES
