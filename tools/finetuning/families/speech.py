# ===- speech.py - from recordings to text ---------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Two graphs: `audio`, the encoder, on one window of sound a sample, and `llm`, the
# decoder, on texts one behind another, each of which hears its own window.
# ===-----------------------------------------------------------------------===
"""Whisper."""

import numpy as np

from .. import media
from ..encoded import Encoded
from ..errors import Failure
from ..template import text_of
from .tensors import Tensor
from .text import Graph, Text, texts, zeros


class Whisper(Text):
    KINDS = {"audio": ("clips",)}
    CLASS = "AutoModelForSpeechSeq2Seq"
    PROMPTS = True

    @property
    def longest(self):
        return self.config.max_target_positions

    @property
    def frames(self):
        """Rows of a window behind the encoder."""
        return self.config.max_source_positions

    @property
    def features(self):
        return self.config.num_mel_bins, 2 * self.frames

    def writer(self):
        return self.folder.processor()

    def answer(self, encoder, place, messages):
        """A recording, and what is said in it: all behind the start token is learned."""
        if [m["role"] for m in messages] != ["user", "assistant"] or text_of(messages[0]["content"]).strip():
            raise Failure(f"{place}: this family has a recording (role user, a part of type 'audio') and its text (role assistant)")
        sounds = media.sounds(place, messages, encoder.writer.feature_extractor.sampling_rate)
        if len(sounds) != 1:
            raise Failure(f"{place}: has {len(sounds)} recordings; this family has one a sample")
        ids = np.array(encoder.tokenizer(messages[1]["content"])["input_ids"], np.int64)
        made = encoder.writer.feature_extractor(sounds[0], sampling_rate=encoder.writer.feature_extractor.sampling_rate, return_tensors="np")
        learned = np.ones(len(ids), bool)
        learned[0] = False
        return Encoded(place, ids, learned, self.read(made))

    def read(self, made, counts=()):
        features = np.zeros((0, *self.features), np.float32) if made is None else np.asarray(made["input_features"], np.float32)
        if features.shape[1:] != self.features:
            raise Failure(f"{self.folder.path}: the feature extractor gives {list(features.shape[1:])}, the network takes {list(self.features)}")
        return {"audio.clips": np.ones(len(features), np.int64), "features": features}

    def arrays(self, ids, labels, items):
        if not len(items["features"]):
            raise Failure("a text without a recording")
        return super().arrays(ids, labels, items) | items | {"heard": np.zeros(len(items["features"]) * self.frames, np.int64)}

    def tensors(self):
        return super().tensors() | {"audio.input_features": Tensor("features", (0, *self.features), np.float32), "llm.audio_segments": Tensor("heard", numbers=True)}

    def graphs(self, net):
        from export.packing import PackedDecoder
        from export.tiling import Frames

        rows = {"audio_states": (zeros(2, self.frames, self.config.d_model, kind="float32"), {0: "clips"}), "audio_segments": (zeros(1, 2 * self.frames), {1: f"{self.frames}*clips"})}
        return {
            "audio": Graph(Frames(net.model.encoder), {"input_features": (zeros(2, *self.features, kind="float32"), {0: "clips"})}, ["audio_states"]),
            "llm": Graph(PackedDecoder(net), texts() | rows),
        }

    def recipe(self):
        made = super().recipe()
        made["dims"] |= {"clips": "audio.clips"}
        made["connections"] = {"llm.audio_states": "audio.audio_states"}
        return made
