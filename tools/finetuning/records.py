# ===- records.py - the lines of a data file ----------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# JSONL or Parquet: objects, each with the place that an error of it names. What
# a conversation may hold is checked here, before a template sees it: templates
# skip roles that they do not know without a word.
# ===-----------------------------------------------------------------------===
"""read(path): [(place, record)]; messages_of(place, record): its conversation, checked."""

import json

from .errors import Failure, one_line

ROLES = ("system", "user", "assistant", "tool")


def read(path):
    if not path.is_file():
        raise Failure(f"{path}: there is no such file")
    records = list(_parquet(path) if path.suffix == ".parquet" else _lines(path))
    if not records:
        raise Failure(f"{path}: there is no sample")
    return records


def _lines(path):
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            place = f"{path}:{number}"
            if not line.strip():
                continue
            try:
                record = json.loads(line.decode())
            except ValueError as e:  # of JSON, or of UTF-8
                raise Failure(f"{place}: no JSON: {one_line(e)}") from None
            if not isinstance(record, dict):
                raise Failure(f"{place}: no JSON object")
            yield place, record


def _parquet(path):
    try:
        import pyarrow.parquet as parquet
    except ImportError:
        raise Failure(f"{path}: Parquet needs pyarrow (.venv/bin/pip install pyarrow)") from None
    row = 0
    try:
        for batch in parquet.ParquetFile(path).iter_batches():
            for record in batch.to_pylist():
                row += 1
                # A column that this row has nothing in.
                yield f"{path}: row {row}", {k: v for k, v in record.items() if v is not None}
    except (OSError, ValueError) as e:
        raise Failure(f"{path}: no Parquet: {one_line(e)}") from None


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
