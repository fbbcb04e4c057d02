# ===- finetune_samples.py - what tools/finetune makes of records -----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What of a conversation is learned is compared with what is written down without a
# template; pictures, with what the library's own loader sees.
# ===-----------------------------------------------------------------------===
"""finetune_samples.py: tests of tools/finetuning, in one process."""

import contextlib
import io
import json
import os
import unittest
import unittest.mock
from types import SimpleNamespace

from finetune_cases import ANSWER, GOOD, USER, WithFolders  # first: it skips all without PyTorch

import finetune_folders as folders
import finetune_pictures as pictures
import numpy as np
import tokenizers
import torch
import transformers as hf
from PIL import Image

from finetuning import dataset, encoder, families, media, producers, records
from finetuning.errors import Failure
from finetuning.folder import Folder
from finetuning.steps import Steps


class Words(families.Text):
    """A family of which only the tokenizer is there."""

    def __init__(self, tokenizer):
        self.tokenizer, self.folder = tokenizer, SimpleNamespace(path="here")
        self.config = SimpleNamespace(get_text_config=lambda: SimpleNamespace(vocab_size=1000))

    def writer(self):
        return self.tokenizer


def encode(tokenizer, messages):
    with contextlib.redirect_stdout(io.StringIO()):
        made = encoder.Encoder(Words(tokenizer)).encode("here", {"messages": messages})
    return made.ids, made.learned


class Pictures(WithFolders):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.llava = pictures.FAMILIES["llava"].make(cls.work / "llava")

    def setUp(self):
        super().setUp()
        self.image = Image.fromarray(np.random.default_rng(1).integers(0, 256, (20, 60, 3), np.uint8))
        self.image.save(self.folder / "a.png")

    def asked(self, **part):
        return [{"role": "user", "content": [{"type": "image"} | part, {"type": "text", "text": "why"}]}, ANSWER]

    def paths(self, record, place=None):
        messages = records.messages_of(place or f"{self.folder}/train.jsonl:1", record, ("image",))
        return [part["path"] for m in messages if not isinstance(m["content"], str) for part in m["content"] if part["type"] == "image"]

    def test_paths(self):
        path = str(self.folder / "a.png")
        for record in [
            *({"messages": self.asked(**{key: name})} for key in ("image", "path", "url") for name in ("a.png", path)),
            {"messages": self.asked(url=f"file://{path}")},
            {"messages": self.asked(), "images": ["a.png"]},
            {"messages": self.asked(), "image": "a.png"},
            {"image": "a.png", "text": "it does"},
            {"messages": None, "image": "a.png", "text": "it does", "images": None},
        ]:
            with self.subTest(record):
                self.assertEqual(self.paths(record), [path])
        self.assertEqual(self.paths({"messages": self.asked(image="a.png")}, 'some/data.py:Chat?{"path": "of/chats"}[3]'), ["some/a.png"])
        self.assertEqual(records.text_of("here", {"image": None, "messages": None, "text": "why"}), "why")

    def test_turned(self):
        """As the library's own loader sees it."""
        exif = Image.Exif()
        exif[0x112] = 6  # a quarter
        self.image.save(self.folder / "turned.jpg", exif=exif)
        (seen,) = media.pictures("here", [{"content": [{"type": "image", "path": str(self.folder / "turned.jpg")}]}])
        self.assertEqual(seen.size, (20, 60))
        self.assertTrue(np.array_equal(np.asarray(seen), np.asarray(hf.image_utils.load_image(str(self.folder / "turned.jpg")))))

    def test_refused(self):
        (self.folder / "half.png").write_bytes((self.folder / "a.png").read_bytes()[:500])
        os.mkfifo(self.folder / "pipe.png")
        for record, said in [
            ({"messages": self.asked(image="none.png")}, r"none\.png: there is no such picture"),
            ({"messages": self.asked(image="half.png")}, r"half\.png: no picture: "),
            ({"messages": self.asked(image=".")}, "no regular file"),
            ({"messages": self.asked(image="pipe.png")}, "no regular file"),
            ({"messages": self.asked(image="data:image/png;base64," + 1000 * "A")}, "message 1: data:.{,60}: only files are read$"),
            ({"messages": self.asked(url="https://here/a.png")}, "message 1: https://here/a.png: only files are read"),
            ({"messages": self.asked(image={"bytes": "A"})}, "message 1: image is of type dict, no path of a file"),
            ({"messages": [USER, ANSWER], "image": "a.png"}, "images has 1 more than the messages have parts"),
            ({"messages": self.asked()}, "message 1: a part of type 'image' without its file"),
            ({"text": "why <image> it does"}, r"its pictures have 0 rows, the text has 1 places for them \('<image>'\)"),
            ({"messages": [{"role": "user", "content": "why <image>"}, ANSWER]}, "the text has 1 places|refuses it"),
        ]:  # fmt: skip
            with self.subTest(said):
                self.refused(r"train\.jsonl:2: .*" + said, model=self.llava, data=self.data(GOOD, record))


