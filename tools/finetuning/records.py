# ===- records.py - what a record may hold ------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Records come from sources/. What a conversation may hold is checked here, before
# a template sees it: templates skip roles that they do not know without a word.
# ===-----------------------------------------------------------------------===
"""text_of(place, record): a plain text; messages_of(place, record): its conversation, checked."""

from .errors import Failure

ROLES = ("system", "user", "assistant", "tool")


def text_of(place, record):
    """A plain text, or None if the record is a conversation."""
    if "messages" in record:
        return None
    if "text" not in record:
        raise Failure(f"{place}: no messages and no text")
    if not isinstance(record["text"], str):
        raise Failure(f"{place}: text is no string")
    return record["text"]


def messages_of(place, record):
    messages = record["messages"]
    if not isinstance(messages, list) or not messages:
        raise Failure(f"{place}: messages is no list of messages")
    made = [_message(f"{place}: message {number}", message) for number, message in enumerate(messages, 1)]
    if not any(m["role"] == "assistant" for m in made):
        raise Failure(f"{place}: no assistant turn, so nothing to learn")
    return made


def _message(place, message):
    if not isinstance(message, dict) or "role" not in message:
        raise Failure(f"{place}: no object with role and content")
    if message["role"] not in ROLES:
        raise Failure(f"{place}: unknown role {message['role']!r} (known: {', '.join(ROLES)})")
    if more := sorted(k for k, v in message.items() if k not in ("role", "content") and v not in (None, [], "")):
        raise Failure(f"{place}: {more[0]} is not there yet (docs/finetune.md)")
    content = _content(place, message.get("content"))
    if message["role"] == "assistant" and not content.strip():
        raise Failure(f"{place}: the assistant's turn is empty")
    return {"role": message["role"], "content": content}


def _content(place, content):
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise Failure(f"{place}: content is neither a string nor a list of parts")
    for part in content:
        if not isinstance(part, dict) or part.get("type") != "text":
            kind = part.get("type") if isinstance(part, dict) else type(part).__name__
            raise Failure(f"{place}: a part of type {kind!r} is not there yet, only text (docs/finetune.md)")
        if not isinstance(part.get("text"), str):
            raise Failure(f"{place}: a part's text is no string")
    return "".join(part["text"] for part in content)
