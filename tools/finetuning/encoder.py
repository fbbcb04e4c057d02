# ===- encoder.py - records as tokens ------------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A text goes through the folder's tokenizer, a conversation with pictures through
# its processor, which puts as many tokens as a picture has rows into the text.
# What is learned is known as characters of the text before that.
# ===-----------------------------------------------------------------------===
"""Encoder: encode(place, record) -> Encoded."""

import numpy as np

from . import media, records
from .encoded import Encoded
from .errors import Failure, one_line, say
from .sources.digests import of_parts
from .template import Template


class Encoder:
    """Records as samples of a family's network. A tokenizer needs a template for conversations only."""

    def __init__(self, family, tell=say):
        self.family, self.writer, self.tell = family, family.writer(), tell
        self.tokenizer = getattr(self.writer, "tokenizer", self.writer)
        self.template = None

    @property
    def vocabulary(self):
        """Of a network that sees texts alone; else None."""
        return None if self.family.KINDS else self.family.vocabulary

    def digest(self):
        """Of what makes a sample of a record."""
        tokenizer, family = self.tokenizer, self.family
        template = getattr(self.writer, "chat_template", None)
        parts = [tokenizer.backend_tokenizer.to_str(), str(template), str(tokenizer.special_tokens_map), str(tokenizer.eos_token_id), str(family.vocabulary)]
        return of_parts(*parts, *([self.writer.to_json_string(), family.config.to_json_string()] if family.KINDS else []))

    def encode(self, place, record):
        text = records.text_of(place, record)
        if text is not None:
            made = self._plain(place, text)
        elif self.family.PROMPTS:
            made = self.family.answer(self, place, records.messages_of(place, record, self.family.PARTS))
        else:
            is_first, self.template = self.template is None, self.template or Template(self.writer, self.family.folder.path)
            made = self._conversation(place, records.messages_of(place, record, self.family.PARTS))
            if is_first:
                self.tell(self.template.explain(place, made.ids, made.learned))
        check(place, self.family.words(made.ids), made.learned, self.family.vocabulary, self.family.folder.path)
        self._check_places(made)
        return made

    def take(self, place, ids, learned):
        """Tokens that somebody else has made."""
        check(place, ids, learned, self.family.vocabulary, self.family.folder.path)
        made = Encoded(place, ids, learned, self.family.read(None))
        self._check_places(made)
        return made

    def _check_places(self, made):
        """A place without a row would take that of another sample's picture."""
        tokens = self.family.tokens
        if not tokens:
            return
        rows, places = self.family.rows(made.items), int(np.isin(made.ids, tokens).sum())
        if rows != places:
            names = ", ".join(repr(self.tokenizer.decode([token])) for token in tokens)
            raise Failure(f"{made.place}: its pictures have {rows} rows, the text has {places} places for them ({names})")

    def _plain(self, place, text):
        ids, end = self.tokenizer(text)["input_ids"], self.tokenizer.eos_token_id
        ids = np.array(ids if end is None or ids[-1:] == [end] else [*ids, end], np.int64)
        return Encoded(place, ids, np.ones(len(ids), bool), self.family.read(None))

    def _conversation(self, place, messages):
        text, spans = self.template.write(place, messages)
        pictures, videos = media.pictures(place, messages), media.videos(place, messages, getattr(self.writer, "video_processor", None))
        if not self.family.KINDS:
            made, items = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True), {}
            offsets, ids = made["offset_mapping"], made["input_ids"]
        else:
            made = self.process(place, text, pictures, videos)
            (offsets,), (ids,) = made["offset_mapping"], made["input_ids"]
            replaced = made["text_replacement_offsets"][0] if made.get("text_replacement_offsets") else []
            spans = _moved(spans, replaced)
            items = self.read(place, made if pictures or videos else None)
        return Encoded(place, np.array(ids, np.int64), _covered(offsets, spans), items)

    def process(self, place, text, pictures, videos=(), **more):
        if videos:  # their frames are chosen
            frames, told = zip(*videos)
            more |= {"videos": list(frames), "video_metadata": list(told), "do_sample_frames": False}
        begins = self.tokenizer.bos_token is not None and text.startswith(self.tokenizer.bos_token)
        more |= {"add_special_tokens": False} if begins else {}
        try:
            return self.writer(text=[text], images=[pictures] if pictures else None, return_offsets_mapping=True, return_text_replacement_offsets=True, return_tensors=None, **more)
        except Exception as e:  # of a processor, whatever it raises
            raise Failure(f"{place}: the processor refuses it: {one_line(e)}") from None

    def read(self, place, made):
        """What the family takes of a processor's output (None: of no pictures)."""
        replaced = made["text_replacement_offsets"][0] if made is not None else []
        places = np.array(made["input_ids"][0] if made is not None else [], np.int64)
        pictures = [_covered(made["offset_mapping"][0], [r["new_span"]]) for r in replaced]
        try:
            items = self.family.read(made, np.array([int(np.isin(places[p], self.family.tokens).sum()) for p in pictures], np.int64))
        except (ValueError, KeyError, TypeError, IndexError) as e:
            raise Failure(f"{place}: the processor's pictures are not as the network has them: {one_line(e)}") from None
        return items


def check(place, ids, learned, vocabulary, where):
    """A sample is one for a network that knows so many tokens."""
    if ids.max(initial=-1) >= vocabulary or ids.min(initial=0) < 0:  # a tokenizer of another model
        raise Failure(f"{place}: the tokenizer gives token {ids.max() if ids.min() >= 0 else ids.min()}; the network of {where} has {vocabulary}")
    if not learned[1:].any():
        raise Failure(f"{place}: none of its {len(learned)} tokens is learned")


def _covered(offsets, spans):
    """Which tokens have characters of the spans."""
    begins, ends = np.array(offsets, np.int64).reshape(-1, 2).T
    covered = np.zeros(len(begins), bool)
    for begin, end in spans:
        covered |= (begins < end) & (ends > begin)
    return covered


def _moved(spans, replaced):
    """Spans of the text in which placeholders have become longer."""
    ends = [r["span"][1] for r in replaced]
    gained = [0, *(r["new_span"][1] - r["span"][1] for r in replaced)]
    return [tuple(at + gained[np.searchsorted(ends, at, side="right")] for at in span) for span in spans]
