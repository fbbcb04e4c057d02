# ===- slopes.py - PyTorch's slopes where functions have none -----------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Functions at their kinks, ties, bounds, zeros and saturated ends, and attention
# whose queries may see no key: one module with a parameter for every input. Its
# graph and the gradients that PyTorch gives are kept in test/e2e/slopes, so
# that they are compared without PyTorch too.
# ===-----------------------------------------------------------------------===
"""python -m export.slopes FOLDER: writes model.onnx, recipe.json and slopes.safetensors."""

from __future__ import annotations

import json
import pathlib
import sys
import warnings

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from torch import nn

from .exporting import export

T, inf, nan = torch.tensor, float("inf"), float("nan")
CASES = {}


def case(name, function, *inputs):
    """A function of tensors, and where it is taken."""
    CASES[name.replace(".", "_").replace("-", "minus_")] = function, [x if isinstance(x, torch.Tensor) else T(x, dtype=torch.float32) for x in inputs]


def kinks():
    case("relu", torch.relu, [0., -0., 1, -1])
    case("relu6", F.relu6, [0., 6, 3, 7, -1])
    case("hardtanh", F.hardtanh, [-1., 1, 0, 2, -2])
    case("hardtanh_mod", nn.Hardtanh(-2., 2), [-2., 2, 0, 3, -3])
    case("clamp", lambda x: x.clamp(-1, 1), [-1., 1, 0, 2, -2])
    case("clamp_min", lambda x: x.clamp(min=0), [-1., 1, 0])
    case("clamp_max", lambda x: x.clamp(max=0), [-1., 1, 0])
    case("clamp_min_fn", lambda x: torch.clamp_min(x, 0), [-1., 1, 0])
    case("clamp_max_fn", lambda x: torch.clamp_max(x, 0), [-1., 1, 0])
    case("clip", lambda x: torch.clip(x, -1, 1), [-1., 1, 0, 2])
    case("clamp_tensor0", lambda x: x.clamp(T(-1.), T(1.)), [-1., 1, 0, 2])
    case("clamp_tensor1", lambda x: x.clamp(T([-1.]*4), T([1.]*4)), [-1., 1, 0, 2])
    case("clamp_tensor_min", lambda x: x.clamp(min=T(0.)), [-1., 1, 0, 2])
    case("clamp_tensor_grad", lambda x, a, b: x.clamp(a, b), [-1., 1, 0, 2,-3], [-1.]*5, [1.]*5)
    case("clamp_equal_bounds", lambda x: x.clamp(1, 1), [1., 0, 2])
    case("clamp_crossed", lambda x: x.clamp(2, 1), [1., 0, 2, 3])
    case("maximum_const", lambda x: torch.maximum(x, T(0.)), [-1., 1, 0])
    case("minimum_const", lambda x: torch.minimum(x, T(0.)), [-1., 1, 0])
    case("maximum_zeros", lambda x: torch.maximum(x, torch.zeros_like(x)), [-1., 1, 0])
    case("max_other", lambda x, y: torch.max(x, y), [-1., 1, 0], [0., 0, 0])
    case("min_other", lambda x, y: torch.min(x, y), [-1., 1, 0], [0., 0, 0])
    case("max_same", lambda x: torch.maximum(x, x), [-1., 1, 0])
    case("abs", torch.abs, [0., 1, -1])
    case("leaky", F.leaky_relu, [0., 1, -1])
    case("prelu", lambda x, a: F.prelu(x, a), [[0., 1, -1]], [0.25])
    case("elu", F.elu, [0., 1, -1])
    case("elu2", lambda x: F.elu(x, 2.0), [0., 1, -1])
    case("selu", F.selu, [0., 1, -1])
    case("celu", F.celu, [0., 1, -1])
    case("celu2", lambda x: F.celu(x, 2.0), [0., 1, -1])
    case("threshold", lambda x: F.threshold(x, 1, 20.), [0., 1, 2])
    case("threshold0", lambda x: F.threshold(x, 1, 0.), [0., 1, 2])
    case("hardsigmoid", F.hardsigmoid, [-3., 3, 0, 4, -4])
    case("hardswish", F.hardswish, [-3., 3, 0, 4, -4])
    case("softshrink", F.softshrink, [-.5, .5, 0, 1, -1])
    case("hardshrink", F.hardshrink, [-.5, .5, 0, 1, -1])
    case("softsign", F.softsign, [0., 1, -1])
    case("tanhshrink", F.tanhshrink, [0., 1, -1])
    case("softplus", lambda x: F.softplus(x, 1, 20), [0., 20, 21, 19, -30])
    case("softplus2", lambda x: F.softplus(x, 2, 3), [0., 1.5, 2, 1])
    case("logsigmoid", F.logsigmoid, [0., 100, -100])
    case("mish", F.mish, [0., 100, -100])
    case("silu", F.silu, [0., 100, -100, -1e4])
    case("gelu", F.gelu, [0., 100, -100])
    case("gelu_t", lambda x: F.gelu(x, approximate="tanh"), [0., 100, -100])
    case("glu", lambda x: F.glu(x), [[0., 1]])
    case("amax", lambda x: x.amax(1), [[1., 1, 0], [2, 1, 0], [3, 3, 3]])
    case("amin", lambda x: x.amin(1), [[1., 1, 3], [2, 1, 0], [3, 3, 3]])
    case("max_dim", lambda x: x.max(1).values, [[1., 1, 0], [2, 1, 0], [3, 3, 3]])
    case("max_dim_keep", lambda x: x.max(1, keepdim=True)[0], [[1., 1, 0], [2, 1, 0], [3, 3, 3]])
    case("min_dim", lambda x: x.min(1).values, [[1., 1, 3], [2, 1, 0], [3, 3, 3]])
    case("max_all", lambda x: x.max(), [[1., 1, 0], [2, 1, 0], [3, 3, 3]])
    case("min_all", lambda x: x.min(), [[1., 1, 3], [2, 1, 1], [3, 3, 3]])
    case("aminmax", lambda x: sum(torch.aminmax(x, dim=1)), [[1., 1, 0], [2, 1, 0], [3, 3, 3]])
    case("sort", lambda x: x.sort(1).values * T([1., 2, 4]), [[1., 1, 0], [2, 1, 0], [3, 3, 3]])
    case("sort_desc", lambda x: x.sort(1, descending=True).values * T([1., 2, 4]), [[1., 1, 0], [2, 1, 0], [3, 3, 3]])
    case("topk", lambda x: x.topk(2, 1).values * T([1., 2]), [[1., 1, 0], [2, 1, 1], [3, 3, 3]])
    case("topk_small", lambda x: x.topk(2, 1, largest=False).values * T([1., 2]), [[1., 1, 0], [2, 1, 1], [3, 3, 3]])
    case("maxpool1", lambda x: F.max_pool1d(x, 2), [[[1., 1, 0, 0, 2, 1]]])
    case("maxpool2", lambda x: F.max_pool2d(x, 2), [[[[1., 1, 0, 0], [1, 1, 2, 2]]]])
    case("maxpool_pad", lambda x: F.max_pool2d(x, 3, 2, 1), [[[[0., 0, 0, 0]]*4]])
    case("maxpool3", lambda x: F.max_pool3d(x, 2), [[[[[1., 1], [1, 1]], [[1., 1], [1, 1]]]]])
    case("adaptive_max", lambda x: F.adaptive_max_pool2d(x, 1), [[[[1., 1, 0, 0], [1, 1, 2, 2]]]])
    case("adaptive_max1", lambda x: F.adaptive_max_pool1d(x, 2), [[[1., 1, 0, 0, 2, 2]]])
    case("floor", lambda x: x.floor() , [0., .5, 1])
    case("ceil", lambda x: x.ceil() , [0., .5, 1])
    case("round", lambda x: x.round() , [0., .5, 1.5])
    case("trunc", lambda x: x.trunc() , [0., .5, -1.5])
    case("frac", lambda x: x.frac() , [0., .5, -1.5, 1])
    case("sign", lambda x: x.sign() , [0., .5, -1.5, 1])
    case("where", lambda x: torch.where(x > 0, x, 2*x) , [0., .5, -1.5, 1])
    case("where_ge", lambda x: torch.where(x >= 0, x, 2*x) , [0., .5, -1.5, 1])
    case("masked_fill", lambda x: x.masked_fill(x <= 0, 0.) , [0., .5, -1.5, 1])
    case("fmod", lambda x: torch.fmod(x, 1.5) , [0., 1.5, -1.5, 1, 3])
    case("remainder", lambda x: torch.remainder(x, 1.5) , [0., 1.5, -1.5, 1, 3])
    case("fmod_t", lambda x, y: torch.fmod(x, y) , [0., 1.5, -1.5, 1, 3], [1.5]*5)
    case("remainder_t", lambda x, y: torch.remainder(x, y) , [0., 1.5, -1.5, 1, 3], [1.5]*5)
    for e in (0, 0.5, 1, 1.5, 2, 3, -1, -0.5, -2, 2.5):
        case(f"pow_{e}", lambda x, e=e: x ** e, [0., 1., 4.])
    case("pow_neg", lambda x: x ** 3, [-2., -0.])
    case("pow_tensor", lambda x, y: x ** y, [0., 0, 0, 0, 0, 1, 2], [0., 1, 2, 0.5, -1, 0, 0])
    case("pow_const_tensor", lambda x: x ** T([0., 1, 2, 0.5]), [0., 0, 0, 0])
    case("pow_base", lambda y: 2 ** y, [0., 1, -1])
    case("pow_base0", lambda y: torch.pow(0., y), [0., 1, 2])
    case("sqrt", torch.sqrt, [0., 1])
    case("rsqrt", torch.rsqrt, [0., 1])
    case("sqrt_of_sq", lambda x: (x * x).sqrt(), [0., 1])
    case("sqrt_relu", lambda x: torch.sqrt(torch.relu(x)), [0., 1])
    case("where_sqrt", lambda x: torch.where(x > 0, x.sqrt(), 0 * x), [0., 1])
    case("where_trick", lambda x: torch.where(x > 0, torch.where(x > 0, x, 1.).sqrt(), 0.), [0., 1, -1])
    case("reciprocal", torch.reciprocal, [0., 1])
    case("log", torch.log, [0., 1])
    case("log1p", torch.log1p, [0., -1])
    case("xlogy", lambda x: torch.xlogy(x, T([0., 1, 2, 1])), [0., 0, 0, 1])
    case("xlogy_c", lambda x: x * torch.log(x), [0., 1])
    case("norm2", lambda x: x.norm(dim=1), [[0., 0], [3, 4]])
    case("norm2_all", lambda x: x.norm(), [[0., 0], [0, 0]])
    case("norm1", lambda x: x.norm(p=1, dim=1), [[0., 0], [3, -4]])
    case("norm3", lambda x: x.norm(p=3, dim=1), [[0., 0], [3, -4], [0, 1]])
    case("norm15", lambda x: x.norm(p=1.5, dim=1), [[0., 0], [3, -4], [0, 1]])
    case("norm05", lambda x: x.norm(p=0.5, dim=1), [[3., -4], [0, 1]])
    case("norminf", lambda x: x.norm(p=inf, dim=1), [[0., 0], [4, -4], [0, 1]])
    case("normninf", lambda x: x.norm(p=-inf, dim=1), [[0., 0], [4, -4], [0, 1]])
    case("normfro", lambda x: torch.linalg.norm(x), [[0., 0], [0, 0]])
    case("vector_norm", lambda x: torch.linalg.vector_norm(x, dim=1), [[0., 0], [3, 4]])
    case("matrix_norm", lambda x: torch.linalg.matrix_norm(x), [[0., 0], [0, 0]])
    case("normalize", lambda x: F.normalize(x, dim=1), [[0., 0], [3, 4], [1e-13, 0]])
    case("normalize1", lambda x: F.normalize(x, p=1, dim=1), [[0., 0], [3, 4]])
    case("cosine", lambda x, y: F.cosine_similarity(x, y), [[0., 0], [3, 4], [0, 0], [1, 2]], [[1., 0], [3, 4], [0, 0], [0, 0]])
    case("pairwise", lambda x, y: F.pairwise_distance(x, y), [[0., 0], [3, 4]], [[0., 0], [1, 1]])
    case("pairwise0", lambda x, y: F.pairwise_distance(x, y, eps=0), [[0., 0], [3, 4]], [[0., 0], [1, 1]])
    case("dist", lambda x, y: torch.dist(x, y), [[0., 0], [3, 4]], [[0., 0], [3, 4]])
    case("std", lambda x: x.std(1), [[1., 1], [3, 4]])
    case("var", lambda x: x.var(1), [[1., 1], [3, 4]])
    case("std0", lambda x: x.std(1, unbiased=False), [[1., 1], [3, 4]])
    case("atan2", lambda y, x: torch.atan2(y, x), [0., 1, 0, 0, -1], [1., 0, -1, 0, 0])
    case("tan", torch.tan, [0., 1])
    case("asin", torch.asin, [0., 1, -1])
    case("acos", torch.acos, [0., 1, -1])
    case("acosh", torch.acosh, [2., 1])
    case("atanh", torch.atanh, [0., 1, -1])
    case("prod", lambda x: x.prod(1), [[0., 2, 3], [0, 0, 1], [1, 2, 3]])
    case("prod_all", lambda x: x.prod(), [[0., 2, 3], [1, 2, 3]])
    case("logsumexp", lambda x: x.logsumexp(1), [[0., 0, 0], [1, 1, 1]])
    case("lse_inf", lambda x: (x + T([[-inf, -inf], [0, -inf]])).logsumexp(1), [[0., 0], [1, 1]])
    case("softmax_inf", lambda x: (x + T([[0, -inf], [0, -inf]])).softmax(1), [[0., 0], [1, 1]])
    case("hinge", lambda x: F.relu(1 - x), [1., 0, 2])
    case("l1", lambda x, y: F.l1_loss(x, y), [1., 0, 2], [1., 1, 1])
    case("smooth_l1", lambda x, y: F.smooth_l1_loss(x, y, reduction="none"), [1., 0, 2, 1.5], [1., 1, 1, 1])
    case("smooth_l1_b", lambda x, y: F.smooth_l1_loss(x, y, reduction="none", beta=0.5), [1., 0.5, 2, 1.5], [1., 1, 1, 1])
    case("smooth_l1_0", lambda x, y: F.smooth_l1_loss(x, y, reduction="none", beta=0.), [1., 0.5, 2, 1.5], [1., 1, 1, 1])
    case("huber", lambda x, y: F.huber_loss(x, y, reduction="none"), [1., 0, 2, 1.5], [1., 1, 1, 1])
    case("hinge_emb", lambda x: F.hinge_embedding_loss(x, T([1., -1, -1])), [1., 1, 0])
    case("margin_rank", lambda x, y: F.margin_ranking_loss(x, y, T([1., 1, -1]), margin=1.), [1., 2, 0], [1., 1., 1])
    case("triplet", lambda a, p, n: F.triplet_margin_loss(a, p, n), [[0., 0]], [[0., 0]], [[1., 0]])
    case("soft_margin", lambda x: F.soft_margin_loss(x, T([1., -1, 1])), [0., 0, 200])
    case("multi_margin", lambda x: F.multi_margin_loss(x, T([0, 1])), [[1., 0, 0], [0, 1, 2]])
    case("cos_emb", lambda x, y: F.cosine_embedding_loss(x, y, T([1., -1])), [[1., 0], [1, 0]], [[0., 0], [0., 1]])
    case("bce", lambda x: F.binary_cross_entropy(x, T([1., 0, 0.5, 1])), [1., 0, .5, .2])
    case("bce_sat", lambda x: F.binary_cross_entropy(torch.sigmoid(x), T([1., 0, 1, 0, 1])), [200., -200, -200, 200, 0])
    case("bce_logits", lambda x: F.binary_cross_entropy_with_logits(x, T([1., 0, 1, 0, 1, 1])), [200., -200, -200, 200, 0, 1e6])
    case("bce_logits_pw", lambda x: F.binary_cross_entropy_with_logits(x, T([1., 0, 1, 0, 1, 1]), pos_weight=T(2.)), [200., -200, -200, 200, 0, 1e6])
    case("ce_huge", lambda x: F.cross_entropy(x, T([0, 1, 2])), [[1e6, 0, 0], [1e6, 0, 0], [0, 0, 1e30]])
    case("log_softmax_huge", lambda x: F.log_softmax(x, 1)[:, 0], [[1e6, 0, 0], [-1e6, 0, 0]])
    case("log_of_softmax", lambda x: torch.log(x.softmax(1))[:, 0], [[1., 0, 0], [-90, 0, 0]])
    case("nll", lambda x: F.nll_loss(F.log_softmax(x, 1), T([0, 1, 2])), [[1e6, 0, 0], [1e6, 0, 0], [0, 0, 1e30]])
    case("kl", lambda x: F.kl_div(F.log_softmax(x, 1), T([[1., 0, 0]]), reduction="sum"), [[1., 2, 3]])
    case("poisson", lambda x: F.poisson_nll_loss(x, T([1., 0])), [0., 1])
    case("layer_norm", lambda x: F.layer_norm(x, (3,)), [[1., 1, 1], [0, 0, 0]])
    case("rms_norm", lambda x: F.rms_norm(x, (3,)), [[1., 1, 1], [0, 0, 0]])
    case("group_norm", lambda x: F.group_norm(x, 1), [[1., 1, 1], [0, 0, 0]])
    case("nan_to_num", lambda x: torch.nan_to_num(x), [0., inf, nan])
    case("lerp", lambda x, y: torch.lerp(x, y, 0.3), [0., 1], [1., 1])
    case("addcdiv", lambda x, y: torch.addcdiv(x, x, y), [0., 3], [1., 4])
    case("erf", torch.erf, [0., 10])
    case("expm1", torch.expm1, [0., 1])
    case("sinc", torch.sinc, [0., 1])
    case("scatter_amax", lambda x, s: x.scatter_reduce(0, T([0, 0, 1]), s, "amax"), [1., 1, 2], [1., 1, 1])
    case("two_clamps", lambda x: x.clamp(-1, 1).clamp(0, 1), [-1., 0, 1, .5])
    case("clamp_clamp2", lambda x: x.clamp(min=0).clamp(max=1), [-1., 0, 1, .5])
    case("min_max_scalar_chain", lambda x: torch.minimum(torch.maximum(x, T(0.)), T(1.)), [-1., 0, 1, .5])


