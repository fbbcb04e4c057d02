# ===- op_cases_products.py - products, convolutions, attention ------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Also windows that are wider than what they go over, and rows of attention without a key.
# ===-----------------------------------------------------------------------===
import numpy as np

from op_case import I64, case, f, graph


def products():
    w = f(4, 5)
    case("MatMul", "MatMul", {"x": f(2, 3, 4), "y0": f(2, 4, 5)})
    case("MatMul-broadcast", "MatMul", {"x": f(2, 1, 3, 4), "y0": f(6, 4, 5)})
    case("MatMul-parameter", "MatMul", {"x": f(2, 3, 4)}, {"w": w})
    case("MatMul-1d-2d", "MatMul", {"x": f(4)}, {"w": w}, open_dims=False)
    case("MatMul-2d-1d", "MatMul", {"x": f(3, 4), "y0": f(4)})
    case("MatMul-1d-1d", "MatMul", {"x": f(4), "y0": f(4)}, open_dims=False)
    case("MatMul-3d-1d", "MatMul", {"x": f(2, 3, 4)}, {"w": f(4)})
    graph("MatMul-transposed", [("Transpose", ["w"], ["wt"], {"perm": [1, 0]}), ("MatMul", ["x", "wt"], ["y"], {})], {"x": f(2, 3, 4)}, {"w": f(5, 4)})
    for ta in (0, 1):
        for tb in (0, 1):
            a, b = f(*((4, 3) if ta else (3, 4))), f(*((5, 4) if tb else (4, 5)))
            case(f"Gemm-{ta}{tb}", "Gemm", {"x": a}, {"w": b, "c": f(5)}, {"transA": ta, "transB": tb}, open_dims=not ta)
            case(f"Gemm-data-{ta}{tb}", "Gemm", {"x": a, "y0": b}, None, {"transA": ta, "transB": tb}, open_dims=False)
    case("Gemm-alpha-beta", "Gemm", {"x": f(3, 4)}, {"w": w, "c": f(5)}, {"alpha": 0.5, "beta": 2.0})
    case("Gemm-c-column", "Gemm", {"x": f(3, 4)}, {"w": w, "c": f(3, 1)}, open_dims=False)
    case("Gemm-c-row", "Gemm", {"x": f(3, 4)}, {"w": w, "c": f(1, 5)})
    for equation, shapes in [("bij,bjk->bik", [(2, 3, 4), (2, 4, 5)]), ("bhid,bhjd->bhij", [(2, 2, 3, 4), (2, 2, 5, 4)]),
                             ("ij,kj->ik", [(3, 4), (5, 4)]), ("bqd,kd->bqk", [(2, 3, 4), (5, 4)]), ("ij->ji", [(3, 4)]),
                             ("ijk->ik", [(2, 3, 4)]), ("bi,bi->b", [(2, 3), (2, 3)]), ("i,j->ij", [(3,), (4,)]),
                             ("abc,cde,ef->abdf", [(2, 3, 4), (4, 2, 3), (3, 2)]), ("ij,jk", [(3, 4), (4, 2)]),
                             ("nhwpqc->nchpwq", [(2, 2, 2, 3, 3, 4)])]:
        case(f"Einsum {equation}", "Einsum", {f"x{i}": f(*s) for i, s in enumerate(shapes)}, None, {"equation": equation}, open_dims=False)
    # An axis of one element goes with every size; a label twice in an operand is its diagonal.
    for k, (equation, shapes) in enumerate([("ij,jk->ik", [(3, 1), (4, 2)]), ("ij,jk->ik", [(3, 4), (1, 2)]), ("bij,bjk->bik", [(1, 3, 4), (2, 4, 5)]), ("bij,bjk->bik", [(2, 3, 4), (1, 4, 5)]),
                                            ("bij,bij->bij", [(2, 1, 4), (1, 3, 4)]), ("bi,bi->b", [(2, 3), (2, 1)]), ("bi,bi->b", [(1, 1), (2, 3)]), ("bi,bi,bi->b", [(2, 1), (1, 3), (2, 3)]),
                                            ("bi,bi,i->bi", [(2, 1), (1, 1), (3,)]), ("ij,ij->", [(1, 4), (3, 1)]), ("ij,ij->ij", [(1, 1), (1, 1)]), ("ii->i", [(3, 3)]), ("ii", [(3, 3)]),
                                            ("bii->b", [(2, 3, 3)]), ("ibi,i->bi", [(3, 2, 3), (3,)]), ("ii,i->i", [(1, 1), (4,)]), ("iii->i", [(3, 3, 3)]), ("iijj,j->i", [(2, 2, 3, 3), (3,)]),
                                            ("...ii->...i", [(2, 2, 3, 3)]), ("...ij,...jk->...ik", [(2, 1, 3, 4), (5, 4, 2)]), ("b...,...->b...", [(2, 3, 4), (4,)]), ("...i,i", [(2, 3, 4), (4,)])]):
        case(f"Einsum-ones-{k} {equation}", "Einsum", {f"x{i}": f(*s) for i, s in enumerate(shapes)}, None, {"equation": equation}, open_dims=False)
    case("Einsum-ones-open", "Einsum", {"x": f(2, 3, 1), "y0": f(1, 3, 4)}, None, {"equation": "bij,bij->bij"})


