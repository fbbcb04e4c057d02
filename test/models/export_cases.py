# ===- export_cases.py - PyTorch's functions away from their defaults --------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Calls of torch.nn.functional and layers of torch.nn, so that every argument is
# somewhere other than its default. export_sweep_test.py exports each.
# ===-----------------------------------------------------------------------===
"""CALLS: (function, arguments, keywords) of torch.nn.functional; LAYERS: (layer, inputs)."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
R = torch.randn
CALLS, LAYERS = [], []


def call(function, *arguments, **keywords):
    CALLS.append((function, arguments, keywords))


def layer(module, *inputs):
    LAYERS.append((module, inputs))


def ints(high, *shape, low=0):
    return torch.randint(low, high, shape)


def unit(*shape):
    return torch.rand(shape) * 0.9 + 0.05


def signs(*shape):
    return torch.randint(0, 2, shape).float() * 2 - 1


def ignoring(labels, value):
    return torch.where(torch.arange(labels.numel()).reshape(labels.shape) % 3 == 1, value, labels)


# --- losses ---------------------------------------------------------------------

LOGITS, LABELS, WEIGHT = R(5, 7), ints(7, 5), unit(7)
for keywords in (
    {"label_smoothing": 0.1},
    {"label_smoothing": 0.1, "weight": WEIGHT},
    {"label_smoothing": 0.1, "reduction": "sum"},
    {"label_smoothing": 0.1, "reduction": "none", "weight": WEIGHT, "ignore_index": 2},
    {"weight": WEIGHT, "reduction": "mean"},
    {"weight": WEIGHT, "reduction": "none"},
    {"ignore_index": 3},
    {"ignore_index": 3, "reduction": "sum"},
    {"ignore_index": 3, "label_smoothing": 0.2},
    {"reduction": "none"},
):
    call(F.cross_entropy, LOGITS, LABELS, **keywords)
call(F.cross_entropy, LOGITS, ignoring(LABELS, -100))
call(F.cross_entropy, LOGITS, ignoring(LABELS, -100), label_smoothing=0.1)
call(F.cross_entropy, LOGITS, ignoring(LABELS, -100), label_smoothing=0.1, weight=WEIGHT)
call(F.cross_entropy, LOGITS, LOGITS.softmax(-1).flip(-1))
call(F.cross_entropy, LOGITS, LOGITS.softmax(-1).flip(-1), label_smoothing=0.1, weight=WEIGHT)
call(F.cross_entropy, LOGITS, LOGITS.softmax(-1).flip(-1), reduction="sum")
call(F.cross_entropy, LOGITS, LOGITS.softmax(-1).flip(-1), reduction="none", weight=WEIGHT)
call(F.cross_entropy, R(2, 7, 3, 4), ignoring(ints(7, 2, 3, 4), -100), label_smoothing=0.1)
call(F.cross_entropy, R(2, 7, 3, 4), ints(7, 2, 3, 4), weight=WEIGHT)
call(F.cross_entropy, R(2, 7, 3), R(2, 7, 3).softmax(1), label_smoothing=0.3)
call(F.cross_entropy, R(7), torch.tensor(3), label_smoothing=0.1)
call(F.cross_entropy, R(7), torch.tensor(3))
for keywords in ({"weight": WEIGHT}, {"ignore_index": 3}, {"reduction": "sum"}, {"reduction": "none"}, {"weight": WEIGHT, "reduction": "none", "ignore_index": 1}):
    call(F.nll_loss, LOGITS.log_softmax(-1), LABELS, **keywords)
call(F.nll_loss, R(2, 7, 3, 4).log_softmax(1), ignoring(ints(7, 2, 3, 4), -100), weight=WEIGHT)
call(F.nll_loss, R(7), torch.tensor(2))
for keywords in ({"weight": unit(4, 3)}, {"reduction": "sum"}, {"reduction": "none"}):
    call(F.binary_cross_entropy, unit(4, 3), unit(4, 3), **keywords)
call(F.binary_cross_entropy, ints(2, 4, 3).float(), ints(2, 4, 3).float())
for keywords in ({"weight": unit(4, 3)}, {"weight": unit(3), "pos_weight": unit(3)}, {"pos_weight": unit(3)}, {"reduction": "sum"}, {"reduction": "none"}):
    call(F.binary_cross_entropy_with_logits, R(4, 3) * 4, unit(4, 3), **keywords)
for log_target in (False, True):
    for reduction in ("mean", "sum", "none", "batchmean"):
        target = R(4, 5).softmax(-1)
        call(F.kl_div, R(4, 5).log_softmax(-1), target.log() if log_target else target, log_target=log_target, reduction=reduction)
call(F.kl_div, R(4, 5).log_softmax(-1), F.one_hot(ints(5, 4), 5).float(), reduction="batchmean")
for function in (F.l1_loss, F.mse_loss, F.smooth_l1_loss, F.huber_loss):
    for reduction in ("sum", "none"):
        call(function, R(4, 3), R(4, 3), reduction=reduction)
for function in (F.l1_loss, F.mse_loss, F.huber_loss):
    call(function, R(4, 3), R(4, 3), weight=unit(4, 3))
    call(function, R(4, 3), R(4, 3), weight=unit(4, 3), reduction="sum")
for beta in (0.5, 0.0, 3.0):
    call(F.smooth_l1_loss, R(4, 3), R(4, 3), beta=beta)
call(F.huber_loss, R(4, 3), R(4, 3), delta=0.3)
for keywords in ({"full": True}, {"eps": 0.3}, {"reduction": "sum"}, {"reduction": "none"}):
    call(F.gaussian_nll_loss, R(4, 3), R(4, 3), unit(4, 3), **keywords)
call(F.gaussian_nll_loss, R(4, 3), R(4, 3), unit(4))
call(F.gaussian_nll_loss, R(4, 3), R(4, 3), 0.5)
for keywords in ({"log_input": False, "eps": 0.1}, {"log_input": False}, {"full": True}, {"reduction": "sum"}, {"reduction": "none"}):
    call(F.poisson_nll_loss, unit(4, 3), unit(4, 3) * 5, **keywords)
for keywords in ({"margin": 0.4}, {"reduction": "sum"}, {"reduction": "none"}):
    call(F.hinge_embedding_loss, R(4, 3), signs(4, 3), **keywords)
    call(F.margin_ranking_loss, R(4), R(4), signs(4), **keywords)
    call(F.cosine_embedding_loss, R(4, 6), R(4, 6), signs(4), **keywords)
for keywords in ({"p": 2, "margin": 0.5}, {"weight": WEIGHT}, {"reduction": "sum"}, {"reduction": "none", "p": 2, "weight": WEIGHT}):
    call(F.multi_margin_loss, LOGITS, LABELS, **keywords)
for reduction in ("mean", "sum", "none"):
    call(F.multilabel_margin_loss, R(2, 4), torch.tensor([[3, 0, -1, 1], [1, -1, 0, 2]]), reduction=reduction)
for keywords in ({"weight": unit(3)}, {"reduction": "sum"}, {"reduction": "none"}):
    call(F.multilabel_soft_margin_loss, R(4, 3), ints(2, 4, 3).float(), **keywords)
for reduction in ("mean", "sum", "none"):
    call(F.soft_margin_loss, R(4, 3), signs(4, 3), reduction=reduction)
for keywords in ({"margin": 0.3}, {"p": 1}, {"p": 3.0, "eps": 0.1}, {"swap": True}, {"reduction": "sum"}, {"reduction": "none"}):
    call(F.triplet_margin_loss, R(4, 6), R(4, 6), R(4, 6), **keywords)
for keywords in ({"margin": 0.3}, {"swap": True}, {"reduction": "none"}, {"reduction": "sum"}, {"distance_function": lambda a, b: (a - b).abs().sum(-1)}):
    call(F.triplet_margin_with_distance_loss, R(4, 6), R(4, 6), R(4, 6), **keywords)
for keywords in ({"blank": 1}, {"reduction": "sum"}, {"reduction": "none", "zero_infinity": True}):
    call(F.ctc_loss, R(6, 2, 4).log_softmax(-1), torch.tensor([[2, 3], [3, 2]]), torch.tensor([6, 5]), torch.tensor([2, 2]), **keywords)
call(F.linear_cross_entropy, R(5, 4), R(7, 4), LABELS)
for keywords in ({"linear_bias": R(7)}, {"label_smoothing": 0.1}, {"reduction": "sum"}, {"ignore_index": 3}, {"weight": WEIGHT}):
    call(F.linear_cross_entropy, R(5, 4), R(7, 4), LABELS, **keywords)

# --- elementwise ------------------------------------------------------------------

X = R(4, 6)
for function in (F.relu, F.relu6, F.selu, F.silu, F.mish, F.hardsigmoid, F.hardswish):
    call(function, X * 3, inplace=True)
for function in (F.sigmoid, F.tanh, F.tanhshrink, F.softsign, F.logsigmoid, F.gelu, F.celu, F.elu):
    call(function, X * 3)
call(F.celu, X, alpha=0.4)
call(F.celu, X, alpha=1.7, inplace=True)
call(F.elu, X, alpha=0.4)
call(F.elu, X, alpha=-0.5, inplace=True)
call(F.gelu, X, approximate="tanh")
call(F.hardtanh, X, min_val=-0.3, max_val=0.7, inplace=True)
call(F.hardshrink, X, lambd=0.2)
call(F.hardshrink, X, lambd=0.0)
call(F.softshrink, X, lambd=0.2)
call(F.leaky_relu, X, negative_slope=0.3, inplace=True)
call(F.leaky_relu, X, negative_slope=-0.3)
call(F.prelu, R(2, 3, 4), unit(3))
call(F.prelu, R(2, 3, 4), unit(1))
call(F.prelu, R(3), unit(1))
call(F.rrelu, X, lower=0.2, upper=0.6, inplace=True)
call(F.rrelu, X, lower=0.2, upper=0.6, training=True)
call(F.softplus, X * 4, beta=2.0)
call(F.softplus, X * 4, beta=0.5, threshold=1.0)
call(F.softplus, X * 4, threshold=2)
call(F.threshold, X, 0.3, -2.0, inplace=True)
call(F.glu, X, dim=0)
call(F.glu, X, dim=1)
call(F.glu, R(2, 4, 3), dim=-2)
for function in (F.softmax, F.log_softmax, F.softmin):
    call(function, R(2, 3, 4), dim=1)
    call(function, R(2, 3, 4), dim=0)
    call(function, R(2, 3, 4), dim=-1, dtype=torch.float32)
    call(function, ints(5, 2, 3, 4), dim=1, dtype=torch.float32)
call(F.gumbel_softmax, X, tau=0.5, hard=True, eps=1e-9, dim=0)
for function in (F.dropout, F.alpha_dropout, F.feature_alpha_dropout, F.dropout1d, F.dropout2d, F.dropout3d):
    x = R(2, 3, 4) if function is F.dropout1d else R(2, 3, 4, 2, 2)
    call(function, x, p=0.3, training=False, inplace=True)
    call(function, x, p=0.3, training=True)
call(F.one_hot, ints(4, 3, 2), num_classes=6)

# --- norms and distances ----------------------------------------------------------

call(F.layer_norm, R(3, 4, 5), (4, 5), weight=unit(4, 5), bias=R(4, 5), eps=0.1)
call(F.layer_norm, R(3, 4, 5), (5,), bias=R(5))
call(F.layer_norm, R(3, 4, 5), (5,), weight=R(5), eps=1e-3)
call(F.rms_norm, R(3, 5), (5,), weight=unit(5), eps=0.1)
call(F.rms_norm, R(3, 4, 5), (4, 5))
call(F.group_norm, R(2, 6, 3, 3), 3, weight=unit(6), bias=R(6), eps=0.1)
call(F.group_norm, R(2, 6, 3), 2)
call(F.group_norm, R(2, 6), 2, weight=unit(6))
call(F.instance_norm, R(2, 3, 4), weight=unit(3), bias=R(3), eps=0.1)
call(F.instance_norm, R(2, 3, 4, 4), running_mean=R(3), running_var=unit(3), use_input_stats=False, momentum=0.3)
call(F.instance_norm, R(2, 3, 4, 4), running_mean=R(3), running_var=unit(3), use_input_stats=True)
call(F.batch_norm, R(4, 3), R(3), unit(3), weight=unit(3), bias=R(3), eps=0.1)
call(F.batch_norm, R(4, 3, 5), R(3), unit(3), training=True, momentum=0.4)
call(F.batch_norm, R(4, 3, 5), None, None, weight=unit(3), bias=R(3), training=True)
call(F.local_response_norm, R(2, 6, 4), 3, alpha=0.1, beta=0.5, k=2.0)
call(F.local_response_norm, R(2, 6, 4, 4), 4, alpha=0.1)
call(F.normalize, R(3, 4), p=1, dim=0, eps=0.5)
call(F.normalize, R(3, 4), p=3.0)
call(F.normalize, R(3, 4) * 0, eps=0.1)
call(F.normalize, R(3, 4), p=float("inf"))
call(F.normalize, R(3, 4), out=torch.empty(3, 4))
call(F.cosine_similarity, R(3, 4), R(3, 4), dim=0, eps=0.5)
call(F.cosine_similarity, R(3, 1, 4), R(1, 5, 4), dim=-1)
call(F.pairwise_distance, R(3, 4), R(3, 4), p=1.0, eps=0.2, keepdim=True)
call(F.pairwise_distance, R(3, 4), R(3, 4), p=3.0)
call(F.pairwise_distance, R(3, 4), R(4), p=float("inf"))
call(F.pdist, R(4, 3), p=2.0)
call(F.pdist, R(4, 3), p=1.0)

# --- products ---------------------------------------------------------------------

call(F.linear, R(3, 4), R(5, 4), bias=R(5))
call(F.linear, R(2, 3, 4), R(5, 4))
call(F.linear, R(4), R(5, 4))
call(F.bilinear, R(3, 4), R(3, 5), R(2, 4, 5), bias=R(2))
CONV = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
for n, function in CONV.items():
    call(function, R(2, 4, *[7] * n), R(6, 2, *[3] * n), bias=R(6), stride=2, padding=1, dilation=2, groups=2)
    call(function, R(2, 4, *[7] * n), R(6, 4, *[2] * n), padding="same")
    call(function, R(2, 4, *[7] * n), R(6, 4, *[3] * n), padding="valid", stride=2)
    call(function, R(4, *[7] * n), R(6, 4, *[3] * n))
call(F.conv2d, R(2, 4, 7, 8), R(6, 4, 2, 3), stride=(2, 1), padding=(0, 1), dilation=(1, 2))
call(F.conv2d, R(2, 4, 7, 8), R(6, 4, 4, 3), padding="same", dilation=(1, 2))
for n, function in {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}.items():
    call(function, R(2, 4, *[4] * n), R(4, 3, *[3] * n), bias=R(6), stride=2, padding=1, output_padding=1, groups=2, dilation=2)
    call(function, R(2, 4, *[4] * n), R(4, 3, *[3] * n))
call(F.conv_transpose2d, R(2, 4, 4, 5), R(4, 3, 3, 2), stride=(2, 1), padding=(1, 0), output_padding=(1, 0))
call(F.conv_transpose2d, R(4, 4, 5), R(4, 3, 3, 2))
call(F.conv_tbc, R(5, 2, 4), R(3, 4, 6), R(6), pad=1)
call(F.unfold, R(2, 3, 6, 7), (2, 3), dilation=2, padding=1, stride=2)
call(F.unfold, R(2, 3, 6, 7), 2)
call(F.fold, R(2, 12, 12), (4, 5), (2, 2))
call(F.fold, R(2, 12, 9), (6, 5), (2, 2), dilation=2, padding=1, stride=2)
Q, K, V = R(2, 4, 5, 8), R(2, 4, 6, 8), R(2, 4, 6, 8)
call(F.scaled_dot_product_attention, Q, K, V, attn_mask=R(5, 6))
call(F.scaled_dot_product_attention, Q, K, V, attn_mask=torch.arange(30).reshape(5, 6) % 4 != 1)
call(F.scaled_dot_product_attention, Q, K, V, attn_mask=torch.ones(2, 1, 5, 6, dtype=torch.bool).tril(), scale=0.7)
call(F.scaled_dot_product_attention, Q, K, V, is_causal=True)
call(F.scaled_dot_product_attention, Q, Q, Q, is_causal=True, scale=0.2)
call(F.scaled_dot_product_attention, Q, K[:, :2], V[:, :2], enable_gqa=True)
call(F.scaled_dot_product_attention, Q, K[:, :2], V[:, :2], enable_gqa=True, attn_mask=R(2, 1, 5, 6))
call(F.scaled_dot_product_attention, Q, K, V, dropout_p=0.5)
call(F.scaled_dot_product_attention, Q[0], K[0], V[0])

# --- pictures ---------------------------------------------------------------------

for n, maximum, average, power in ((1, F.max_pool1d, F.avg_pool1d, F.lp_pool1d), (2, F.max_pool2d, F.avg_pool2d, F.lp_pool2d), (3, F.max_pool3d, F.avg_pool3d, F.lp_pool3d)):
    image = R(2, 3, *[7] * n)
    call(maximum, image, 3, stride=2, padding=1, dilation=2, ceil_mode=True)
    call(maximum, image, 3, stride=2, ceil_mode=True)
    call(maximum, image, 2, stride=3, ceil_mode=True)
    call(maximum, image, 2, return_indices=True)
    call(maximum, image[0], 2)
    call(average, image, 3, stride=2, padding=1, ceil_mode=True)
    call(average, image, 3, stride=2, padding=1, ceil_mode=True, count_include_pad=False)
    call(average, image, 3, stride=2, padding=1, count_include_pad=False)
    call(average, image, 2, stride=3, ceil_mode=True)
    call(average, image[0], 2)
    call(power, image, 2.0, 3, stride=2, ceil_mode=True)
    call(power, image, 3, 2)
for function in (F.avg_pool2d, F.avg_pool3d):
    call(function, R(2, 3, *[7] * (2 if function is F.avg_pool2d else 3)), 3, divisor_override=5)
    call(function, R(2, 3, *[7] * (2 if function is F.avg_pool2d else 3)), 3, stride=2, ceil_mode=True, padding=1, divisor_override=2)
for n, maximum, average in ((1, F.adaptive_max_pool1d, F.adaptive_avg_pool1d), (2, F.adaptive_max_pool2d, F.adaptive_avg_pool2d), (3, F.adaptive_max_pool3d, F.adaptive_avg_pool3d)):
    for size in (1, 2, 3, 5):
        call(maximum, R(2, 3, *[6] * n), size)
        call(average, R(2, 3, *[6] * n), size)
    call(maximum, R(2, 3, *[6] * n), 3, return_indices=True)
call(F.adaptive_avg_pool2d, R(2, 3, 6, 5), (None, 2))
call(F.fractional_max_pool2d, R(2, 3, 7, 7), 2, output_size=3, _random_samples=unit(2, 3, 2))
call(F.fractional_max_pool2d, R(2, 3, 7, 7), 2, output_ratio=(0.5, 0.5), return_indices=True, _random_samples=unit(2, 3, 2))
call(F.fractional_max_pool3d, R(2, 3, 7, 7, 7), 2, output_size=3, _random_samples=unit(2, 3, 3))
call(F.fractional_max_pool3d, R(2, 3, 7, 7, 7), 2, output_ratio=0.5, return_indices=True, _random_samples=unit(2, 3, 3))
for n, pool, unpool in ((1, F.max_pool1d, F.max_unpool1d), (2, F.max_pool2d, F.max_unpool2d), (3, F.max_pool3d, F.max_unpool3d)):
    values, places = pool(R(2, 3, *[6] * n), 2, return_indices=True)
    call(unpool, values, places, 2)
    call(unpool, values, places, 2, stride=2, padding=0, output_size=[7] * n)
for mode, axes in (("nearest", 1), ("nearest", 2), ("nearest", 3), ("nearest-exact", 1), ("nearest-exact", 2), ("linear", 1), ("bilinear", 2), ("bicubic", 2), ("trilinear", 3), ("area", 2), ("area", 1)):
    image = R(1, 2, *[5] * axes)
    call(F.interpolate, image, size=[8] * axes, mode=mode)
    call(F.interpolate, image, size=[3] * axes, mode=mode)
    call(F.interpolate, image, scale_factor=1.7, mode=mode)
    call(F.interpolate, image, scale_factor=0.7, mode=mode, recompute_scale_factor=True)
    call(F.interpolate, image, scale_factor=1.7, mode=mode, recompute_scale_factor=False)
    if mode.endswith(("linear", "cubic")):
        call(F.interpolate, image, size=[8] * axes, mode=mode, align_corners=True)
        call(F.interpolate, image, scale_factor=0.6, mode=mode, align_corners=True)
for mode in ("bilinear", "bicubic", "lanczos"):
    call(F.interpolate, R(1, 2, 7, 7), size=[3, 4], mode=mode, antialias=True)
    call(F.interpolate, R(1, 2, 7, 7), scale_factor=(0.5, 0.8), mode=mode, antialias=True)
call(F.interpolate, R(1, 2, 7, 7), size=[3, 4], mode="bilinear", antialias=True, align_corners=True)
call(F.upsample, R(1, 2, 5, 5), size=[8, 7], mode="bilinear", align_corners=True)
call(F.upsample, R(1, 2, 5, 5), scale_factor=2, mode="bicubic")
call(F.upsample_nearest, R(1, 2, 5, 5), size=[8, 7])
call(F.upsample_nearest, R(1, 2, 5, 5), scale_factor=2)
call(F.upsample_bilinear, R(1, 2, 5, 5), size=[8, 7])
call(F.upsample_bilinear, R(1, 2, 5, 5), scale_factor=2)
for mode in ("bilinear", "nearest", "bicubic"):
    for padding in ("zeros", "border", "reflection"):
        call(F.grid_sample, R(1, 2, 5, 5), R(1, 3, 4, 2), mode=mode, padding_mode=padding)
        call(F.grid_sample, R(1, 2, 5, 5), R(1, 3, 4, 2), mode=mode, padding_mode=padding, align_corners=True)
call(F.grid_sample, R(1, 2, 3, 4, 5), R(1, 3, 4, 2, 3), align_corners=True)
call(F.affine_grid, R(2, 2, 3), [2, 1, 4, 5], align_corners=True)
call(F.affine_grid, R(2, 2, 3), [2, 1, 4, 5])
call(F.affine_grid, R(2, 3, 4), [2, 1, 3, 4, 5])
call(F.pixel_shuffle, R(2, 8, 3, 3), 2)
call(F.pixel_unshuffle, R(2, 2, 6, 6), 2)
call(F.channel_shuffle, R(2, 6, 3, 3), 3)
call(F.native_channel_shuffle, R(2, 6, 3, 3), 3)
for mode in ("constant", "reflect", "replicate", "circular"):
    call(F.pad, R(2, 3, 5), (1, 2), mode=mode)
    call(F.pad, R(2, 3, 5, 5), (1, 2, 0, 3), mode=mode)
    call(F.pad, R(2, 3, 5, 5), (-1, 2, 1, -2), mode=mode)
call(F.pad, R(2, 3, 5), (1, 2), value=0.7)
call(F.pad, R(2, 3, 5), (1, -2, 0, 1, 2, 0), value=-1.0)

# --- tables -----------------------------------------------------------------------

call(F.embedding, ints(6, 3, 2), R(6, 4), padding_idx=2)
call(F.embedding, ints(6, 3, 2), R(6, 4), padding_idx=-1)
call(F.embedding, ints(6, 3, 2), R(6, 4), max_norm=1.0, norm_type=1.0)
call(F.embedding, ints(6, 3, 2), R(6, 4), scale_grad_by_freq=True)
call(F.embedding, ints(6, 3, 2), R(6, 4), sparse=True)
for keywords in ({"mode": "sum"}, {"mode": "max"}, {}, {"mode": "sum", "per_sample_weights": R(3, 2)}, {"padding_idx": 2}, {"padding_idx": 2, "mode": "sum"}, {"padding_idx": 2, "mode": "max"}):
    call(F.embedding_bag, ints(6, 3, 2), R(6, 4), **keywords)
call(F.embedding_bag, ints(6, 5), R(6, 4), offsets=torch.tensor([0, 2, 5]), include_last_offset=True)
call(F.embedding_bag, ints(6, 5), R(6, 4), offsets=torch.tensor([0, 2]))
for key in ("max_norm", "scale_grad_by_freq", "sparse"):
    call(F.embedding_bag, ints(6, 3, 2), R(6, 4), mode="sum", **{key: 1.0 if key == "max_norm" else True})
call(F.embedding_bag, ints(6, 3, 2), R(6, 4), max_norm=1.0, norm_type=1.0)

# --- layers: what torch.nn has beside the functions, and its own arguments ----------

layer(nn.AdaptiveLogSoftmaxWithLoss(6, 12, [4, 8], div_value=2.0, head_bias=True), R(5, 6), ints(12, 5))
for keywords in (
    {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 6, "vdim": 10}, {"dropout": 0.3}, {},
):
    keys, values = R(2, 6, keywords.get("kdim", 8)), R(2, 6, keywords.get("vdim", 8))
    layer(nn.MultiheadAttention(8, 2, batch_first=True, **keywords).eval(), R(2, 5, 8), keys, values)
layer(nn.MultiheadAttention(8, 2), R(5, 2, 8), R(6, 2, 8), R(6, 2, 8))
for keywords in (
    {"activation": "gelu"}, {"norm_first": True}, {"bias": False}, {"layer_norm_eps": 0.1}, {"batch_first": False}, {"activation": F.silu, "dim_feedforward": 12},
):
    settings = {"batch_first": True, "dropout": 0.0, "dim_feedforward": 16} | keywords
    for mode in (True, False):
        layer(nn.TransformerEncoderLayer(8, 2, **settings).train(mode), R(3, 5, 8))
    layer(nn.TransformerDecoderLayer(8, 2, **settings).eval(), R(3, 5, 8), R(3, 5, 8))
layer(nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2, norm=nn.LayerNorm(8), enable_nested_tensor=False).eval(), R(3, 5, 8))
layer(nn.Transformer(8, 2, 1, 1, 16, 0.0, batch_first=True, norm_first=True).eval(), R(2, 5, 8), R(2, 4, 8))
for kind in (nn.RNN, nn.LSTM, nn.GRU):
    for keywords in ({"batch_first": True}, {"num_layers": 2}, {"bidirectional": True}, {"bias": False}, {"num_layers": 2, "dropout": 0.4}):
        layer(kind(4, 3, **keywords).eval(), R(5, 2, 4))
layer(nn.RNN(4, 3, nonlinearity="relu"), R(5, 2, 4))
layer(nn.LSTM(4, 6, proj_size=3), R(5, 2, 4))
for kind in (nn.RNNCell, nn.GRUCell, nn.LSTMCell):
    layer(kind(4, 3, bias=False), R(2, 4))
    layer(kind(4, 3), R(2, 4))
layer(nn.RNNCell(4, 3, nonlinearity="relu"), R(2, 4))
for n, convolution, transposed in ((1, nn.Conv1d, nn.ConvTranspose1d), (2, nn.Conv2d, nn.ConvTranspose2d), (3, nn.Conv3d, nn.ConvTranspose3d)):
    for mode in ("zeros", "reflect", "replicate", "circular"):
        layer(convolution(2, 4, 3, stride=2, padding=2, dilation=2, groups=2, bias=False, padding_mode=mode), R(2, 2, *[6] * n))
    layer(transposed(2, 4, 3, stride=2, padding=1, output_padding=1, groups=2, bias=False, dilation=2), R(2, 2, *[4] * n))
for n, batch, instance in ((1, nn.BatchNorm1d, nn.InstanceNorm1d), (2, nn.BatchNorm2d, nn.InstanceNorm2d), (3, nn.BatchNorm3d, nn.InstanceNorm3d)):
    for mode in (True, False):
        layer(batch(3, eps=0.1, momentum=0.4).train(mode), R(4, 3, *[3] * n))
        layer(batch(3, affine=False).train(mode), R(4, 3, *[3] * n))
        layer(batch(3, track_running_stats=False).train(mode), R(4, 3, *[3] * n))
        layer(batch(3, momentum=None).train(mode), R(4, 3, *[3] * n))
        layer(instance(3, eps=0.1, affine=True).train(mode), R(4, 3, *[3] * n))
        layer(instance(3, momentum=0.4, track_running_stats=True).train(mode), R(4, 3, *[3] * n))
layer(nn.BatchNorm1d(3).train(), R(4, 3))
layer(nn.GroupNorm(2, 6, eps=0.1, affine=False), R(2, 6, 4))
layer(nn.LayerNorm((4, 5), eps=0.1, bias=False), R(3, 4, 5))
layer(nn.LayerNorm(5, elementwise_affine=False), R(3, 4, 5))
layer(nn.RMSNorm(5, eps=0.1, elementwise_affine=False), R(3, 5))
layer(nn.RMSNorm(5), R(3, 5))
layer(nn.CrossMapLRN2d(3, alpha=0.1, beta=0.5, k=2), R(2, 5, 4, 4))
layer(nn.Softmax2d(), R(2, 3, 4, 4))
layer(nn.Flatten(2, 3), R(2, 3, 4, 5))
layer(nn.Unflatten(1, (2, 3)), R(2, 6, 4))
layer(nn.Bilinear(3, 4, 5, bias=False), R(2, 3), R(2, 4))
layer(nn.Embedding(6, 4, padding_idx=0), ints(6, 2, 3))
layer(nn.EmbeddingBag(6, 4, mode="sum", padding_idx=0), ints(6, 2, 3))
layer(nn.EmbeddingBag(6, 4, mode="max"), ints(6, 2, 3))
layer(nn.PReLU(3, 0.1), R(2, 3, 4))
layer(nn.RReLU(0.1, 0.4).eval(), R(2, 3))
layer(nn.Upsample(scale_factor=(1.5, 2), mode="bilinear", align_corners=True), R(1, 2, 4, 4))
layer(nn.UpsamplingBilinear2d(scale_factor=2), R(1, 2, 4, 4))
layer(nn.UpsamplingNearest2d(size=(3, 7)), R(1, 2, 4, 4))
layer(nn.CrossEntropyLoss(weight=WEIGHT, ignore_index=1, label_smoothing=0.2, reduction="sum"), LOGITS, LABELS)
layer(nn.BCEWithLogitsLoss(pos_weight=unit(3)), R(4, 3), unit(4, 3))
layer(nn.MultiMarginLoss(p=2, weight=WEIGHT), LOGITS, LABELS)
layer(nn.TripletMarginLoss(swap=True, p=1), R(4, 6), R(4, 6), R(4, 6))
layer(nn.CTCLoss(zero_infinity=True), R(6, 2, 4).log_softmax(-1), torch.tensor([[2, 3], [3, 2]]), torch.tensor([6, 5]), torch.tensor([2, 2]))