class Videos(WithFolders):
    """Frames are what the library makes of them; a file's are those that its processor chooses."""

    def setUp(self):
        super().setUp()
        self.frames = np.random.default_rng(1).integers(0, 256, (6, 20, 32, 3), np.uint8)
        for i, frame in enumerate(self.frames):
            Image.fromarray(frame).save(self.folder / f"{i}.png")
        Image.new("RGB", (20, 20)).save(self.folder / "other.png")

    def made(self, name):
        return pictures.FAMILIES[name].make(self.work / name) if not (self.work / name).exists() else self.work / name

    def asked(self, video, **part):
        return {"messages": [{"role": "user", "content": [{"type": "video", "video": video} | part, {"type": "text", "text": "why"}]}, ANSWER]}

    def test_families(self):
        for name in ("qwen2_vl", "qwen2_5_vl", "qwen3_vl"):
            drawn, path = pictures.FAMILIES[name], self.made(name)
            chats, family, reader = drawn.draw(9, 1), families.of(Folder(path)), drawn.reader(path)
            net = hf.AutoModelForImageTextToText.from_pretrained(path)
            lines = drawn.write(self.folder / "train.jsonl", chats).read_text().splitlines()
            for i, (chat, line) in enumerate(zip(chats, lines)):
                with self.subTest(name, sample=i):
                    made = encoder.Encoder(family, lambda _: None).encode(f"{self.folder}/train.jsonl:{i + 1}", json.loads(line))
                    arrays, expected = made.arrays(family), drawn.expected(reader, chat)
                    self.assertEqual((made.ids.tolist(), made.learned.tolist()), (expected.ids, expected.learned))
                    grids = {k: v for k, v in expected.inputs.items() if "grid" in k}
                    places = net.model.get_rope_index(torch.tensor([expected.ids]), expected.inputs["mm_token_type_ids"], **grids)[0]
                    self.assertTrue(np.array_equal(arrays["positions"], places[-3:, 0]))
                    pixels = np.concatenate([np.zeros((0, family.features)), *(v for k, v in expected.inputs.items() if "pixel" in k)])
                    by_bytes = lambda rows: sorted(row.tobytes() for row in rows.astype(np.float32))
                    self.assertEqual(by_bytes(arrays["pixels"]), by_bytes(pixels))

    def test_frames(self):
        record = {"videos": [["0.png", "1.png"], "a.mp4"], "messages": [{"role": "user", "content": [{"type": "video"}, {"type": "video", "fps": 4}]}, ANSWER]}
        parts = records.messages_of("some/train.jsonl:1", record, ("video",))[0]["content"]
        self.assertEqual(parts, [{"type": "video", "fps": None, "frames": ["some/0.png", "some/1.png"]}, {"type": "video", "fps": 4, "path": "some/a.mp4"}])
        pair = records.messages_of("train.jsonl:1", {"video": ["0.png"], "fps": 1, "text": "it does"}, ("video",))
        self.assertEqual(pair[0]["content"], [{"type": "video", "fps": 1, "frames": ["0.png"]}])

    def test_files(self):
        """Six frames of three a second; two of a second are seen."""
        try:
            import av
        except ImportError:
            self.skipTest("PyAV is not installed")
        with av.open(str(self.folder / "a.mp4"), "w") as file:
            stream = file.add_stream("mpeg4", rate=3)
            stream.width, stream.height, stream.pix_fmt = 32, 20, "yuv420p"
            for i in range(6):
                file.mux(stream.encode(av.VideoFrame.from_ndarray(np.full((20, 32, 3), 40 * i, np.uint8), format="rgb24")))
            file.mux(stream.encode())
        ((frames, told),) = media.videos("here", [{"content": [{"type": "video", "path": str(self.folder / "a.mp4"), "fps": None}]}], hf.Qwen2VLVideoProcessor())
        self.assertEqual((told, frames.shape), ({"fps": 3.0, "total_num_frames": 6, "frames_indices": [0, 1, 3, 4]}, (4, 20, 32, 3)))
        self.assertTrue(np.abs(frames.mean((1, 2, 3)) - 40 * np.array([0, 1, 3, 4])).max() < 20)

    def test_refused(self):
        (self.folder / "a.mp4").write_bytes(b"no video")
        model = self.made("qwen2_5_vl")
        for record, said in [
            (self.asked(["0.png", "none.png"]), r"none\.png: there is no such picture"),
            (self.asked(["0.png", "other.png"]), r"other\.png: a frame of 20 x 20, the first is 32 x 20"),
            (self.asked([]), "video is of type list, neither the path of a file nor a list of those of its frames"),
            (self.asked({"frames": 1}), "video is of type dict"),
            (self.asked(["0.png"], fps=0), "fps is 0, no number above 0"),
            (self.asked(["http://here/0.png"]), "http://here/0.png: only files are read"),
            (self.asked("none.mp4"), r"none\.mp4: there is no such video"),
            (self.asked("."), "no video: no regular file"),
            (self.asked("a.mp4"), r"a\.mp4: (a video file needs PyAV \(python -m pip install av\); a list of its frames as pictures needs nothing|no video: )"),
        ]:
            with self.subTest(said):
                self.refused(r"train\.jsonl:2: .*" + said, model=model, data=self.data(GOOD, record))
        with unittest.mock.patch("importlib.util.find_spec", lambda name: None):
            with self.assertRaisesRegex(Failure, "needs PyAV"):
                media.videos("here", [{"content": [{"type": "video", "path": str(self.folder / "a.mp4"), "fps": None}]}], hf.Qwen2VLVideoProcessor())
        with self.assertRaisesRegex(Failure, "the folder has no video processor"):
            media.videos("here", [{"content": [{"type": "video", "frames": [], "fps": None}]}], None)


