//===- Elementwise.td - Elementwise operators -----------------------------===//
//
// Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
//
// All broadcast as NumPy does; each has a scalar body (ScalarOpInterface), from
// which kernels of every target are made.
//
//===----------------------------------------------------------------------===//

#ifndef DIALECTS_NN_OPS_ELEMENTWISE
#define DIALECTS_NN_OPS_ELEMENTWISE

include "dialects/nn/NNBase.td"

/// Linear in all floating-point operands together, in each alone, in the first, in the last: partial sums pass through.
def NN_LinearJointly : NativeOpTrait<"LinearJointly"> { let cppNamespace = "::dt::nn"; }
def NN_LinearEach : NativeOpTrait<"LinearEach"> { let cppNamespace = "::dt::nn"; }
def NN_LinearFirst : NativeOpTrait<"LinearFirst"> { let cppNamespace = "::dt::nn"; }
def NN_LinearLast : NativeOpTrait<"LinearLast"> { let cppNamespace = "::dt::nn"; }

/// Result types: bools of the operand's shape; the common shape of all operands, with the first's elements, or with those of the last two.
def NN_BoolsOfFirst : NN_InferTypesOf<"boolsOfFirst">;
def NN_BroadcastOfFirst : NN_InferTypesOf<"broadcastOfFirst">;
def NN_BroadcastOfBoth : NN_InferTypesOf<"broadcastOfBoth">;

class NN_Elementwise<string mnemonic, list<Trait> traits, Trait type>
    : NN_PureOp<mnemonic, traits # [NN_Recomputable, DeclareOpInterfaceMethods<ScalarOpInterface>, CostOpInterface, ItemOpInterface, ShardingOpInterface, PrecisionOpInterface, type]>;
/// `onnx`: the operator of ONNX that it is; it needs no import rule then.
class NN_Unary<string mnemonic, string what, list<Trait> traits = [], string onnx = "">
    : NN_Elementwise<mnemonic, traits # !if(!empty(onnx), [], [OnnxOpInterface]), NN_TypeOfFirst> {
  let summary = what;
  let extraClassDeclaration = !if(!empty(onnx), "", "static ::llvm::StringRef getOnnxName() { return \"" # onnx # "\"; }");
  let arguments = (ins NN_FloatTensor:$input);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}
class NN_SmoothUnary<string mnemonic, string what, list<Trait> traits = [], string onnx = ""> : NN_Unary<mnemonic, what, [NN_Smooth] # traits, onnx>;
def NN_NegOp : NN_SmoothUnary<"neg", "-x", [NN_LinearJointly]> { let hasFolder = 1; }
def NN_AbsOp : NN_SmoothUnary<"abs", "|x|; gradient 0 at 0">;
def NN_ExpOp : NN_SmoothUnary<"exp", "exp(x)">;
def NN_LogOp : NN_SmoothUnary<"log", "natural logarithm">;
def NN_SqrtOp : NN_SmoothUnary<"sqrt", "square root">;
def NN_RsqrtOp : NN_SmoothUnary<"rsqrt", "1 / sqrt(x)">;
def NN_ReciprocalOp : NN_SmoothUnary<"reciprocal", "1 / x">;
def NN_SinOp : NN_SmoothUnary<"sin", "sine">;
def NN_CosOp : NN_SmoothUnary<"cos", "cosine">;
def NN_TanOp : NN_SmoothUnary<"tan", "tangent">;
def NN_AsinOp : NN_SmoothUnary<"asin", "inverse sine">;
def NN_AcosOp : NN_SmoothUnary<"acos", "inverse cosine">;
def NN_AtanOp : NN_SmoothUnary<"atan", "inverse tangent">;
def NN_SinhOp : NN_SmoothUnary<"sinh", "hyperbolic sine">;
def NN_CoshOp : NN_SmoothUnary<"cosh", "hyperbolic cosine">;
def NN_TanhOp : NN_SmoothUnary<"tanh", "hyperbolic tangent">;
def NN_AsinhOp : NN_SmoothUnary<"asinh", "inverse hyperbolic sine">;
def NN_AcoshOp : NN_SmoothUnary<"acosh", "inverse hyperbolic cosine">;
def NN_AtanhOp : NN_SmoothUnary<"atanh", "inverse hyperbolic tangent">;
def NN_ErfOp : NN_SmoothUnary<"erf", "error function">;
def NN_SigmoidOp : NN_SmoothUnary<"sigmoid", "1 / (1 + exp(-x))", [], "Sigmoid">;
def NN_SiluOp : NN_SmoothUnary<"silu", "x * sigmoid(x)">;
def NN_SoftplusOp : NN_SmoothUnary<"softplus", "log(1 + exp(x))", [], "Softplus">;
def NN_ReluOp : NN_SmoothUnary<"relu", "max(x, 0); gradient 0 at 0">;

