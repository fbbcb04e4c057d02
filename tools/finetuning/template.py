# ===- template.py - conversations as text, and what of it is learned ----------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# The template is the folder's own. What is learned is what the model is to write:
# the assistant's turns with the token that ends them. Where a template does not
# mark them, it is asked twice: a turn begins where the conversation before it
# ends, as it is written to ask for an answer, and ends with the token that the
# template puts behind a content.
# ===-----------------------------------------------------------------------===
"""Template: write(place, messages) -> (text, spans of it that are learned)."""

import re

from .errors import Failure, one_line

GENERATION = re.compile(r"\{%-?\s*generation\b")
EXAMPLE = 60  # characters
# Contents that no template trims and no tokenizer knows.
PROBE = [("user", "Qzu1q"), ("assistant", "Qza1q"), ("user", "Qzu2q"), ("assistant", "Qza2q")]


def text_of(content):
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


class Template:
    """writer  a tokenizer, or a processor, whose template takes contents as lists of parts."""

    def __init__(self, writer, where):
        self.writer, self.where = writer, where
        self.tokenizer = getattr(writer, "tokenizer", writer)
        self.in_parts = self.tokenizer is not writer
        self.text = self._text()
        self.marked = bool(GENERATION.search(self.text))
        if not self.marked:
            self.begin, self.end = self._markup()

    def _text(self):
        text = getattr(self.writer, "chat_template", None)
        if not text:
            raise Failure(f"{self.where}: there is no chat template (chat_template.jinja, or `chat_template` of tokenizer_config.json)")
        if not isinstance(text, dict):
            return text
        if "default" not in text:
            raise Failure(f"{self.where}: none of the chat templates is the default ({', '.join(text)})")
        return text["default"]

    def explain(self, place, ids, learned):
        """How turns are found, and those of a conversation, in one line."""
        how = "what the template's generation marks hold" if self.marked else f"from behind {self.begin!r} to {self.end!r}, by the template's markup (it has no generation marks)"
        example = self.tokenizer.decode(ids[learned])
        return f"learned: {how}; of {place}: {example[:EXAMPLE] + '…' * (len(example) > EXAMPLE)!r}"

    def write(self, place, messages):
        """Spans are of characters. A picture is the template's placeholder in the text."""
        text, marks = self._render(place, messages)
        return text, marks if self.marked else self._spans(place, messages, text)

    def _render(self, place, messages, ask=False):
        from transformers.utils.chat_template_utils import render_jinja_template

        if self.in_parts:
            messages = [m | {"content": [{"type": "text", "text": m["content"]}] if isinstance(m["content"], str) else m["content"]} for m in messages]
        try:
            (text,), marks = render_jinja_template(
                conversations=[messages], chat_template=self.text, return_assistant_tokens_mask=self.marked and not ask, add_generation_prompt=ask, **self.tokenizer.special_tokens_map
            )
        except Exception as e:  # of Jinja, whatever a template raises
            raise Failure(f"{place}: the template refuses it: {one_line(e)}") from None
        return text, marks[0] if self.marked and not ask else []

    def _spans(self, place, messages, text):
        """Where the assistant's turns are in the text, with their ends."""
        spans = []
        for number, message in enumerate(messages):
            if message["role"] != "assistant":
                continue
            before = self._render(place, messages[:number], ask=True)[0] if number else self._render(place, messages[:1])[0].split(text_of(message["content"]).strip())[0]
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
        (text, _), (asked, _), (told, _) = self._render(self.where, probe), self._render(self.where, probe[:1], ask=True), self._render(self.where, probe[:1])
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
