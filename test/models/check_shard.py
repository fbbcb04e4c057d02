#===- check_shard.py - Cut modules compute what whole ones compute ------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# check_shard.py DT_OPT [--quick] FOLDER...: differentiates each folder's program, cuts
# its modules over 2 and 4 ranks, with and without sequence parallelism, and over
# ranks that share tokens, whose keys also go round, runs
# all ranks in lockstep in double precision on the golden inputs, and compares
# every output, every gradient and every input's gradient with the whole
# module's. Exit 77: a Python package is missing.
#===----------------------------------------------------------------------===
import json
import pathlib
import re
import subprocess
import sys
import zlib

try:
    import numpy as np
    from safetensors.numpy import load_file
except ImportError:
    sys.exit(77)

from gradients import Gradients, dictionaries

PHASES = ["--dt-import", "--dt-modules", "--dt-outline", "--dt-differentiate"]
TOLERANCE = 1e-9


def run(tool, *arguments, stdin=None):
    done = subprocess.run([tool, *arguments], input=stdin, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr.strip()[:2000])
    return done.stdout


def with_attributes(text, attributes):
    """The program's text with attributes on every dist.module."""
    return re.sub(r"^(  dist\.module @\S+ [^{\n]*?)(attributes )?\{", lambda m: f"{m[1]}attributes {{{attributes}" + (", " if m[2] else "} {"), text, flags=re.M)


def random(name, shape):
    return np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape)


class Case:
    """A module's inputs, parameters and sizes: the same for every layout."""

    def __init__(self, module, golden, tensors):
        self.module, self.golden, self.tensors = module, golden, tensors

    def prepare(self, whole):
        """Looks at the differentiated module that is not cut."""
        whole.sizes = {}
        self.inputs = {}
        f = whole.functions["forward.fwd"]
        for (_, type_), attrs in zip(f.blocks[0].arguments, dictionaries(f.attrs.get("arg_attrs", ""))):
            name = attrs["nn.name"].strip('"')
            value = self.find(name)
            dims, dtype = whole.tensor(type_)
            for d, n in zip(dims, value.shape if value is not None else ()):
                if isinstance(d, str) and d.isidentifier():
                    whole.sizes[d] = n
            self.inputs[name] = (type_, value)
        for name, (type_, value) in self.inputs.items():
            if value is None:
                value = random(name, whole.shape(type_)[0])
            self.inputs[name] = value.astype(whole.shape(type_)[1])
        self.sizes = dict(whole.sizes)
        self.parameters = {}
        for name, symbol in whole.symbols.items():
            shape, dtype = whole.shape(symbol.attrs["type"])
            value = random(name, shape) * 0.3
            self.parameters[name] = value if np.issubdtype(dtype, np.floating) else np.arange(value.size).reshape(shape).astype(dtype)

    def find(self, name):
        for key in (f"in.{self.module}.{name}", f"in.{name}"):
            if key in self.tensors:
                return self.tensors[key]
        source = self.golden.get("connections", {}).get(f"{self.module}.{name}")
        if source and f"out.{source}" in self.tensors:
            return self.tensors[f"out.{source}"]
        # Labels belong to a loss.
        matches = [v for k, v in self.tensors.items() if k.startswith("in.") and k.split(".")[-1] == name]
        return matches[0] if matches else None

    def execute(self, text, ranks):
        m = Gradients(text, self.module, self.parameters, self.sizes, ranks)
        f = m.functions["forward.fwd"]
        marks = dictionaries(f.attrs.get("arg_attrs", ""))
        results = m.call("forward.fwd", [[self.inputs[a["nn.name"].strip('"')]] * ranks for a in marks])
        found, residuals = {}, []
        for value, marks in zip(results, dictionaries(f.attrs.get("res_attrs", ""))):
            if "nn.residual" in marks:
                residuals.append(value)
            else:
                found["output " + marks["nn.name"]] = m.whole_of(marks.get("dist.layout"), value)
        # Halves of a split backward function run one after another.
        for name in ("forward.bwd", "forward.bwd.input", "forward.bwd.weight"):
            if name in m.functions:
                self.backward(m, name, residuals, found)
        for name in m.symbols:
            gradient = m.gradient(name)
            if gradient is not None:
                found["gradient of " + name] = gradient
        return m, found

    def backward(self, m, function, residuals, found):
        """Residuals that it returns for the other half come behind the given ones."""
        f = m.functions[function]
        arguments, order = [], iter(range(len(residuals)))
        for (_, type_), a in zip(f.blocks[0].arguments, dictionaries(f.attrs.get("arg_attrs", ""))):
            if "nn.residual" in a:
                number = a["nn.residual"]
                arguments.append(residuals[int(number.split()[0]) if number else next(order)])
            elif "nn.name" in a:
                arguments.append([self.inputs[a["nn.name"].strip('"')]] * m.ranks)
            else:
                arguments.append([random(a["nn.gradient"], m.shape(type_)[0])] * m.ranks)
        for value, a in zip(m.call(function, arguments), dictionaries(f.attrs.get("res_attrs", ""))):
            if "nn.residual" in a:
                residuals.append(value)
            else:
                found["gradient of input " + a["nn.gradient"]] = m.whole_of(None, value)


