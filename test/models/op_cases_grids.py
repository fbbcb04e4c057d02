# ===- op_cases_grids.py - pictures of another size ------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Resize with all its modes and filters, and GridSample.
# ===-----------------------------------------------------------------------===
import numpy as np

from op_case import case, f, graph, ints, rng


def resizes():
    x = f(1, 2, 4, 5)
    for mode, coordinates, rounding in [("nearest", "asymmetric", "floor"), ("nearest", "half_pixel", "round_prefer_floor"),
                                        ("nearest", "align_corners", "round_prefer_ceil"), ("nearest", "asymmetric", "ceil"),
                                        ("linear", "half_pixel", "floor"), ("linear", "align_corners", "floor"), ("linear", "pytorch_half_pixel", "floor"),
                                        ("cubic", "half_pixel", "floor"), ("linear", "asymmetric", "floor")]:
        attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
        case(f"Resize-{mode}-{coordinates}-{rounding}-scales", "Resize", {"x": x}, {"val_0": np.array([1, 1, 2, 2], np.float32)}, attrs, order=["x", "", "val_0"])
        case(f"Resize-{mode}-{coordinates}-{rounding}-sizes", "Resize", {"x": x}, {"s": ints(1, 2, 6, 3)}, attrs, order=["x", "", "", "s"], open_dims=False)


def scaled_resizes():
    # Sizes and places are computed in the scales' precision: 10 * 1.3 are 13.
    for size, scale, mode, coordinates, rounding in [(10, 1.3, "nearest", "half_pixel", "round_prefer_floor"), (10, 0.7, "nearest", "asymmetric", "floor"), (20, 1.4, "nearest", "asymmetric", "floor"),
                                                     (30, 1.1, "nearest", "asymmetric", "floor"), (10, 1.3, "linear", "half_pixel", "floor"), (10, 2.3, "linear", "asymmetric", "floor"),
                                                     (10, 0.9, "cubic", "half_pixel", "floor"), (10, 1.4, "nearest", "align_corners", "ceil"),
                                                     # As many rows as before, but others.
                                                     (3, 1.3, "nearest", "half_pixel", "round_prefer_floor"), (3, 1.3, "linear", "half_pixel", "floor"), (9, 1.1, "cubic", "asymmetric", "floor")]:
        attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "nearest_mode": rounding}
        columns = 2 if int(size * scale) == size else 1  # ONNX Runtime copies where no size changes, whatever the scale
        case(f"Resize-{size}-by-{scale}-{mode}-{coordinates}", "Resize", {"x": f(1, 2, size, 4)}, {"val_0": np.array([1, 1, scale, columns], np.float32)}, attrs, order=["x", "", "val_0"])


