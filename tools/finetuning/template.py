# ===- template.py - conversations as tokens, and what of them is learned -----===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The template is the tokenizer's own. What is learned is what the model is to
# write: the assistant's turns with the token that ends them. Where a template
# does not mark them, it is asked twice: a turn begins where the conversation
# before it ends, as it is written to ask for an answer, and ends with the token
# that the template puts behind a content.
# ===-----------------------------------------------------------------------===
"""Template: encode(place, messages) -> (ids, learned)."""

import re

import numpy as np

from .errors import Failure, one_line

GENERATION = re.compile(r"\{%-?\s*generation\b")
EXAMPLE = 60  # characters
# Contents that no template trims and no tokenizer knows.
PROBE = [("user", "Qzu1q"), ("assistant", "Qza1q"), ("user", "Qzu2q"), ("assistant", "Qza2q")]


class Template:
    def __init__(self, tokenizer, where):
        self.tokenizer, self.where = tokenizer, where
        text = self._text()
        self.marked = bool(GENERATION.search(text))
        if not self.marked:
            self.begin, self.end = self._markup()

    def _text(self):
        try:
            return self.tokenizer.get_chat_template()
        except (ValueError, ImportError) as e:
            missing = not getattr(self.tokenizer, "chat_template", None)
            raise Failure(f"{self.where}: " + ("the tokenizer has no chat template (chat_template.jinja, or `chat_template` of tokenizer_config.json)" if missing else one_line(e))) from None

    def explain(self, place, ids, learned):
        """How turns are found, and those of a conversation, in one line."""
        how = "what the template's generation marks hold" if self.marked else f"from behind {self.begin!r} to {self.end!r}, by the template's markup (it has no generation marks)"
        example = self.tokenizer.decode(ids[learned])
        return f"learned: {how}; of {place}: {example[:EXAMPLE] + '…' * (len(example) > EXAMPLE)!r}"

    def encode(self, place, messages):
        if self.marked:
            return self._encode_marked(place, messages)
        text = self._render(place, messages)
        spans = self._spans(place, messages, text)
        made = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)
        begins = np.array([b for b, _ in made["offset_mapping"]], np.int64)
        learned = np.zeros(len(begins), bool)
        for begin, end in spans:
            learned |= (begins >= begin) & (begins < end)
        return np.array(made["input_ids"], np.int64), learned

    def _encode_marked(self, place, messages):
        try:
            made = self.tokenizer.apply_chat_template(messages, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
        except Exception as e:  # of Jinja, whatever a template raises
            raise Failure(f"{place}: the template refuses it: {one_line(e)}") from None
        return np.array(made["input_ids"], np.int64), np.array(made["assistant_masks"], bool)

    def _render(self, place, messages, ask=False):
        try:
            return self.tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=ask)
        except Exception as e:  # of Jinja, whatever a template raises
            raise Failure(f"{place}: the template refuses it: {one_line(e)}") from None

    def _spans(self, place, messages, text):
        """Where the assistant's turns are in the text, with their ends."""
        spans = []
        for number, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before = self._render(place, messages[:number], ask=True) if number else self._render(place, messages[:1]).split(message["content"].strip())[0]
            if not text.startswith(before):
                raise Failure(f"{place}: message {number + 1}: the template writes what stands before this turn otherwise when it asks for an answer; give it {{% generation %}} marks")
            end = text.find(self.end, len(before))
            if end < 0:
                raise Failure(f"{place}: message {number + 1}: the template writes no {self.end!r} behind this turn")
            spans.append((len(before), end + len(self.end)))
        return spans

    def _markup(self):
        """What stands before and behind an assistant's content."""
        probe = [{"role": role, "content": content} for role, content in PROBE]
        text, asked, told = self._render(self.where, probe), self._render(self.where, probe[:1], ask=True), self._render(self.where, probe[:1])
        (_, user), (_, answer), (_, following), _ = PROBE
        places = [text.find(word) for word in (user, answer, following)]
        if min(places) < 0 or places != sorted(places):
            raise Failure(f"{self.where}: the template does not write contents as they are; give it {{% generation %}} marks")
        begin = asked[len(told) :] if asked.startswith(told) else ""
        behind = text[places[1] + len(answer) : places[2]]
        return begin or text[places[0] + len(user) : places[1]], self._first_token(behind)

    def _first_token(self, text):
        added = self.tokenizer.added_tokens_decoder.values()
        for tokens in ([t.content for t in added if t.special], [t.content for t in added if not t.special and t.content.strip()]):
            found = [(text.find(t), -len(t), t) for t in tokens if t in text]
            if found:
                return min(found)[2]
        raise Failure(f"{self.where}: the template ends the assistant's turn with no token of its own ({text!r}); give it {{% generation %}} marks")