def saturated():
    case("cross_entropy_large", lambda x: F.cross_entropy(x, T([0, 0, 1])), [[1e8, 1e8, 0], [1e6, 1e6, 1e6], [2e3, 1999, 0]])
    case("log_softmax_large", lambda x: F.log_softmax(x, 1), [[-1e9, -1e9, -1e9], [1e6, 1e6, 0]])


def attention():
    torch.manual_seed(0)
    q, k, v, bias = (*(torch.randn(2, 2, 3, 4) for _ in range(3)), torch.randn(2, 1, 3, 3))
    seen = T([[[[1, 0, 1], [0, 0, 0], [1, 1, 1]]], [[[0, 0, 0]] * 3]]).bool()  # a query and a sample without a key
    past, lowest = torch.ones(3, 3).tril().bool(), torch.finfo(torch.float32).min
    hidden = torch.zeros(seen.shape).masked_fill(~seen, -inf)
    sdpa = F.scaled_dot_product_attention
    scores = lambda q, k: q @ k.transpose(-1, -2) / 2
    case("sdpa_bool", lambda q, k, v: sdpa(q, k, v, attn_mask=seen), q, k, v)
    case("sdpa_bool_keys", lambda q, k, v: sdpa(q, k, v, attn_mask=seen[:, :, 1:2]), q, k, v)
    case("sdpa_bool_causal", lambda q, k, v: sdpa(q, k, v, attn_mask=seen & past), q, k, v)
    case("sdpa_bool_groups", lambda q, k, v: sdpa(q, k[:, :1], v[:, :1], attn_mask=seen, enable_gqa=True), q, k, v)
    case("sdpa_bool_scale", lambda q, k, v: sdpa(q, k, v, attn_mask=seen, scale=1.0), q, k, v)
    case("sdpa_nothing", lambda q, k, v: sdpa(q, k, v, attn_mask=torch.zeros(3, 3).bool()), q, k, v)
    case("sdpa_causal_more_queries", lambda q, k, v: sdpa(q, k[:, :, :2], v[:, :, :2], is_causal=True), q, k, v)
    case("sdpa_added", lambda q, k, v: sdpa(q, k, v, attn_mask=hidden), q, k, v)
    case("sdpa_trained_filled", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m.masked_fill(~seen, -inf)), q, k, v, bias)
    case("sdpa_trained_added", lambda q, k, v, m: sdpa(q, k, v, attn_mask=m + hidden), q, k, v, bias)
    case("sdpa_then_filled", lambda q, k, v: sdpa(q, k, v, attn_mask=hidden).masked_fill(~seen.any(-1, keepdim=True), 0.0), q, k, v)
    for name, number in [("lowest", lowest), ("1e9", -1e9), ("1e4", -1e4)]:
        case(f"filled_{name}", lambda q, k, v, n=number: scores(q, k).masked_fill(~seen, n).softmax(-1) @ v, q, k, v)
        case(f"added_{name}", lambda q, k, v, n=number: (scores(q, k) + n * (~seen).float()).softmax(-1) @ v, q, k, v)
    filled = lambda q, k: scores(q, k).masked_fill(~seen, -inf).softmax(-1)
    case("filled_guarded", lambda q, k, v: torch.where(filled(q, k).isnan(), 0.0, filled(q, k)) @ v, q, k, v)
    case("filled_nan_to_num", lambda q, k, v: torch.nan_to_num(filled(q, k)) @ v, q, k, v)
    case("filled_twice", lambda q, k, v: filled(q, k).masked_fill(~seen.any(-1, keepdim=True), 0.0) @ v, q, k, v)
    case("filled_lowest_times", lambda q, k, v: (scores(q, k).masked_fill(~seen, lowest).softmax(-1) * seen) @ v, q, k, v)


