# Graphs of many operators, drawn at random: what fusion, computing again, memory and order must not change.
"""Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception"""

import numpy as np

from elementwise import sigmoid
from products import ints
from shapes import softmax

OPERATORS = 16


class Graph:
    """Values [n, 6] (n: 3, or a batch's rows), each with a NumPy function of the case's tensors."""

    def __init__(self, b, seed, ragged):
        self.b, self.random = b, np.random.default_rng(seed)
        self.n = "rows" if ragged else 3
        self.values = []
        for i in range(2):
            name = f"x{i}"
            if ragged:
                scaled = b.op("mul", [b.input(name, self.n, 6), b.param(name + "s", 6)], (self.n, 6))
                self.add(scaled, lambda t, name=name: t[name] * t[name + "s"])
            else:
                self.add(b.param(name, 3, 6), lambda t, name=name: t[name])
        self.weights = 0

    def add(self, value, reference):
        self.values.append((value, reference))

    def pick(self):
        """Later values more often, so that graphs are deep, with a branch now and then."""
        i = len(self.values) - 1 - min(self.random.geometric(0.4) - 1, len(self.values) - 1)
        return self.values[i]

    def parameter(self, *shape):
        self.weights += 1
        name = f"w{self.weights}"
        return self.b.param(name, *shape, rule="normal(0,0.5)"), name

    def step(self):
        make = [self.unary, self.binary, self.scaled, self.linear, self.mixed, self.normalised, self.soft, self.reduced, self.turned, self.cut, self.chosen, self.run, self.row]
        make[self.random.integers(len(make))]()

    def op(self, name, operands, attributes="", shape=None, **more):
        return self.b.op(name, operands, shape or (self.n, 6), attributes, **more)

    def unary(self):
        x, f = self.pick()
        name, g = [("tanh", np.tanh), ("sin", np.sin), ("sigmoid", sigmoid), ("silu", lambda x: x * sigmoid(x)), ("neg", np.negative)][self.random.integers(5)]
        self.add(self.op(name, [x]), lambda t: g(f(t)))

    def binary(self):
        (x, f), (y, g) = self.pick(), self.pick()
        name, h = [("add", np.add), ("sub", np.subtract), ("mul", np.multiply)][self.random.integers(3)]
        value = self.op(name, [x, y])
        if name == "mul":  # powers of powers grow
            self.add(self.op("tanh", [value]), lambda t: np.tanh(f(t) * g(t)))
        else:
            self.add(value, lambda t: h(f(t), g(t)))

    def scaled(self):
        x, f = self.pick()
        w, name = self.parameter(*[(6,), (1, 6), (), (1,)][self.random.integers(4)])
        operands = [x, w] if self.random.integers(2) else [w, x]
        self.add(self.op("mul", operands), lambda t: f(t) * t[name])

    def linear(self):
        x, f = self.pick()
        w, name = self.parameter(6, 6)
        self.add(self.op("linear", [x, w]), lambda t: f(t) @ t[name].T)

    def mixed(self):
        """x (y^T z): sums over all rows."""
        (x, f), (y, g), (z, h) = self.pick(), self.pick(), self.pick()
        square = self.op("tanh", [self.op("matmul", [y, z], "trans_a", shape=(6, 6))], shape=(6, 6))
        self.add(self.op("matmul", [x, square]), lambda t: f(t) @ np.tanh(g(t).T @ h(t)))

    def normalised(self):
        x, f = self.pick()
        w, name = self.parameter(6)

        def reference(t):
            x = f(t)
            x = x - x.mean(-1, keepdims=True)
            return x / np.sqrt((x * x).mean(-1, keepdims=True) + 0.1) * t[name]

        self.add(self.op("layer_norm", [x, w], "eps = 0.1 : f64, axes = 1 : i64", segments=[1, 1, 0]), reference)

    def soft(self):
        x, f = self.pick()
        self.add(self.op("softmax", [x], "axis = 1 : i64"), lambda t: softmax(f(t), 1))

    def reduced(self):
        """Along rows or columns, and spread over them again."""
        (x, f), (y, g) = self.pick(), self.pick()
        axis = int(self.random.integers(2))
        kind = 0 if axis == 0 else int(self.random.integers(2))
        small = self.op("reduce", [x], f"kind = {kind} : i32, axes = {ints([axis])}, keepdims", shape=(1, 6) if axis == 0 else (self.n, 1))
        small = self.op("tanh", [small], shape=small.shape)
        self.add(self.op("mul", [y, small]), lambda t: g(t) * np.tanh((np.mean if kind else np.sum)(f(t), axis=axis, keepdims=True)))

    def turned(self):
        """Seen as [n, 2, 3], transposed and back."""
        x, f = self.pick()
        cube = self.op("reshape", [x], shape=(self.n, 2, 3))
        cube = self.op("transpose", [cube], f"permutation = {ints([0, 2, 1])}", shape=(self.n, 3, 2))
        self.add(self.op("reshape", [cube]), lambda t: f(t).reshape(-1, 2, 3).transpose(0, 2, 1).reshape(-1, 6))

    def cut(self):
        """Columns of two values beside each other."""
        (x, f), (y, g) = self.pick(), self.pick()
        k = int(self.random.integers(1, 6))
        left = self.op("slice", [x], f"starts = {ints([0, 6 - k])}, steps = {ints([1, 1])}", shape=(self.n, k))
        right = self.op("slice", [y], f"starts = {ints([0, 5])}, steps = {ints([1, -1])}", shape=(self.n, 6 - k))
        self.add(self.op("concat", [left, right], "axis = 1 : i64"), lambda t: np.concatenate([f(t)[:, 6 - k :], g(t)[:, ::-1][:, : 6 - k]], 1))

    def chosen(self):
        (x, f), (y, g) = self.pick(), self.pick()
        mask = self.random.integers(0, 2, 6).astype(bool)
        self.add(self.op("where", [self.b.constant(mask), x, y]), lambda t: np.where(mask, f(t), g(t)))

    def row(self):
        """A row of a value beside all of it: a view of what may die here."""
        (x, f), (y, g) = self.pick(), self.pick()
        if self.n != 3:  # a batch may have no row
            return self.unary()
        if self.random.integers(2):
            y, g = x, f
        k = int(self.random.integers(3))
        part = self.op("slice", [y], f"starts = {ints([k, 0])}, steps = {ints([1, 1])}", shape=(1, 6))
        self.add(self.op("add", [x, part]), lambda t: f(t) + g(t)[k : k + 1])

    def run(self):
        x, f = self.pick()
        axis = int(self.random.integers(2))
        value = self.op("cumsum", [self.op("tanh", [x])], f"axis = {axis} : i64")
        self.add(self.op("tanh", [value]), lambda t: np.tanh(np.cumsum(np.tanh(f(t)), axis)))


def graphs(save, seeds):
    def family(case):
        for seed in seeds:
            b = case(f"graph_{seed}")
            g = Graph(b, seed, ragged=seed % 2 == 1)
            for _ in range(OPERATORS):
                g.step()
            (x, f), (y, h) = g.values[-1], g.values[-2]
            b.result(g.op("add", [x, y]), lambda t, f=f, h=h: f(t) + h(t))
            b.tolerance = 2e-4

    family.save = save
    return family


FAMILIES = {"random_vjp": graphs("vjp", range(20)), "random_all": graphs("all", range(20, 30)), "random_none": graphs("none", range(30, 40))}
