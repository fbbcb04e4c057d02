# ===- export_sizes_test.py - packed steps are what the libraries compute ----===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The networks of models/export/sizes.py beside the library's models called as
# users call them: a text alone without a mask, pictures by their grids.
# ===-----------------------------------------------------------------------===
"""export_sizes_test.py: tests of models/export/sizes.py and test/e2e/sizes_batch.py."""

import unittest

from export_fixture import close  # first: it skips without PyTorch

import numpy as np
import torch
import transformers as hf
from transformers import vision_utils

from export import NaflexTower, Packed, naflex_weights, sizes
import sizes_batch
from sizes_batch import MERGE, ROWS


def made(name, seed=3):
    """A network, and samples of it."""
    torch.manual_seed(0)
    network = sizes.NETWORKS[name]()
    for module in network.modules.values():
        module.eval()
    return network, sizes_batch.draw(seed, network.sizes(sizes_batch.QUICK), sizes.VOCABULARY, network.features)


def grids(pictures):
    return torch.tensor([[1, *p.shape] for p in pictures])


class Texts(unittest.TestCase):
    def check(self, name, net=None):
        network, samples = made(name)
        if net is not None:
            network.modules["llm"] = Packed(net.eval())
        packed = sizes.outputs_of(network, samples, torch.float32, apart=False)[0][0]
        first = 0
        for sample in samples:
            for document in np.unique(sample.documents):
                ids = torch.from_numpy(sample.ids[sample.documents == document])[None]
                alone = network.modules["llm"].net(input_ids=ids, use_cache=False).logits[0]
                close(self, packed[first : first + ids.shape[1]], alone, 1e-5)
                first += ids.shape[1]
        self.assertEqual(first, packed.shape[0])

    def test_packed(self):
        self.check("packed")

    def test_models(self):
        """A window in all layers (Mistral), in some (Qwen3, Gemma 3), and none."""
        window = sizes.TEXT | {"head_dim": 8, "sliding_window": 3}
        self.check("packed", hf.MistralForCausalLM(hf.MistralConfig(**window)))
        self.check("packed", hf.Qwen3ForCausalLM(hf.Qwen3Config(**window, use_sliding_window=True, max_window_layers=1)))
        self.check("packed", hf.Gemma3ForCausalLM(hf.Gemma3TextConfig(**window, query_pre_attn_scalar=8)))
        self.check("packed", hf.Qwen3ForCausalLM(hf.Qwen3Config(**sizes.TEXT)))

    def test_windowed(self):
        self.check("windowed")

    def test_places(self):
        self.check("places")

    def test_library(self):
        self.check("library")


class Pictures(unittest.TestCase):
    def setUp(self):
        self.network, self.samples = made("vlm")
        # The library takes no picture without patches.
        self.pictures = [p for s in self.samples for p in s.pictures if p.merged]
        self.inputs = sizes_batch.pictures_of(self.pictures)

    def same(self, have, want):
        np.testing.assert_array_equal(have, np.asarray(want))

    def test_places(self):
        self.same(self.inputs["positions"], vision_utils.get_vision_position_ids(grids(self.pictures), MERGE))
        bounds = vision_utils.get_vision_cu_seqlens(grids(self.pictures))
        self.same(self.inputs["segments"], torch.repeat_interleave(torch.arange(len(self.pictures)), bounds.diff()))

    def test_windows(self):
        net = self.network.modules["vision"].net
        index, bounds = vision_utils.get_vision_window_index(grids(self.pictures), net.spatial_merge_size, net.window_size, net.patch_size)
        self.same(self.inputs["window_index"], index)
        self.same(self.inputs["windows_in_order"], torch.repeat_interleave(torch.arange(len(bounds) - 1), bounds.diff()))

    def test_tower(self):
        for name in ("vlm", "reordered", "qwen2_vl"):
            network, samples = made(name)
            rows = sizes.outputs_of(network, samples, torch.float32, apart=False)[1][0]
            want = network.modules["vision"].net(torch.from_numpy(self.inputs["pixel_values"]), grids(self.pictures)).pooler_output
            close(self, rows, want, 1e-5)

    def test_positions_of_text(self):
        """Qwen2.5-VL's own, of samples of one document; the library joins pictures that no word stands between."""
        torch.manual_seed(0)
        model, compared = self.library(), 0
        for seed in range(8):
            for sample in made("vlm", seed)[1]:
                pictures = [p for p in sample.pictures if p.merged]
                gaps = np.count_nonzero(np.diff(np.concatenate([[-2], sample.rows])) > 1)
                if len(sample.ids) == 0 or sample.documents.any() or gaps != len(pictures):
                    continue
                kinds = torch.zeros(1, len(sample.ids), dtype=torch.int32)
                kinds[0, sample.rows] = 1
                places, _ = model.get_rope_index(torch.from_numpy(sample.ids)[None], kinds, image_grid_thw=grids(pictures) if pictures else None)
                self.same(sample.positions(3), places[:, 0])
                compared += bool(pictures)
        self.assertGreater(compared, 3)

    def library(self):
        return sizes.qwen2_5_vl().model


