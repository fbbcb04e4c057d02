# Generators of elementwise operators, of floats, integers and booleans.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import numpy as np
from onnx import TensorProto, helper

from builder import LARGEST
from case import TYPES
from registry import generates

# Where a function is defined and tame; its attributes.
DOMAINS = {
    "Exp": (-3, 3), "Log": (0.1, 9), "Sqrt": (0.05, 9), "Tan": (-1.2, 1.2), "Sinh": (-3, 3), "Cosh": (-3, 3), "Softplus": (-9, 9), "Reciprocal": (0.2, 9),
    "Asin": (-0.9, 0.9), "Acos": (-0.9, 0.9), "Atanh": (-0.9, 0.9), "Acosh": (1.1, 9),
}


@generates(*("Neg Abs Exp Log Sqrt Reciprocal Sin Cos Tan Asin Acos Atan Sinh Cosh Tanh Asinh Acosh Atanh Erf Floor Ceil Round Sign Sigmoid Softplus Relu HardSwish Softsign Mish Identity").split())
def unary(b, op):
    x = b.within(*DOMAINS[op]) if op in DOMAINS else b.pick()
    if op in ("Floor", "Ceil", "Round") and b.chance(0.7):  # so that there is more than one step
        x = b.node("Mul", [x, b.number(3.0)])
    b.node(op, [x])


@generates("Neg", "Abs", "Sign", "Relu")
def integer_unary(b, op):
    b.node(op, [b.pick(dtype=b.choice(["int64", "int32"]))])


@generates("LeakyRelu", "Elu", "Celu", "ThresholdedRelu", "Selu", "HardSigmoid", "Swish", "Gelu")
def activation(b, op):
    names = {"Selu": ("alpha", "gamma"), "HardSigmoid": ("alpha", "beta"), "Gelu": ()}.get(op, ("alpha",))
    attributes = {k: round(b.random.uniform(0.1, 2), 2) for k in names if b.chance(0.6)}
    if op == "Gelu" and b.chance(0.5):
        attributes["approximate"] = b.choice(["none", "tanh"])
    b.node(op, [b.pick()], **attributes)


@generates("Softmax", "LogSoftmax")
def softmax(b, op):
    x = b.pick(lambda v: v.rank > 0)
    b.node(op, [x], axis=b.random.randrange(-x.rank, x.rank))


@generates("Softmax", "Where")
def masked_softmax(b, op):
    """Attention's mask: minus infinity, or a large number, where it is false."""
    x = b.pick(lambda v: v.rank > 0 and v.shape[-1] > 1)
    mask = b.node("Greater", [b.partner(x), b.number(-0.5)])
    low = b.number(b.choice([-1e4, -1e9, -3.4028234663852886e38, -np.inf]))
    b.largest = np.inf  # Softmax takes it in
    scores = b.node("Where", [mask, x, low]) if b.chance(0.5) else b.node("Add", [x, b.node("Where", [mask, b.number(0.0), low])])
    b.largest = LARGEST
    b.node("Softmax", [scores], axis=-1)
    del b.values[scores.name]


@generates("Dropout")
def dropout(b, op):
    inputs = [b.pick()]
    if b.chance(0.5):
        inputs.append(b.number(b.choice([0.0, 0.3])))
        if b.chance(0.4):
            inputs.append(b.constant(np.array(False)))
    y = b.node(op, inputs, outputs=b.choice([1, 2]))
    if isinstance(y, list):
        b.node("Where", [y[1], y[0], b.number(2.0)])


@generates("IsNaN", "IsInf")
def is_what(b, op):
    x = b.pick()
    flags = b.node(op, [x], **({"detect_negative": b.choice([0, 1])} if op == "IsInf" and b.chance(0.4) else {}))
    b.node("Where", [flags, b.number(0.5), x])


@generates("Add", "Sub", "Mul", "Max", "Min")
def binary(b, op):
    x = b.pick()
    y = b.partner(x)
    b.node(op, [x, y] if b.chance(0.7) else [y, x])