def convolutions():
    x1, x2, x3 = f(2, 4, 9), f(2, 4, 8, 9), f(1, 2, 5, 6, 4)
    case("Conv1", "Conv", {"x": x1}, {"w": f(6, 4, 3), "b": f(6)}, {"pads": [1, 2]})
    case("Conv2-stride", "Conv", {"x": x2}, {"w": f(6, 4, 3, 2)}, {"strides": [2, 1], "pads": [1, 0, 1, 1], "dilations": [1, 2]})
    case("Conv2-group", "Conv", {"x": x2}, {"w": f(6, 2, 3, 3), "b": f(6)}, {"group": 2})
    case("Conv2-depthwise", "Conv", {"x": x2}, {"w": f(4, 1, 3, 3)}, {"group": 4, "pads": [1, 1, 1, 1]})
    case("Conv3", "Conv", {"x": x3}, {"w": f(3, 2, 2, 3, 1)}, {"kernel_shape": [2, 3, 1]})
    for mode in ("SAME_UPPER", "SAME_LOWER", "VALID"):
        case(f"Conv-{mode}", "Conv", {"x": x2}, {"w": f(3, 4, 2, 3)}, {"auto_pad": mode, "strides": [2, 2]})
        case(f"MaxPool-{mode}", "MaxPool", {"x": x2}, None, {"auto_pad": mode, "kernel_shape": [2, 3], "strides": [2, 2]})
    case("ConvTranspose1", "ConvTranspose", {"x": x1}, {"w": f(4, 3, 3), "b": f(3)}, {"strides": [2], "pads": [1, 0], "output_padding": [1]})
    case("ConvTranspose2", "ConvTranspose", {"x": x2}, {"w": f(4, 3, 3, 3)}, {"strides": [2, 1], "dilations": [1, 2], "pads": [1, 1, 1, 1]})
    case("ConvTranspose2-group", "ConvTranspose", {"x": x2}, {"w": f(4, 3, 2, 2), "b": f(6)}, {"group": 2, "strides": [2, 2]})
    case("ConvTranspose2-shape", "ConvTranspose", {"x": x2}, {"w": f(4, 3, 3, 3)}, {"strides": [2, 2], "output_shape": [16, 18]})
    case("ConvTranspose3", "ConvTranspose", {"x": x3}, {"w": f(2, 3, 2, 2, 2)}, {"strides": [2, 2, 2]})
    case("MaxPool1", "MaxPool", {"x": x1}, None, {"kernel_shape": [3], "strides": [2]})
    case("MaxPool2-ceil", "MaxPool", {"x": x2}, None, {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "pads": [1, 1, 0, 0]})
    case("MaxPool2-dilated", "MaxPool", {"x": x2}, None, {"kernel_shape": [2, 2], "dilations": [2, 3]})
    case("AveragePool2", "AveragePool", {"x": x2}, None, {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1]})
    case("AveragePool2-include", "AveragePool", {"x": x2}, None, {"kernel_shape": [3, 2], "pads": [1, 0, 1, 1], "count_include_pad": 1})
    case("AveragePool3", "AveragePool", {"x": x3}, None, {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]})
    case("GlobalAveragePool", "GlobalAveragePool", {"x": x2})
    case("GlobalMaxPool", "GlobalMaxPool", {"x": x2})


def attention():
    q, k, v = f(2, 4, 3, 8), f(2, 2, 5, 8), f(2, 2, 5, 8)
    case("Attention", "Attention", {"q": q, "k": f(2, 4, 5, 8), "v": f(2, 4, 5, 8)}, opset=23)
    case("Attention-gqa", "Attention", {"q": q, "k": k, "v": v}, None, {"scale": 0.3}, opset=23)
    case("Attention-causal", "Attention", {"q": q, "k": f(2, 4, 3, 8), "v": f(2, 4, 3, 8)}, None, {"is_causal": 1}, opset=23)
    case("Attention-mask", "Attention", {"q": q, "k": f(2, 4, 5, 8), "v": f(2, 4, 5, 8), "m": f(3, 5)}, opset=23, open_dims=False)
    case("Attention-bool", "Attention", {"q": q, "k": f(2, 4, 5, 8), "v": f(2, 4, 5, 8), "m": np.tri(3, 5) > 0}, opset=23, open_dims=False)
    case("Attention-3d", "Attention", {"q": f(2, 3, 32), "k": f(2, 5, 16), "v": f(2, 5, 16)}, None, {"q_num_heads": 4, "kv_num_heads": 2}, opset=23)
    case("Attention-softcap", "Attention", {"q": q, "k": f(2, 4, 5, 8), "v": f(2, 4, 5, 8)}, None, {"softcap": 2.0}, opset=23)
    case("Attention-softcap-mask", "Attention", {"q": q, "k": f(2, 4, 5, 8), "v": f(2, 4, 5, 8), "m": f(3, 5)}, None, {"softcap": 1.5}, opset=23, open_dims=False)
    angles = f(6, 4)
    for interleaved in (0, 1):
        case(f"Rotary-{interleaved}", "RotaryEmbedding", {"x": q, "p": np.array([[0, 1, 2], [3, 4, 5]], I64)},
             {"val_1": np.cos(angles), "val_2": np.sin(angles)}, {"interleaved": interleaved}, opset=23, order=["x", "val_1", "val_2", "p"])
    case("Rotary-3d", "RotaryEmbedding", {"x": f(2, 3, 32), "p": np.array([[0, 1, 2], [3, 4, 5]], I64)},
         {"val_1": np.cos(angles), "val_2": np.sin(angles)}, {"num_heads": 4}, opset=23, order=["x", "val_1", "val_2", "p"])


