# ===- finetune_data.py - sources, indices and mixtures of tools/finetune ------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What files of tokens and objects of Python give, written down a second time; an
# index that is kept, interrupted, damaged; turns of a mixture.
# ===-----------------------------------------------------------------------===
"""finetune_data.py: tests of tools/finetuning, in one process but for a mixture's."""

import contextlib
import io
import struct
import unittest

from finetune_producers import SOURCES, WithFolder, bad  # first: it skips all without PyTorch

import numpy as np

from finetuning import dataset, index, maker, order
from finetuning.errors import Failure
from finetuning.sources import open_source


class Indices(WithFolder):
    def test_kept(self):
        """A second run makes no token to know them; an interrupted one goes on; a changed file is another one."""
        folder = self.folder / "index"
        first = self.reading(self.chats, folder=folder)
        made = first.dataset(0, [None], 256, self.pool(first))
        self.assertFalse(folder.exists())
        first.keep()
        (path,) = folder.iterdir()

        def refuse(*_):
            raise AssertionError

        second = self.reading(self.chats, folder=folder)
        second.maker.measure = refuse
        self.assertEqual(second.dataset(0, [None], 256, self.pool(second)).fingerprint(), made.fingerprint())
        damaged = bytearray(path.read_bytes())
        damaged[-1] ^= 1
        path.write_bytes(damaged)
        self.assertIsNone(index.load(path))
        third = self.reading(self.chats, folder=folder)
        self.assertEqual(third.dataset(0, [None], 256, self.pool(third)).fingerprint(), made.fingerprint())
        changed = self.folder / "changed.jsonl"
        changed.write_text(self.chats.read_text() + "\n")
        fourth = self.reading(changed, folder=folder)
        self.assertNotEqual(fourth.dataset(0, [None], 256, self.pool(fourth)).fingerprint(), made.fingerprint())

    def test_goes_on(self):
        folder, text, part, after = self.folder / "index", bad(count=40), index.PART, index.KEPT_AFTER
        index.PART, index.KEPT_AFTER = 8, -1
        try:
            reading, asked = self.reading(text, folder=folder), []
            measure = reading.maker.measure

            def stops(ref):
                asked.append(ref.number)
                if len(asked) == 20:
                    raise KeyboardInterrupt
                return measure(ref)

            with contextlib.redirect_stdout(io.StringIO()) as said:
                reading.maker.measure = stops
                with self.assertRaises(KeyboardInterrupt):
                    reading.dataset(0, [None], 256, self.pool(reading))
                again = self.reading(text, folder=folder)
                measure = again.maker.measure
                asked.clear()
                again.maker.measure = lambda ref: asked.append(ref.number) or measure(ref)
                made = again.dataset(0, [None], 256, self.pool(again))
            self.assertEqual(asked, list(range(16, 40)))
            self.assertIn("goes on with an index of 16 of 40 samples", said.getvalue())
            whole = self.reading(text)
            self.assertEqual(made.fingerprint(), whole.dataset(0, [None], 256, self.pool(whole)).fingerprint())
            again.keep()
            self.assertEqual([p.suffix for p in folder.iterdir()], [".safetensors"])
        finally:
            index.PART, index.KEPT_AFTER = part, after

    def test_lists(self):
        """Measures of items, as many as a sample has."""
        made = [maker.Made({"tokens": 3, "patches": [4, 6]}, 7), maker.Made({"tokens": 2, "patches": []}, 8), maker.Made(broken="it is")]
        one = index.collect(np.arange(3), np.arange(3), made)
        both = index.join([one, one])
        index.save(both, self.folder / "one")
        read = index.load(self.folder / "one")
        self.assertEqual([read.row(i) for i in (0, 1, 3)], [{"tokens": 3, "patches": [4, 6]}, {"tokens": 2, "patches": []}, {"tokens": 3, "patches": [4, 6]}])
        self.assertEqual(read.broken, {2: "it is", 5: "it is"})