class Learned(WithFolders):
    def encode(self, name, text, messages):
        tokenizer = folders.make_tokenizer(folders.FAMILIES[name])
        tokenizer.chat_template = text
        return tokenizer, encode(tokenizer, messages)

    def test_families(self):
        for name, family in folders.FAMILIES.items():
            for chat in folders.draw_chats(name, 20, 7):
                with self.subTest(name):
                    tokenizer, (ids, learned) = self.encode(name, family.template, [{"role": r, "content": c} for r, c in chat])
                    self.assertEqual((ids.tolist(), learned.tolist()), folders.expected(name, tokenizer, chat))

    def test_thoughts(self):
        """A template that writes an empty thought into the last answer alone, and leaves thoughts of earlier ones out (Qwen3's)."""
        text = (
            "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% if loop.last %}{{ '<think></think>' }}{% endif %}{{ m.content.split('</think>')[-1] }}"
            "{% else %}{{ m.content }}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
        )
        chat = [("user", "why"), ("assistant", "<think>a</think>it does"), ("user", "one"), ("assistant", "of its")]
        tokenizer, (ids, learned) = self.encode("qwen2", text, [{"role": r, "content": c} for r, c in chat])
        seen = [("user", "why"), ("assistant", "it does"), ("user", "one"), ("assistant", "<think></think>of its")]
        self.assertEqual((ids.tolist(), learned.tolist()), folders.expected("qwen2", tokenizer, seen))

    def test_sentence_pieces(self):
        """Tokens that stand for more or less than their characters: a space before the first word, bytes of what no token is."""
        trained = tokenizers.Tokenizer(tokenizers.models.BPE(byte_fallback=True, unk_token="<unk>"))
        trained.normalizer = tokenizers.normalizers.Sequence([tokenizers.normalizers.Prepend("▁"), tokenizers.normalizers.Replace(" ", "▁")])
        trained.decoder = tokenizers.decoders.Sequence([tokenizers.decoders.Replace("▁", " "), tokenizers.decoders.ByteFallback(), tokenizers.decoders.Fuse()])
        pieces = ["<unk>", "<|im_start|>", "<|im_end|>", *(f"<0x{i:02X}>" for i in range(256))]
        trained.train_from_iterator([" ".join(folders.WORDS), "assistant user"], tokenizers.trainers.BpeTrainer(vocab_size=400, special_tokens=pieces, show_progress=False))
        trained.add_special_tokens([tokenizers.AddedToken("<|im_end|>", rstrip=True)])
        tokenizer = hf.PreTrainedTokenizerFast(tokenizer_object=trained, chat_template=folders.CHATML)
        answers = ["it does 雨 rain", "the hat"]
        _, learned = made = encode(tokenizer, [USER, {"role": "assistant", "content": answers[0]}, USER, {"role": "assistant", "content": answers[1]}])
        ids = made[0][learned]
        self.assertEqual(tokenizer.decode(ids, clean_up_tokenization_spaces=False), "".join(a + "<|im_end|>" for a in answers))
        self.assertGreater(sum(t.startswith("<0x") for t in tokenizer.convert_ids_to_tokens(ids)), 2)

    def test_tokens(self):
        """Of a file of tokens an index says nothing of pictures: there are none."""
        np.save(self.folder / "tokens.npy", np.full((3, 5), 7))
        path = pictures.FAMILIES["internvl"].make(self.folder / "internvl")
        family = families.of(Folder(path))
        reading = dataset.Reading([str(self.folder / "tokens.npy")], encoder.Encoder(family), None, False)
        self.addCleanup(reading.close)
        alone = producers.Alone(reading.maker)
        made = Steps(reading.dataset(0, [None], 100, alone), 2)
        self.assertEqual(made.items("image.tiles")[:2], (0, 0))
        ((_, tensors),) = made.batches([0], alone)
        self.assertEqual((tensors["llm.input_ids"].shape, tensors["offsets.image.tiles"].tolist(), len(tensors["vision.pixel_values"])), ((1, 10), [0], 0))

    def test_plain_text(self):
        path = self.data({"text": "the quick fox"}, {"text": "why" + folders.FAMILIES["llama"].end})
        tokenizer = folders.make_tokenizer(folders.FAMILIES["llama"])
        reading = dataset.Reading([str(path)], encoder.Encoder(Words(tokenizer)), None, False)
        self.addCleanup(reading.close)
        samples = reading.dataset(0, [None], 100, producers.Alone(reading.maker))
        self.assertEqual([tokenizer.decode(samples[i]["input_ids"]) for i in range(2)], ["the quick fox<|eot_id|>", "why<|eot_id|>"])
        self.assertEqual(samples[0]["labels"].tolist(), [*samples[0]["input_ids"][1:].tolist(), -100])
        self.assertEqual(samples.measures(0), {"tokens": len(samples[0]["labels"]), "learned": len(samples[0]["labels"]) - 1})


if __name__ == "__main__":
    unittest.main()