def NN_GeluOp : NN_SmoothUnary<"gelu", "Gaussian error linear unit"> {
  let description = [{ `tanh` selects the tanh approximation (GPT-2), otherwise x/2 * (1 + erf(x / sqrt 2)). }];
  let arguments = (ins NN_FloatTensor:$input, UnitAttr:$tanh);
}
class NN_UnaryGrad<string mnemonic, string what> : NN_Elementwise<mnemonic, [NN_LinearLast], NN_BroadcastOfFirst> {
  let summary = what;
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$grad);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input `,` $grad attr-dict `:` type($input)  `,` type($grad)";
}
def NN_GeluGradOp : NN_UnaryGrad<"gelu_grad", "dy * gelu'(x)"> {
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$grad, UnitAttr:$tanh);
}
def NN_SiluGradOp : NN_UnaryGrad<"silu_grad", "dy * silu'(x)">;
def NN_LeakyReluOp : NN_SmoothUnary<"leaky_relu", "x if x >= 0 else alpha * x"> {
  let arguments = (ins NN_FloatTensor:$input, F64Attr:$alpha);
}
def NN_EluOp : NN_SmoothUnary<"elu", "x if x > 0 else alpha * (exp(x) - 1), times scale (SELU has scale != 1)"> {
  let arguments = (ins NN_FloatTensor:$input, DefaultValuedAttr<F64Attr, "1.0">:$alpha, DefaultValuedAttr<F64Attr, "1.0">:$scale);
}
def NN_HardSigmoidOp : NN_SmoothUnary<"hard_sigmoid", "clamp(alpha * x + beta, 0, 1)"> {
  let arguments = (ins NN_FloatTensor:$input, F64Attr:$alpha, F64Attr:$beta);
}
def NN_FloorOp : NN_Unary<"floor", "largest integer not above", [NN_ZeroGradient]>;
def NN_CeilOp : NN_Unary<"ceil", "smallest integer not below", [NN_ZeroGradient]>;
def NN_RoundOp : NN_Unary<"round", "nearest integer, ties to even", [NN_ZeroGradient]>;
def NN_SignOp : NN_Unary<"sign", "-1, 0 or 1", [NN_ZeroGradient]>;
def NN_StopGradientOp : NN_Unary<"stop_gradient", "x, through which no gradient goes", [NN_ZeroGradient]> {
  let description = [{ PyTorch's `detach`. It has no meaning behind the phase *differentiate*, which replaces it by its operand. }];
}

class NN_Predicate<string mnemonic, string what> : NN_Elementwise<mnemonic, [NN_ZeroGradient], NN_BoolsOfFirst> {
  let summary = what;
  let arguments = (ins NN_FloatTensor:$input);
  let results = (outs NN_BoolTensor:$result);
  let assemblyFormat = "$input attr-dict `:` type($input)";
}
def NN_IsNanOp : NN_Predicate<"is_nan", "true where x is not a number">;
def NN_IsInfOp : NN_Predicate<"is_inf", "true where x is an infinity">;
def NN_NotOp : NN_Predicate<"not", "logical negation"> {
  let arguments = (ins NN_BoolTensor:$input);
}
def NN_CastOp : NN_Elementwise<"cast", [NN_LinearFirst, NN_KeepsCount, NN_Smooth], NN_TypeGiven> {
  let summary = "element type conversion; float to integer truncates, anything to bool is != 0";
  let arguments = (ins NN_Tensor:$input);
  let results = (outs NN_Tensor:$result);
  let hasFolder = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = NN_Work<"View">.declaration # "::dt::nn::ItemState inferItems(::dt::nn::ItemStates operands, const ::dt::nn::ItemContext &context);";
  let assemblyFormat = "$input attr-dict `:` type($input) `to` type($result)";
}

class NN_Binary<string mnemonic, string what, list<Trait> traits = [NN_Smooth]> : NN_Elementwise<mnemonic, traits, NN_BroadcastOfBoth> {
  let summary = what;
  let description = [{ Operands have one element type and broadcast; integers wrap. }];
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs)";
}
def NN_AddOp : NN_Binary<"add", "x + y", [Commutative, NN_LinearJointly, NN_KeepsCount, NN_Smooth]> { let hasFolder = 1; }
def NN_SubOp : NN_Binary<"sub", "x - y", [NN_LinearJointly, NN_KeepsCount, NN_Smooth]> { let hasFolder = 1; }
def NN_MulOp : NN_Binary<"mul", "x * y", [Commutative, NN_LinearEach, NN_KeepsCount, NN_Smooth]> { let hasFolder = 1; }
def NN_DivOp : NN_Binary<"div", "x / y; integers truncate as ONNX says", [NN_LinearFirst, NN_Smooth]> { let hasFolder = 1; }
def NN_PowOp : NN_Binary<"pow", "x to the power of y; y's gradient is 0 where x is 0 and y is not negative">;
class NN_Extremum<string mnemonic, string what> : NN_Binary<mnemonic, what, [Commutative, NN_KeepsCount, NN_Smooth]> {
  let description = [{
    Operands have one element type and broadcast. Where they are equal they share the gradient, as in PyTorch's `maximum` and `minimum`; with `bound` the right one is what the left is clamped to, and
    the left has no gradient there, as in PyTorch's `clamp` to numbers.
  }];
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs, UnitAttr:$bound);
}
def NN_MaxOp : NN_Extremum<"max", "larger of both">;
def NN_MinOp : NN_Extremum<"min", "smaller of both">;
def NN_BinaryCrossEntropyOp : NN_Elementwise<"binary_cross_entropy", [NN_Smooth], NN_BroadcastOfBoth> {
  let summary = "-y log(x) - (1 - y) log(1 - x), logarithms of at least -100; x's gradient is (x - y) / max(x (1 - x), 1e-12)";
  let description = [{ PyTorch's `binary_cross_entropy` of probabilities x (`input`) and `target` y: its gradient is finite where a logarithm is not. }];
  let arguments = (ins NN_FloatTensor:$input, NN_FloatTensor:$target);
  let results = (outs NN_FloatTensor:$result);
  let assemblyFormat = "$input `,` $target attr-dict `:` type($input) `,` type($target)";
}
def NN_ModOp : NN_Binary<"mod", "remainder; sign of the divisor, with `fmod` that of the dividend"> {
  let arguments = (ins NN_Tensor:$lhs, NN_Tensor:$rhs, UnitAttr:$fmod);
}
def NN_AndOp : NN_Binary<"and", "logical and", [Commutative, NN_ZeroGradient]>;
def NN_OrOp : NN_Binary<"or", "logical or", [Commutative, NN_ZeroGradient]>;
def NN_XorOp : NN_Binary<"xor", "logical exclusive or", [Commutative, NN_ZeroGradient]>;

def NN_Compare : I32EnumAttr<"Compare", "how two numbers are compared", [
  I32EnumAttrCase<"eq", 0>, I32EnumAttrCase<"ne", 1>, I32EnumAttrCase<"lt", 2>, I32EnumAttrCase<"le", 3>, I32EnumAttrCase<"gt", 4>, I32EnumAttrCase<"ge", 5>]> {
  let cppNamespace = "::dt::nn";
}
def NN_CmpOp : NN_Elementwise<"cmp", [NN_ZeroGradient], NN_InferTypes> {
  let summary = "comparison; floats ordered (false when either is not a number, `ne` true)";
  let arguments = (ins NN_Compare:$predicate, NN_Tensor:$lhs, NN_Tensor:$rhs);
  let results = (outs NN_BoolTensor:$result);
  let assemblyFormat = "$predicate $lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs)";
}
def NN_WhereOp : NN_Elementwise<"where", [NN_LinearJointly, NN_KeepsCount, NN_Smooth], NN_BroadcastOfBoth> {
  let summary = "lhs where the condition holds, rhs elsewhere";
  let arguments = (ins NN_BoolTensor:$condition, NN_Tensor:$lhs, NN_Tensor:$rhs);
  let results = (outs NN_Tensor:$result);
  let assemblyFormat = "$condition `,` $lhs `,` $rhs attr-dict `:` type($condition) `,` type($lhs) `,` type($rhs)";
}

#endif // DIALECTS_NN_OPS_ELEMENTWISE