@generates("Add", "Sub", "Mul", "Div", "Max", "Min", "Mod", "Pow")
def integer_binary(b, op):
    dtype = b.choice(["int64", "int64", "int32"])
    x = b.pick(dtype=dtype)
    if op in ("Div", "Mod"):
        y = b.find(lambda v: all((a != 0).all() for a in v.arrays) and b.broadcasts(x, v), dtype) if b.chance(0.3) else None
        y = y or b.constant(np.array(b.choice([-5, -3, 2, 3, 7]), dtype))
        b.node(op, [x, y])
    elif op == "Pow":
        exponent = b.choice([b.number(0.5), b.constant(np.array(2, dtype)), b.constant(np.array(3, np.int64)), b.number(2.0)])
        b.node(op, [b.node("Abs", [x]), exponent])
    else:
        y = b.partner(x)
        b.node(op, [x, y] if b.chance(0.7) else [y, x])


@generates("Add", "Sub", "Mul", "Div", "Max", "Where")
def with_own_rows(b, op):
    """A value and a slice, a reshape or a transpose of it: views of a buffer that a result may take over."""
    x = b.pick(lambda v: v.rank > 0 and all(s > 0 for s in v.shape))
    axis = b.random.randrange(x.rank)
    start = b.random.choice([0, 0, -1, x.shape[axis] // 2])
    end = {0: 1, -1: 2**63 - 1}.get(start, start + 1)
    view = b.node("Slice", [x, b.ints(start), b.ints(end), b.ints(axis)])
    if b.chance(0.3) and x.rank > 1:
        view = b.node("Reshape", [view, b.constant(np.array([-1 if k == axis and not x.fixed(k) else 0 for k in range(x.rank)], np.int64))])
    if b.chance(0.4):
        view = b.node(b.choice(["Tanh", "Identity", "Neg"]), [view])
    if op == "Div":
        view = b.node("Add", [b.node("Mul", [view, view]), b.number(1.0)])
    if op == "Where":
        return b.node("Where", [b.node("Less", [view, x]), view, x])
    b.node(op, [x, view] if b.chance(0.6) else [view, x])


@generates("Div")
def divide(b, op):
    x = b.pick()
    if b.chance(0.5):
        return b.node(op, [x, b.number(b.choice([-4.0, 0.7, 3.0]))])
    y = b.within(0.3, 9, lambda v: b.broadcasts(x, v))
    b.node(op, [x, y] if b.chance(0.8) else [b.number(1.0), y])


@generates("Mod")
def float_mod(b, op):
    b.node(op, [b.pick(), b.number(b.choice([0.7, -1.3]))], fmod=1)


@generates("Pow")
def power(b, op):
    kind = b.random.randrange(4)
    if kind == 0:
        b.node(op, [b.pick(), b.choice([b.number(2.0), b.number(3.0), b.constant(np.int64(2)), b.constant(np.int32(3))])])
    elif kind == 1:
        b.node(op, [b.within(0.2, 5), b.number(b.choice([0.5, -0.5, 1.0, 3.7, -1.0, 0.0, 2.0003]))])
    elif kind == 2:
        x = b.within(0.2, 5)
        b.node(op, [x, b.partner(x)])
    else:  # x^3 of the tanh form of GELU, and what nearly is it
        x, k = b.pick(), b.choice([3.0, 3.0, 3.7, 2.0])
        x = x if k in (2.0, 3.0) else b.within(0.1, 3)
        cube = b.node("Mul", [b.node(op, [x, b.number(k)]), b.number(b.choice([0.044715, 0.0447]))])
        inner = b.node("Mul", [b.node("Add", [x, cube]), b.number(b.choice([0.7978845608028654, 0.798]))])
        outer = b.node("Add", [b.node("Tanh", [inner]), b.number(1.0)])
        b.node("Mul", [b.node("Mul", [x, b.number(0.5)]), outer])


@generates("Max", "Min", "Sum", "Mean")
def variadic(b, op):
    x = b.pick()
    b.node(op, [x] + [b.partner(x) for _ in range(b.random.randrange(0 if op != "Mean" else 1, 3))])


@generates("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual")
def comparison(b, op):
    x = b.pick(dtype=b.choice(["float32", "int64", "int32"]))
    flags = b.node(op, [x, b.partner(x)])
    if b.chance(0.4):
        use_flags(b, flags)


def use_flags(b, flags):
    """A mask becomes floats by choice or by a cast."""
    y = b.find(lambda v: b.broadcasts(flags, v))
    if y is None or b.chance(0.3):
        return b.node("Cast", [flags], to=TensorProto.FLOAT)
    other = b.choice([b.number(0.0), b.number(-2.0), b.partner(y)])
    return b.node("Where", [flags, y, other] if b.chance(0.7) else [flags, other, y])


@generates("And", "Or", "Xor")
def logical(b, op):
    x = b.pick(dtype="bool")
    use_flags(b, b.node(op, [x, b.partner(x)]))


@generates("Not")
def negation(b, op):
    use_flags(b, b.node(op, [b.pick(dtype="bool")]))


@generates("Where")
def where(b, op):
    x = b.pick(dtype=b.choice(["float32", "float32", "float32", "int64"]))
    flags = b.find(lambda v: b.broadcasts(x, v), "bool")
    if flags is None:
        flags = b.node("Greater", [x, b.partner(x)])
    y = b.partner(x)
    b.node(op, [flags, x, y] if b.chance(0.5) else [flags, y, x])


@generates("Clip")
def clip(b, op):
    if b.chance(0.2):
        x = b.pick(dtype=b.choice(["int64", "int32"]))
        return b.node(op, [x, b.constant(np.array(-1, x.dtype)), b.constant(np.array(2, x.dtype))][: b.choice([2, 3])])
    low, high = b.number(round(b.random.uniform(-1, 0), 2)), b.number(round(b.random.uniform(0.1, 1), 2))
    b.node(op, b.choice([[b.pick(), low, high], [b.pick(), low], [b.pick(), "", high]]))


@generates("PRelu")
def prelu(b, op):
    x = b.pick(lambda v: v.rank > 0)
    b.node(op, [x, b.parameter(*b.narrower(x))])


@generates("Cast")
def cast(b, op):
    source = b.choice(["float32", "int64", "int32", "bool"])
    x = b.pick(dtype=source)
    target = b.choice([t for t in ("float32", "int64", "int32", "bool") if t != source])
    if source == "float32" and target != "bool":
        x = b.node("Mul", [x, b.number(2.5)])
    y = b.node(op, [x], to=TYPES[target])
    if target != "float32" and b.chance(0.5):
        b.node("Cast", [y], to=TensorProto.FLOAT)


@generates("CastLike")
def cast_like(b, op):
    b.node(op, [b.pick(dtype=b.choice(["int64", "bool", "int32"])), b.pick()])


@generates("Constant")
def constant(b, op):
    kind = b.random.randrange(4)
    if kind == 0:
        y = b.node(op, [], value_float=1.5)
    elif kind == 1:
        y = b.node("Cast", [b.node(op, [], value_ints=[3, -1, 2])], to=TensorProto.FLOAT)
    elif kind == 2:
        y = b.node("Cast", [b.node(op, [], value_int=2)], to=TensorProto.FLOAT)
    else:
        y = b.node(op, [], value=helper.make_tensor("t", TensorProto.FLOAT, [2, 1], [0.5, -1.5]))
    b.node("Mul", [b.pick(lambda v: b.broadcasts(v, y)), y])


@generates("If")
def condition(b, op):
    x = b.pick()
    branches = {}
    for name, inner in (("then_branch", "Tanh"), ("else_branch", "Neg")):
        result = b.fresh()
        branches[name] = helper.make_graph([helper.make_node(inner, [x.name], [result])], name, [], [helper.make_empty_tensor_value_info(result)])
    raise_or_add(b, op, x, branches)


def raise_or_add(b, op, x, branches):
    """If reads what its branches name: run here as the branch that it takes."""
    taken = b.chance(0.5)
    flag = b.constant(np.array(taken))
    y = b.node(branches["then_branch" if taken else "else_branch"].node[0].op_type, [x])
    node = b.case.nodes[-1]
    node.op, node.inputs, node.attributes = op, [flag.name], branches
    return y
