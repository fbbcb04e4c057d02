# ===- export_library_test.py - what stands in for a library's code ---------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What is put in place of a library's code while a module is traced, and the wrappers
# around its models, give what the library gives.
# ===-----------------------------------------------------------------------===
"""export_library_test.py: tests of models/export."""

import unittest

from export_fixture import close, exported  # first: it skips without PyTorch

import torch
import transformers as hf
from torch import nn

from export import FixedGrid, FixedShapes, check, export
from export import adapting, architectures, golden


class Replaced(unittest.TestCase):
    """What stands in for a library's code gives its numbers and gradients."""

    def test_experts(self):
        for name in ("Mixtral", "Qwen3-MoE", "gpt-oss", "DeepSeek-V3"):
            with self.subTest(name):
                model = architectures.make(name)
                module = golden.scatter_weights(model.module.eval())
                ids = model.inputs["input_ids"]
                want, config = module(ids)[0], module.net.config
                grads = torch.autograd.grad(want.square().mean(), list(module.parameters()), allow_unused=True)
                before = config._experts_implementation
                with adapting.traceable(module), torch.enable_grad():
                    self.assertEqual(config._experts_implementation, "all_experts")
                    have = module(ids)[0]
                    mine = torch.autograd.grad(have.square().mean(), list(module.parameters()), allow_unused=True)
                self.assertEqual(config._experts_implementation, before)
                close(self, have, want)
                for a, b in zip(mine, grads):
                    self.assertEqual(a is None, b is None)
                    if b is not None:
                        close(self, a, b, 2e-5)

    def test_whole_models(self):
        for name in ("Llama 4 (text)", "LLaVA", "SmolVLM", "Gemma 3"):
            with self.subTest(name):
                model = architectures.make(name)
                module = golden.scatter_weights(model.module.eval())
                want = module(*model.inputs.values())[0]
                with adapting.traceable(module):
                    have = module(*model.inputs.values())[0]
                close(self, have, want)
                close(self, module(*model.inputs.values())[0], want, 0.0 + 1e-12)

    def test_numbers_of_models(self):
        from export import architectures_second

        model = architectures.make("Gemma 3n (text)", architectures_second.FAMILIES)
        module = golden.scatter_weights(model.module.eval())
        want = module(*model.inputs.values())[0]
        with adapting.traceable(module):
            close(self, module(*model.inputs.values())[0], want)

    def test_views_of_complex_numbers(self):
        turns = torch.polar(torch.ones(6, 6), torch.randn(6, 6))
        for have, want in zip(adapting._pieces(turns, 4, 1), turns.split(4, 1), strict=True):
            self.assertTrue(torch.equal(have, want))
        for dim in (0, 1, -1):
            self.assertTrue(torch.equal(adapting._unsqueezed(turns, dim), turns.unsqueeze(dim)))
        self.assertTrue(torch.equal(adapting._expanded(turns[:1], 3, 2, -1), turns[:1].expand(3, 2, -1)))

        class Turned(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear, self.turns = nn.Linear(6, 6), turns

            def forward(self, x):
                x = torch.view_as_complex(self.linear(x).unflatten(-1, (3, 2)))
                a, b = self.turns.split([2, 4], 1)
                return torch.view_as_real(x * a[:4, :1].expand(4, 3) * b[1:5, :3].unsqueeze(0)).flatten(-2)

        module = Turned().eval()
        check(module, exported(module, (torch.randn(3, 4, 6),)), (torch.randn(5, 4, 6),))

    def test_len(self):
        class Rows(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(4, 4)

            def forward(self, x):
                return self.linear(x).reshape(len(x), len([1, 2]), 2)

        module = Rows().eval()
        check(module, exported(module, (torch.randn(3, 4),)), (torch.randn(5, 4),))
        self.assertNotIn("len", globals())

    def test_isin(self):
        x = torch.randint(0, 9, (4, 7))
        for test in (torch.tensor([3, 5, 3]), torch.tensor([]), torch.arange(6).reshape(2, 3)):
            self.assertTrue(torch.equal(adapting._is_in(x, test), torch.isin(x, test)))
            self.assertTrue(torch.equal(adapting._is_in(x, test, invert=True), torch.isin(x, test, invert=True)))

        class Known(nn.Module):
            def __init__(self):
                super().__init__()
                self.linear = nn.Linear(7, 3)

            def forward(self, ids):
                return self.linear(torch.isin(ids, torch.tensor([1, 5])).float())

        module = Known().eval()
        check(module, exported(module, (x,)), (torch.randint(0, 9, (5, 7)),))

    def test_masked_scatter(self):
        x, source, mask = torch.randn(3, 5, 4), torch.randn(6, 4), torch.rand(3, 5) < 0.4
        element = torch.rand(3, 5, 4) < 0.3
        for where, rows in ((mask[..., None], torch.randn(15, 4)), (mask[..., None].expand(3, 5, 4), torch.randn(15, 4)), (element, torch.randn(60))):
            close(self, adapting._masked_scatter(x, where, rows), x.masked_scatter(where, rows), 1e-12)


class Wrappers(unittest.TestCase):
    def test_fixed_grid_is_the_library(self):
        for name in ("Qwen2-VL", "Qwen2.5-VL"):
            with self.subTest(name):
                model = architectures.make(name)
                module = golden.scatter_weights(model.module.eval())
                ids, pixels = model.inputs["input_ids"], model.inputs["pixel_values"]
                grids = module.grid.expand(len(pixels), 3)
                kind = (ids == module.net.config.image_token_id).int()
                want = module.net(input_ids=ids, pixel_values=pixels.flatten(0, 1), image_grid_thw=grids, mm_token_type_ids=kind, use_cache=False).logits
                close(self, module(*model.inputs.values()), want)

    def test_fixed_grid_of_a_tower_with_several_windows_and_frames(self):
        vision = {"depth": 2, "hidden_size": 32, "out_hidden_size": 24, "intermediate_size": 64, "num_heads": 4, "patch_size": 4, "temporal_patch_size": 2, "spatial_merge_size": 2, "window_size": 16, "fullatt_block_indexes": [1]}
        tower = golden.scatter_weights(hf.models.qwen2_5_vl.modeling_qwen2_5_vl.Qwen2_5_VisionTransformerPretrainedModel(hf.models.qwen2_5_vl.configuration_qwen2_5_vl.Qwen2_5_VLVisionConfig(**vision)).eval())
        for grid in ((1, 8, 8), (2, 4, 8), (3, 8, 4)):
            with self.subTest(grid):
                module = FixedGrid(tower, grid)
                pixels = torch.randn(2, module.patches, 96)
                want = tower(pixels.flatten(0, 1), grid_thw=module.grid.expand(2, 3)).pooler_output
                have = module(pixels)
                close(self, have.flatten(0, 1), want)
                check(module.eval(), exported(module, (pixels,)), (pixels,))

    def test_fixed_grid_refuses(self):
        net = architectures.make("Qwen2.5-VL").module.net
        with self.assertRaisesRegex(ValueError, "a grid of 3 x 4 patches does not divide into the tower's 2 x 2"):
            FixedGrid(net, (1, 3, 4))
        net.model.visual.window_size = 16
        with self.assertRaisesRegex(ValueError, "a grid of 4 x 6 patches does not divide into windows of 16 pixels"):
            FixedGrid(net, (1, 4, 6))
        with self.assertRaisesRegex(ValueError, "Linear has no vision tower"):
            FixedGrid(nn.Linear(2, 2), (1, 4, 4))

    def test_fixed_shapes_is_the_library(self):
        model = architectures.make("SigLIP 2")
        module = golden.scatter_weights(model.module.eval())
        ids, pixels, shape = model.inputs.values()
        sizes = torch.tensor([(2, 6), (3, 4), (3, 3), (4, 3)])[shape]
        want = module.net(input_ids=ids, pixel_values=pixels, pixel_attention_mask=module.mask[shape], spatial_shapes=sizes).logits_per_image
        close(self, module(ids, pixels, shape), want)
        with self.assertRaisesRegex(ValueError, "more than 12 patches"):
            FixedShapes(module.net, [(4, 4)], room=12)


if __name__ == "__main__":
    unittest.main()