class Sources(WithFolder):
    def first(self, text):
        reading = self.reading(text)
        made = reading.dataset(0, [None], 256, self.pool(reading))
        return [made[i]["input_ids"].tolist() for i in range(len(made))], made

    def test_arrays(self):
        rows = np.arange(12, dtype=np.uint16).reshape(3, 4)
        np.save(self.folder / "rows.npy", rows)
        self.assertEqual(self.first(self.folder / "rows.npy")[0], rows.tolist())
        np.save(self.folder / "flat.npy", rows.reshape(-1))
        with self.assertRaisesRegex(Failure, "where documents begin and end is in no .*flat.offsets.npy"):
            self.first(self.folder / "flat.npy")
        np.save(self.folder / "flat.offsets.npy", np.array([0, 5, 12]))
        self.assertEqual(self.first(self.folder / "flat.npy")[0], [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9, 10, 11]])
        np.save(self.folder / "flat.offsets.npy", np.array([0, 5, 13]))
        with self.assertRaisesRegex(Failure, "do not lie one behind another within its 12 tokens"):
            self.first(self.folder / "flat.npy")
        np.save(self.folder / "rows.npy", rows.astype(float))
        with self.assertRaisesRegex(Failure, "is of type float64; tokens are whole numbers"):
            self.first(self.folder / "rows.npy")
        np.save(self.folder / "rows.npy", rows + 1000)
        with self.assertRaisesRegex(Failure, "document 0: the tokenizer gives token 1003"):
            self.first(self.folder / "rows.npy")

    def test_megatron(self):
        """Sequences of 3, 2, 4 and 2 tokens; the second document has two of them."""
        tokens, lengths = np.arange(11, dtype="<u2"), np.array([3, 2, 4, 2], "<i4")
        pointers = np.array([0, 6, 10, 18], "<i8")
        head = b"MMIDIDX\x00\x00" + struct.pack("<QBQQ", 1, 8, 4, 4)
        whole = head + lengths.tobytes() + pointers.tobytes() + np.array([0, 1, 3, 4], "<i8").tobytes()
        (self.folder / "m.bin").write_bytes(tokens.tobytes())
        (self.folder / "m.idx").write_bytes(whole)
        have, made = self.first(self.folder / "m.bin")
        self.assertEqual(have, [[0, 1, 2], [3, 4, 5, 6, 7, 8], [9, 10]])
        self.assertEqual(made.measures(1), {"tokens": 6, "learned": 5})
        for text, said in [(whole[:-1], "shorter than"), (b"MM" + whole, "no index of Megatron's"), (whole.replace(struct.pack("<QBQQ", 1, 8, 4, 4), struct.pack("<QBQQ", 1, 7, 4, 4)), "tokens of type 7")]:
            (self.folder / "m.idx").write_bytes(text)
            with self.assertRaisesRegex(Failure, said):
                self.first(self.folder / "m.bin")

    def test_objects(self):
        """A list of a module; tokens with what is learned of them, as lists and tensors."""
        have, made = self.first(f"{SOURCES}:LIST")
        self.assertEqual(len(have), 2)
        self.assertTrue(made.place(1).endswith("finetune_sources.py:LIST[1]"))
        path = self.folder / "own.py"
        path.write_text(
            "import torch\nclass Own(torch.utils.data.Dataset):\n    def __len__(self):\n        return 2\n"
            "    def __getitem__(self, i):\n        ids = torch.tensor([5, 6, 7, 8, 0, 0])\n"
            "        return {'input_ids': ids if i else ids.tolist(), 'labels': torch.tensor([-100, -100, 7, 8, -100, -100]), 'attention_mask': torch.tensor([1, 1, 1, 1, 0, 0])}\n"
        )
        have, made = self.first(f"{path}:Own")
        self.assertEqual((have, made[0]["labels"].tolist()), ([[5, 6, 7, 8]] * 2, [-100, 7, 8, -100]))
        path.write_text("OWN = [{'input_ids': [1, 2], 'labels': [1, 3]}]")
        with self.assertRaisesRegex(Failure, r"OWN\[0\]: labels\[1\] is 3, neither -100 nor the token there \(2\)"):
            self.first(f"{path}:OWN")

    def test_folders(self):
        (self.folder / "set").mkdir()
        (self.folder / "set/state.json").write_text("{}")
        with self.assertRaisesRegex(Failure, "needs `datasets`|set: "):
            open_source(str(self.folder / "set"))


class Mixtures(WithFolder):
    def test_shares(self):
        """Turns are as even as can be; each file has its own epochs; a place costs nothing."""
        mixed = order.Order([5, 3], [dataset.parse("a=0.75")[1], dataset.parse("b=0.25")[1]], "shuffle", 4)
        places = [mixed.at(p) for p in range(4000)]
        self.assertEqual({sum(p >= 5 for p in places[i : i + 4]) for i in range(0, 4000, 4)}, {1})
        few, many = [p for p in places if p >= 5], [p for p in places if p < 5]
        self.assertTrue(all(sorted(few[i : i + 3]) == [5, 6, 7] for i in range(0, 999, 3)))
        self.assertTrue(all(sorted(many[i : i + 5]) == [0, 1, 2, 3, 4] for i in range(0, 3000, 5)))
        self.assertEqual([order.Order([5, 3], mixed_weights(), "shuffle", 4).at(p) for p in (3999, 17)], [places[3999], places[17]])
        with self.assertRaisesRegex(Failure, "repeat after"):
            order.Order([1, 1], [dataset.parse("a=1")[1], dataset.parse("b=0.00001")[1]])
        with self.assertRaisesRegex(Failure, "a weight is more than 0"):
            dataset.parse("a=0")
        (self.folder / "a=3").touch()
        self.assertEqual(dataset.parse(f"{self.folder}/a=3")[1], None)

    def test_batches(self):
        texts, weights = (bad(count=50), bad(count=7)), mixed_weights()
        want, reading = self.alone(*texts, weights=weights), self.reading(*texts)
        self.assertEqual(self.batches(reading, self.pool(reading, 2), weights=weights), want)
        self.assertNotEqual(self.alone(*texts, weights=(None, None)), want)


def mixed_weights():
    return [dataset.parse("a=0.75")[1], dataset.parse("b=0.25")[1]]


if __name__ == "__main__":
    unittest.main()