def layers():
    """The second sample is padding; its outputs count for nothing."""
    torch.manual_seed(1)
    padding = T([[0, 0, 1], [1, 1, 1]]).bool()
    sizes = {"batch_first": True}
    encoder = lambda: nn.TransformerEncoderLayer(4, 2, 8, 0.0, **sizes)
    made = {"heads": nn.MultiheadAttention(4, 2, **sizes), "encoder": encoder(), "decoder": nn.TransformerDecoderLayer(4, 2, 8, 0.0, **sizes),
            "encoders": nn.TransformerEncoder(encoder(), 2, enable_nested_tensor=False)}  # fmt: skip
    for name, module in made.items():
        for form, mask, causal in [("bool", padding, ~torch.ones(3, 3).tril().bool()), ("float", torch.zeros(2, 3).masked_fill(padding, -inf), torch.zeros(3, 3).masked_fill(~torch.ones(3, 3).tril().bool(), -inf))]:
            settings = {"heads": {"key_padding_mask": mask, "attn_mask": causal, "need_weights": False}, "encoder": {"src_key_padding_mask": mask},
                        "decoder": {"tgt_key_padding_mask": mask, "memory_key_padding_mask": mask, "tgt_mask": causal}, "encoders": {"src_key_padding_mask": mask}}[name]  # fmt: skip
            inputs = 3 if name == "heads" else 2 if name == "decoder" else 1

            def run(x, *parameters, module=module, settings=settings, inputs=inputs):
                y = torch.func.functional_call(module, dict(zip(dict(module.named_parameters()), parameters)), (x,) * inputs, settings)
                y = y[0] if isinstance(y, tuple) else y
                return torch.where(T([True, False]).reshape(2, 1, 1), y, 0.0)

            case(f"{name}_{form}", run, torch.randn(2, 3, 4), *(p.detach() + 0.1 for p in module.parameters()))