class Deepstack(unittest.TestCase):
    def test_model(self):
        """Qwen3-VL on a text and its pictures, as the library's own forward() has it."""
        network, samples = made("qwen3_vl")
        compared = 0
        for sample in samples:
            pictures = [p for p in sample.pictures if p.merged]
            if not pictures or sample.documents.any():
                continue
            logits, rows = sizes.outputs_of(network, [sample], torch.float32, apart=False)
            visual, language = network.modules["vision"].net, network.modules["llm"]
            pixels = torch.from_numpy(np.concatenate([p.pixels for p in pictures]))
            want = visual(pixels, grids(pictures))
            for have, rows_of in zip(rows, (want.pooler_output, *want.deepstack_features), strict=True):
                close(self, have, rows_of, 1e-5)
            ids = torch.from_numpy(sample.ids)[None]
            mask = ids == sizes.VOCABULARY - 1
            embeds = language.model.embed_tokens(ids).masked_scatter(mask[..., None], want.pooler_output)
            states = language.model(inputs_embeds=embeds, position_ids=torch.from_numpy(sample.positions(3))[:, None], visual_pos_masks=mask, deepstack_visual_embeds=want.deepstack_features, use_cache=False)
            close(self, logits, language.lm_head(states.last_hidden_state), 1e-5)
            compared += 1
        self.assertGreater(compared, 1)


class Naflex(unittest.TestCase):
    def test_tower(self):
        """SigLIP 2 on pictures that are padded to the largest."""
        network, samples = made("naflex")
        pictures = [p for s in samples for p in s.pictures if p.merged]
        rows, tower = sizes.outputs_of(network, samples, torch.float32, apart=False)[1][0], network.modules["vision"]
        pixels = torch.nn.utils.rnn.pad_sequence([torch.from_numpy(p.pixels) for p in pictures], batch_first=True)
        lengths = torch.tensor([p.patches for p in pictures])
        mask = torch.arange(pixels.shape[1]) < lengths[:, None]
        want = tower.net(pixels, mask.int(), torch.tensor([p.shape for p in pictures]))
        close(self, rows, tower.then(want.last_hidden_state)[mask], 1e-5)
        pooled = NaflexTower(tower.net, tower.then, pooled=True)
        inputs = sizes_batch.pictures_of(pictures)
        packed = (torch.from_numpy(a) for a in (inputs["pixel_values"], inputs["segments"], *naflex_weights([p.shape for p in pictures], sizes.SIDE), inputs["pictures"]))
        close(self, pooled(*packed), tower.then(want.pooler_output), 1e-5)

    def test_weights(self):
        """As PyTorch resizes a table, to more rows and to fewer."""
        table, shapes = torch.randn(4, 4, 3), [(2, 9), (4, 4), (1, 3), (0, 0)]
        row, column = (torch.from_numpy(w) for w in naflex_weights(shapes, 4))
        have = torch.einsum("nr,nc,rcw->nw", row, column, table)
        resize = lambda shape: torch.nn.functional.interpolate(table.permute(2, 0, 1)[None], shape, mode="bilinear", antialias=True)[0]
        close(self, have, torch.cat([resize(s).flatten(1).T for s in shapes if all(s)]), 1e-5)
        self.assertEqual([w.shape for w in naflex_weights([], 4)], [(0, 4), (0, 4)])


class Steps(unittest.TestCase):
    def test_measures(self):
        """What is easily forgotten is in every step."""
        _, samples = made("vlm")
        tokens, merged = [len(s.ids) for s in samples], [p.merged for s in samples for p in s.pictures]
        self.assertEqual(min(tokens), 0)
        self.assertEqual(max(tokens), sizes_batch.QUICK.tokens)
        self.assertEqual(min(merged), 0)
        self.assertEqual(max(merged), sizes_batch.QUICK.merged)
        self.assertIn(0, [len(s.pictures) for s in samples])
        self.assertIn((False, True), [(bool(sizes_batch.learned_of([s])), bool(len(s.ids))) for s in samples])

    def test_rows(self):
        network, samples = made("reordered")
        step, offsets = sizes.step_of(network, samples), {}
        for name in ("sample.tokens", "image.merged"):
            offsets[name] = step[f"offsets.{name}"]
            self.assertTrue((np.diff(offsets[name]) >= 0).all())
        self.assertEqual(step["vision.pixel_values"].shape[0], ROWS * offsets["image.merged"][-1])
        self.assertEqual(step["llm.position_ids"].shape, (3, 1, offsets["sample.tokens"][-1]))
        # Where a picture's rows go the text has its mark, in the sample that item_of says; an index stays inside of its item.
        marks = np.flatnonzero(step["llm.input_ids"][0] == sizes.VOCABULARY - 1)
        np.testing.assert_array_equal(step["llm.image_rows"], marks)
        owners = np.repeat(step["item_of.image"], np.diff(offsets["image.merged"]))
        np.testing.assert_array_equal(np.searchsorted(offsets["sample.tokens"], marks, "right") - 1, owners)
        for name in ("window_index", "window_places"):
            index = step[f"vision.{name}"]
            np.testing.assert_array_equal(*(np.searchsorted(offsets["image.merged"], v, "right") for v in (index, np.arange(len(index)))))


if __name__ == "__main__":
    unittest.main()
