# ===- showing.py - a sample as the model sees it -----------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===
"""show(source, i, tokenizer): a line a token."""

from .encoded import IGNORED


def show(source, i, tokenizer):
    sample = source[i]
    ids, labels = sample["input_ids"], sample["labels"]
    print(f"{source.place(i)}: {len(ids)} tokens, {source.measures(i)['learned']} learned")
    for name, values in source.measures(i).items():
        if "." in name and len(values):
            kind, measure = name.split(".")
            print(f"  {kind}s: {len(values)}, {measure}: {', '.join(map(str, values))}")
    print("  place      id  what is learned here      token")
    for place, (token, label) in enumerate(zip(ids, labels)):
        learned = "" if label == IGNORED else repr(tokenizer.decode([int(label)]))
        print(f"{place:7} {token:7}  {learned:24}  {tokenizer.decode([int(token)])!r}")
