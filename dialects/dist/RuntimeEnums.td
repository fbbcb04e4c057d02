//===- RuntimeEnums.td - Enums of runtime/Enums.h as attributes -------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_DIST_RUNTIMEENUMS
#define DIALECTS_DIST_RUNTIMEENUMS

include "mlir/IR/OpBase.td"

/// The case's number as an i32; an op's assembly format says it as `custom<RuntimeEnum>($name)`: its text in runtime/Enums.h; as `(custom<OptionalRuntimeEnum>($name)^)?`: nothing for the default.
class Dist_RuntimeEnum<string name, string what> : Attr<CPred<"::llvm::isa<::dt::rt::" # name # "Attr>($_self)">, what> {
  let storageType = "::dt::rt::" # name # "Attr";
  let returnType = "::dt::rt::" # name;
  let constBuilderCall = "::dt::rt::" # name # "Attr::get($_builder.getContext(), $0)";
}

def Dist_CollectiveKind : Dist_RuntimeEnum<"CollectiveKind", "what ranks do together">;
def Dist_ContextKeys : Dist_RuntimeEnum<"ContextKeys", "how queries come by the keys of other ranks">;
def Dist_EmptyRow : Dist_RuntimeEnum<"EmptyRow", "what a query without a visible key gives">;
def Dist_OptimizerKind : Dist_RuntimeEnum<"OptimizerKind", "update rule">;
def Dist_Reduction : Dist_RuntimeEnum<"Reduction", "how ranks' values are combined">;
def Dist_Save : Dist_RuntimeEnum<"Save", "saved set">;
def Dist_ScheduleKind : Dist_RuntimeEnum<"ScheduleKind", "course of the learning rate">;
def Dist_SlotKind : Dist_RuntimeEnum<"SlotKind", "from when to when a buffer is a microbatch's">;
def Dist_TaskKind : Dist_RuntimeEnum<"TaskKind", "what a row does">;

#endif // DIALECTS_DIST_RUNTIMEENUMS
