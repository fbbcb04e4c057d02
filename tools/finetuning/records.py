# ===- records.py - what a record may hold ------------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Records come from sources/. What a conversation may hold is checked here, before
# a template sees it: templates skip roles that they do not know without a word.
# ===-----------------------------------------------------------------------===
"""text_of(place, record): a plain text; messages_of(place, record): its conversation, checked."""

import math
import pathlib

from .errors import Failure

ROLES = ("system", "user", "assistant", "tool")
SHOWN = 60  # characters of what is no path
PLURAL = ("image", "video", "audio")  # kinds that a record may have a list of


def text_of(place, record):
    """A plain text, or None if the record is a conversation."""
    # A table has null where a row lacks a column.
    if any(record.get(key) is not None for key in ("messages", *PLURAL)):
        return None
    if record.get("text") is None:
        raise Failure(f"{place}: no messages and no text")
    if not isinstance(record["text"], str):
        raise Failure(f"{place}: text is no string")
    return record["text"]


def messages_of(place, record, kinds=()):
    """A conversation, or a picture or recording with its text as one. `kinds` of items that the family has. Paths of pictures are those of files."""
    is_pair = record.get("messages") is None
    messages = _pair(place, record) if is_pair else record["messages"]
    if not isinstance(messages, list) or not messages:
        raise Failure(f"{place}: messages is no list of messages")
    lists = {kind: _paths(place, kind, record, is_pair) for kind in PLURAL}
    made = [_message(f"{place}: message {number}", message, kinds, lists) for number, message in enumerate(messages, 1)]
    if left := [kind for kind, paths in lists.items() if paths]:
        raise Failure(f"{place}: {left[0]}s has {len(lists[left[0]])} more than the messages have parts of type {left[0]!r}")
    if not any(m["role"] == "assistant" for m in made):
        raise Failure(f"{place}: no assistant turn, so nothing to learn")
    return made


def _pair(place, record):
    """{"image": …, "text": …}: the text is what is learned."""
    kind = next(kind for kind in PLURAL if record.get(kind) is not None)
    if not isinstance(record.get("text"), str):
        raise Failure(f"{place}: {kind}, but no text")
    part = {"type": kind, kind: record[kind], "fps": record.get("fps")}
    return [{"role": "user", "content": [part]}, {"role": "assistant", "content": record["text"]}]


def _paths(place, kind, record, is_pair):
    """`images`, or one `image`, beside messages: of the parts that name no file, in their order."""
    given = record.get(f"{kind}s")
    if given is None:
        return [record[kind]] if not is_pair and isinstance(record.get(kind), str) else []
    if not isinstance(given, list) or not all(isinstance(path, str) or kind == "video" and _is_paths(path) for path in given):
        raise Failure(f"{place}: {kind}s is no list of paths")
    return list(given)


def _message(place, message, kinds, lists):
    if not isinstance(message, dict) or "role" not in message:
        raise Failure(f"{place}: no object with role and content")
    if message["role"] not in ROLES:
        raise Failure(f"{place}: unknown role {message['role']!r} (known: {', '.join(ROLES)})")
    if more := sorted(k for k, v in message.items() if k not in ("role", "content") and v not in (None, [], "")):
        raise Failure(f"{place}: {more[0]} is not there yet (docs/finetune.md)")
    content = _content(place, message.get("content"), kinds, lists)
    texts = content if isinstance(content, str) else "".join(part.get("text", "") for part in content)
    if message["role"] == "assistant" and not texts.strip():
        raise Failure(f"{place}: the assistant's turn is empty")
    if message["role"] == "assistant" and not isinstance(content, str):
        raise Failure(f"{place}: the assistant's turn has more than text")
    return {"role": message["role"], "content": content}


def _content(place, content, kinds, lists):
    """A string, or parts if one of them is no text."""
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise Failure(f"{place}: content is neither a string nor a list of parts")
    parts = [_part(place, part, kinds, lists) for part in content]
    return parts if any(part["type"] != "text" for part in parts) else "".join(part["text"] for part in parts)


def _part(place, part, kinds, lists):
    kind = part.get("type") if isinstance(part, dict) else type(part).__name__
    if kind == "text":
        if not isinstance(part.get("text"), str):
            raise Failure(f"{place}: a part's text is no string")
        return {"type": "text", "text": part["text"]}
    if kind not in kinds:
        raise Failure(f"{place}: a part of type {kind!r} is not there yet for this family, only {', '.join(['text', *kinds])} (docs/finetune.md)")
    path = next((part[key] for key in (kind, "path", "url") if part.get(key) is not None), None)
    if path is None and lists[kind]:
        path = lists[kind].pop(0)
    if path is None or path == "":
        raise Failure(f"{place}: a part of type {kind!r} without its file ({kind!r}: PATH)")
    if kind == "video":
        return _video(place, part, path)
    if not isinstance(path, str):
        raise Failure(f"{place}: {kind} is of type {type(path).__name__}, no path of a file")
    return {"type": kind, "path": _file(place, path)}


def _video(place, part, path):
    """A file, or frames that are pictures; `fps`: of the file those that are seen in a second, of frames those that there are."""
    if not (isinstance(path, str) or _is_paths(path)):
        raise Failure(f"{place}: video is of type {type(path).__name__}, neither the path of a file nor a list of those of its frames")
    rate = part.get("fps")
    if rate is not None and not (isinstance(rate, (int, float)) and 0 < rate < math.inf):
        raise Failure(f"{place}: fps is {rate!r}, no number above 0")
    where = {"path": _file(place, path)} if isinstance(path, str) else {"frames": [_file(place, frame) for frame in path]}
    return {"type": "video", "fps": rate} | where


def _is_paths(value):
    return isinstance(value, list) and len(value) > 0 and all(isinstance(path, str) for path in value)


def _file(place, path):
    path = path.removeprefix("file://")
    if "://" in path or path.startswith("data:"):
        raise Failure(f"{place}: {path[:SHOWN]}{'…' * (len(path) > SHOWN)}: only files are read")
    return str(_folder(place) / path)


def _folder(place):
    """Of the file that has this message; options of a source in Python may have slashes, too."""
    return pathlib.Path(place.rpartition(": message")[0].partition("?{")[0]).parent