def filters():
    """Resize whose filter is wider where it makes smaller, or leaves out what is outside."""
    x = f(1, 2, 9, 7)
    for mode in ("linear", "cubic"):
        for coordinates in ("half_pixel", "align_corners", "asymmetric"):
            attrs = {"mode": mode, "coordinate_transformation_mode": coordinates, "antialias": 1}
            case(f"Resize-antialias-{mode}-{coordinates}-sizes", "Resize", {"x": x}, {"s": ints(1, 2, 4, 10)}, attrs, order=["x", "", "", "s"], open_dims=False)
        case(f"Resize-antialias-{mode}-scales", "Resize", {"x": x}, {"val_0": np.array([1, 1, 0.4, 0.6], np.float32)}, {"mode": mode, "antialias": 1}, order=["x", "", "val_0"])
        case(f"Resize-antialias-{mode}-one", "Resize", {"x": x}, {"s": ints(1, 2, 1, 1)}, {"mode": mode, "antialias": 1}, order=["x", "", "", "s"], open_dims=False)
    case("Resize-antialias-cubic-a", "Resize", {"x": x}, {"s": ints(1, 2, 4, 3)}, {"mode": "cubic", "antialias": 1, "cubic_coeff_a": -0.5}, order=["x", "", "", "s"], open_dims=False)
    for antialias in (0, 1):
        for sizes in ((1, 2, 4, 3), (1, 2, 20, 8)):
            attrs = {"mode": "cubic", "exclude_outside": 1, "antialias": antialias}
            case(f"Resize-exclude-outside-{antialias}-{sizes[2]}", "Resize", {"x": x}, {"s": ints(*sizes)}, attrs, order=["x", "", "", "s"], open_dims=False)
    for policy in ("not_larger", "not_smaller"):
        attrs = {"mode": "linear", "axes": [2, 3], "keep_aspect_ratio_policy": policy}
        case(f"Resize-{policy}", "Resize", {"x": x}, {"s": ints(4, 12)}, attrs, order=["x", "", "", "s"])
    case("Resize-none", "Resize", {"x": f(0, 2, 4, 4)}, {"s": ints(0, 2, 2, 8)}, {"mode": "linear", "antialias": 1}, order=["x", "", "", "s"], open_dims=False)
    case("Resize-antialias-axes", "Resize", {"x": x}, {"s": ints(3)}, {"mode": "linear", "antialias": 1, "axes": [-2]}, order=["x", "", "", "s"])


def off_kinks(shape, sizes, corners):
    """A grid for these sizes (of the last axis first) whose places are not near elements or half way between: there are kinks and steps."""
    grid = np.zeros(shape, np.float32)
    for place in np.ndindex(shape):
        size = sizes[place[-1]]
        while True:
            at = rng.uniform(-1.5, size + 0.5)
            g = 2 * at / (size - 1) - 1 if corners else (2 * at + 1) / size - 1
            if 0.15 < at % 0.5 < 0.35 and abs(2 * g - round(2 * g)) > 0.1:
                break
        grid[place] = g
    return grid


def grid_samples():
    for mode in ("linear", "nearest", "cubic"):
        for padding in ("zeros", "border", "reflection"):
            for corners in (0, 1):
                attrs = {"mode": mode, "padding_mode": padding, "align_corners": corners}
                case(f"GridSample-{mode}-{padding}-{corners}", "GridSample", {"x": f(2, 3, 4, 5), "g": off_kinks((2, 3, 2, 2), (5, 4), corners)}, None, attrs, open_dims=False)
    # One grid for all items, of which there may be none.
    spread = [("Shape", ["x"], ["n"], {"end": 1}), ("Concat", ["n", "s"], ["to"], {"axis": 0}), ("Expand", ["g", "to"], ["e"], {})]
    for mode in ("linear", "nearest", "cubic"):
        graph(f"GridSample-{mode}-open", [*spread, ("GridSample", ["x", "e"], ["y"], {"mode": mode})], {"x": f(2, 3, 4, 5)}, {"g": off_kinks((1, 3, 2, 2), (5, 4), 0), "s": ints(3, 2, 2)})
    case("GridSample-16", "GridSample", {"x": f(2, 1, 4, 5), "g": off_kinks((2, 1, 6, 2), (5, 4), 0)}, None, {"mode": "bilinear"}, opset=16, open_dims=False)
    case("GridSample-16-cubic", "GridSample", {"x": f(2, 1, 4, 5), "g": off_kinks((2, 6, 1, 2), (5, 4), 0)}, None, {"mode": "bicubic"}, opset=16, open_dims=False)
    case("GridSample-3d", "GridSample", {"x": f(2, 2, 3, 4, 2), "g": off_kinks((2, 2, 1, 3, 3), (2, 4, 3), 0)}, None, {"padding_mode": "border"}, open_dims=False)
    for padding in ("zeros", "border", "reflection"):
        case(f"GridSample-one-{padding}", "GridSample", {"x": f(2, 2, 1, 1), "g": off_kinks((2, 2, 2, 2), (1, 1), 0)}, None, {"padding_mode": padding}, open_dims=False)