def compare(wanted, found):
    if wanted.keys() != found.keys():
        return f"other results: {sorted(wanted.keys() ^ found.keys())[:3]}"
    worst, where = 0, ""
    for name, value in wanted.items():
        if value.shape != found[name].shape:
            return f"{name} is {found[name].shape}, not {value.shape}"
        error = np.abs(value - found[name]).max(initial=0) / max(1e-3, np.abs(value).max(initial=0))
        if not error <= worst:
            worst, where = error, name
    return None if worst <= TOLERANCE else f"{where} is off by {worst:.2g}"


def check_folder(tool, folder, layouts):
    golden = json.loads((folder / "golden.json").read_text())
    tensors = load_file(folder / "golden.safetensors")
    text = run(tool, str(folder / "recipe.json"), *PHASES)
    whole = run(tool, "-", "--mlir-print-op-generic", stdin=text)
    modules = re.findall(r"^  dist\.module @(\S+)", text, flags=re.M)
    wanted, cases = {}, {}
    for module in modules:
        cases[module] = Case(module, golden, tensors)
        cases[module].prepare(Gradients(whole, module, {}, {}))
        wanted[module] = cases[module].execute(whole, 1)[1]
    for tp, cp, sequence, ring in layouts:
        ranks, layout = tp * cp, f"tp {tp}" + f" cp {cp}" * (cp > 1) + " sp" * sequence + " ring" * ring
        attributes = f"tp = {tp} : i64, cp = {cp} : i64" + (", sequence_parallel" if sequence else "") + (", context_keys = 2 : i32" if ring else "")
        cut = run(tool, "-", "--dt-shard", "--mlir-print-op-generic", stdin=with_attributes(text, attributes))
        for module in modules:
            try:
                m, found = cases[module].execute(cut, ranks)
                problem = compare(wanted[module], found)
                sent = ", ".join(f"{n} {k.split('.')[1]}" for k, n in sorted(m.sent.items()))
                parts = sum("dist.layout" in p.attrs for p in m.symbols.values())
                note = f"ok ({parts} of {len(m.symbols)} parameters cut; {sent})"
            except Exception as e:  # one broken module must not hide the others
                problem = f"{type(e).__name__}: {e}"
            print(f"{folder.name}/{module} {layout}: {problem or note}", flush=True)
            yield problem is None


def main():
    tool, *folders = sys.argv[1:]
    layouts = [(2, 1, False, False), (2, 1, True, False), (4, 1, False, False), (4, 1, True, False), (1, 2, False, False), (1, 4, False, False), (2, 2, False, False), (2, 2, True, False)]
    layouts += [(1, 4, False, True), (2, 2, True, True)]
    if "--quick" in folders:
        folders.remove("--quick")
        layouts = [layouts[1], layouts[2], layouts[5], layouts[7], layouts[8]]
    ok = [o for folder in folders for o in check_folder(tool, pathlib.Path(folder), layouts)]
    return 0 if all(ok) else 1


if __name__ == "__main__":
    sys.exit(main())