def masked():
    """Scores, masks as exporters write them, softmax: also for a query that sees no key."""
    lowest = np.finfo(np.float32).min
    visible = np.array([[[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 0]], [[0, 0, 0, 0, 1], [1, 1, 0, 1, 0], [0, 0, 0, 0, 0]]], bool)[:, None]
    other = np.array([[1, 1, 0, 1, 1], [0, 1, 1, 0, 0], [0, 1, 0, 0, 1]], bool)
    added = lambda s, m, out, n: [("Where", [m, "val_8", f"val_{n}"], [out + "m"], {}), ("Add", [s, out + "m"], [out], {})]
    put = lambda s, m, out, n: [("Where", [m, s, f"val_{n}"], [out], {})]
    guard = [("IsNaN", ["p"], ["nan"], {}), ("Where", ["nan", "val_8", "p"], ["pg"], {})]
    for name, masks, hidden in [("number", added("s", "m", "t", 9), -1e4), ("far-number", added("s", "m", "t", 9), -1e9), ("lowest", added("s", "m", "t", 9), lowest),
                                ("lowest-put", put("s", "m", "t", 9), lowest), ("number-put", put("s", "m", "t", 9), -1e4),
                                ("two-lowest", added("s", "m", "u", 9) + added("u", "val_7", "t", 9), lowest), ("two-put", put("s", "m", "u", 9) + put("u", "val_7", "t", 9), lowest),
                                ("put-then-added", put("s", "m", "u", 9) + added("u", "val_7", "t", 9), lowest), ("guarded", added("s", "m", "t", 9), -np.inf)]:
        end = guard if name == "guarded" else []
        nodes = [("MatMul", ["q", "k"], ["s"], {}), *masks, ("Softmax", ["t"], ["p"], {"axis": -1}), *end, ("MatMul", ["pg" if end else "p", "v"], ["y"], {})]
        graph(f"masked-{name}", nodes, {"q": f(2, 2, 3, 4), "k": f(2, 2, 4, 5), "v": f(2, 2, 5, 4), "m": visible},
              {"val_7": other, "val_8": np.float32(0), "val_9": np.float32(hidden)}, open_dims=False)


def empty_rows():
    q = f(2, 4, 3, 8)
    visible = np.array([[1, 0, 1, 0, 0], [0, 0, 0, 0, 0], [1, 1, 1, 1, 0]], bool)  # query 1 sees no key
    case("Attention-empty-row", "Attention", {"q": q, "k": f(2, 4, 5, 8), "v": f(2, 4, 5, 8), "m": visible}, opset=23, open_dims=False)
    case("Attention-empty-row-additive", "Attention", {"q": q, "k": f(2, 4, 5, 8), "v": f(2, 4, 5, 8)}, {"val_0": np.where(visible, 0, -np.inf).astype(np.float32)}, opset=23, open_dims=False)
    masked()


def wide_windows():
    # Networks for images of any size pool all of a smaller one; a window may begin inside and reach over the end.
    everywhere = {"kernel_shape": [2560, 1280], "strides": [2560, 1280], "ceil_mode": 1}
    x = f(2, 4, 7, 6)
    case("AveragePool-all", "AveragePool", {"x": x}, None, everywhere)
    case("AveragePool-all-include", "AveragePool", {"x": x}, None, {**everywhere, "count_include_pad": 1})
    case("AveragePool-all-padded", "AveragePool", {"x": x}, None, {**everywhere, "pads": [1, 2, 3, 0], "count_include_pad": 1})
    case("MaxPool-all", "MaxPool", {"x": x}, None, everywhere)
    case("AveragePool-1", "AveragePool", {"x": f(2, 4, 1, 1)}, None, {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1})
    case("AveragePool-over-end", "AveragePool", {"x": f(2, 4, 5, 3)}, None, {"kernel_shape": [2, 2], "strides": [2, 2], "ceil_mode": 1})
    case("AveragePool-one-axis", "AveragePool", {"x": f(2, 4, 9)}, None, {"kernel_shape": [11], "strides": [4], "ceil_mode": 1})
