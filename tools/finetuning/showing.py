# ===- showing.py - a sample as the model sees it -----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===
"""show(source, i, tokenizer): a line a token."""

from .source import IGNORED


def show(source, i, tokenizer):
    sample = source[i]
    ids, labels = sample["input_ids"], sample["labels"]
    print(f"{source.place(i)}: {len(ids)} tokens, {source.measures(i)['learned']} learned")
    print("  place      id  what is learned here      token")
    for place, (token, label) in enumerate(zip(ids, labels)):
        learned = "" if label == IGNORED else repr(tokenizer.decode([int(label)]))
        print(f"{place:7} {token:7}  {learned:24}  {tokenizer.decode([int(token)])!r}")