for family in (kinks, saturated, attention, layers):
    family()


class Slopes(nn.Module):
    """All cases; the loss is the sum of their results, weighted."""

    def __init__(self):
        super().__init__()
        for name, (_, inputs) in CASES.items():
            for i, x in enumerate(inputs):
                self.register_parameter(f"{name}__{i}", nn.Parameter(x.clone()))

    def forward(self, data):
        results, total = [], data.sum()
        for name, (function, inputs) in CASES.items():
            y = function(*(getattr(self, f"{name}__{i}") for i in range(len(inputs))))
            total = total + weighted(y) * data.sum()
            results.append(y + 0)
        return total, *results


def weighted(y):
    return (y * torch.arange(1, y.numel() + 1, dtype=torch.float32).reshape(y.shape)).sum()


def write(folder):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    module, data = Slopes(), torch.ones(1, 1)
    outputs = ["loss", *(f"result.{name}" for name in CASES)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        proto = export(module, (data,), folder / "model.onnx", input_names=["data"], output_names=outputs)
    for node in proto.graph.node:  # half of the file: where each node comes from
        kept = [p for p in node.metadata_props if p.key.startswith("distrain.")]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    (folder / "model.onnx").write_bytes(proto.SerializeToString(deterministic=True))
    tensors = dict(zip(outputs, module(data)))
    for name, (function, _) in CASES.items():
        inputs = {n: p for n, p in module.named_parameters() if n.rpartition("__")[0] == name}
        gradients = torch.autograd.grad(weighted(function(*inputs.values())), list(inputs.values()), allow_unused=True)
        tensors |= {f"slope.{n}": g if g is not None else torch.zeros_like(p) for (n, p), g in zip(inputs.items(), gradients)}
    del tensors["loss"]
    save_file({k: v.detach().contiguous() for k, v in tensors.items()}, folder / "slopes.safetensors")
    recipe = {"modules": {"m": {"onnx": "model.onnx"}}, "losses": [{"name": "loss", "kind": "graph_output", "output": "m.loss", "weight": 1}],
              "optimizer": {"kind": "sgd", "lr": 0.0}, "batch": {"global": 1, "micro": 1}, "seed": 0}  # fmt: skip
    (folder / "recipe.json").write_text(json.dumps(recipe, indent=1) + "\n")


if __name__ == "__main__":
    write(sys.argv[1])
