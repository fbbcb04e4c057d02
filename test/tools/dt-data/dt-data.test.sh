#!/usr/bin/env bash
# The command line of dt-data from fonts to statistics; $1 the program, $2 the repository. Skipped (77) without the font.
set -euo pipefail
tool=$1 repo=$2
font=/usr/share/fonts/truetype/noto/NotoColorEmoji.ttf names=/usr/share/unicode/emoji/emoji-test.txt
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
fail() { echo "FAIL: $*" >&2; exit 1; }
expect() { grep -qF -- "$1" "$2" || { cat "$2" >&2; fail "expected '$1'"; }; }
refuse() { # refuse TEXT COMMAND...: exit code not 0, one line with TEXT
  local text=$1; shift
  if "$@" >out 2>err; then fail "'$*' succeeded"; fi
  [ "$(wc -l <err)" = 1 ] || { cat err >&2; fail "'$*': not one line"; }
  expect "$text" err
}

# Folders, pairs and broken samples need no font.
cat >pairs.json <<'J'
{"data": {"sequence": 16, "tokenizer": {"kind": "bytes"}, "special": ["<pad>", "<eos>"], "labels": 3,
          "segments": {"text": {"parts": ["text"], "tokens": [{"text": "text", "loss": true}, {"token": "<eos>", "loss": true}]}}},
 "inputs": {"ids": {"tokens": "ids"}, "labels": {"tokens": "labels"}}}
J
mkdir files
echo "a cat" >files/0.txt; echo "the dog" >files/1.txt; echo "a text of more than sixteen bytes" >files/2.txt
"$tool" build --from-dir files -o texts.tar
"$tool" index texts.tar --recipe pairs.json >out 2>err
expect "texts.tar: 3 samples, 1 broken" out
expect "texts.tar: sample '2': more than 16 tokens" err
[ -s texts.tar.idx.json ] || fail "no index"
if "$tool" check texts.tar --recipe pairs.json >out 2>err; then fail "check passed a broken sample"; fi
"$tool" stats texts.tar --recipe pairs.json --json >out
expect '"reasons":{"more than 16 tokens":1}' out
expect '"tokens":[[6,1],[8,1]]' out
"$tool" stats texts.tar --recipe pairs.json --samples samples.json
expect '{"kinds":[],"samples":[{"count":1,"items":[],"tokens":6},{"count":1,"items":[],"tokens":8}]}' samples.json
refuse "nowhere/s.json: cannot create: No such file or directory" "$tool" stats texts.tar --recipe pairs.json --samples nowhere/s.json
"$tool" vocabulary texts.tar -o words
[ "$(tr '\n' ' ' <words)" = "a bytes cat dog more of sixteen text than the " ] || fail "vocabulary: $(cat words)"

# Pictures of another shape are stretched: 4 x 4 and 8 x 4 (PNG), to 4 x 4.
cat >pictures.json <<'J'
{"data": {"pictures": {"image": {"size": [4, 4]}}}, "inputs": {"pixels": {"pixels": "image"}}}
J
mkdir pictures
python3 - <<'P'
import struct, zlib
for name, width in (("0", 4), ("1", 8), ("2", 8)):
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    rows = (b"\0" + bytes(3 * width)) * 4
    open(f"pictures/{name}.png", "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, 4, 8, 2, 0, 0, 0)) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))
P
"$tool" build --from-dir pictures -o pictures.tar
"$tool" check pictures.tar --recipe pictures.json >out
expect "pictures.tar: 3 samples, 0 broken" out
expect "pictures.tar: remark: 2 of 3 pictures of \"image\" are stretched to another shape, 4 x 4 (sample '1' has 8 x 4); \"fit\": \"crop\" or \"pad\" keeps it" out
sed 's/\[4, 4\]/[4, 4], "fit": "crop"/' pictures.json >cropped.json
"$tool" check pictures.tar --recipe cropped.json >out
if grep -q remark out; then fail "cropped pictures are not stretched"; fi

# The same pictures in the sizes that they have, by squares of 4 x 4 pixels.
cat >patches.json <<'J'
{"items": {"image": {"max": 1, "measures": {"merged": {"max": 2}}}}, "dims": {"merged": "image.merged"},
 "data": {"pictures": {"image": {"patches": {"size": 2, "merge": 2}}}}, "inputs": {"pixels": {"pixels": "image"}}}
J
"$tool" check pictures.tar --recipe patches.json >out
if grep -q remark out; then fail "pictures of any size are not stretched"; fi
"$tool" stats pictures.tar --recipe patches.json --json >out
expect '"measures":{"image.merged":{"item":[[1,1],[2,2]],"sample":[[1,1],[2,2]]}}' out
"$tool" stats pictures.tar --recipe patches.json >out
expect "image.merged of an item: mean 1.67, from 1 to 2" out
"$tool" stats pictures.tar --recipe patches.json --samples samples.json
expect '{"kinds":["image"],"samples":[{"count":1,"items":[[1]],"tokens":1},{"count":2,"items":[[2]],"tokens":1}]}' samples.json

# Measures of batch files, of a pipe, of an index of tools/finetune and of the planner's data: no recipe.
python3 - <<'P'
import json, struct
def write(path, tensors, notes=None, mode="wb"):
    header, data = {"__metadata__": notes} if notes else {}, b""
    for name, values in tensors.items():
        values, shape = values if isinstance(values, tuple) else (values, [len(values)])
        raw = struct.pack(f"<{len(values)}q", *values)
        header[name] = {"dtype": "I64", "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    open(path, mode).write(struct.pack("<Q", len(text)) + text + data)
one = {"offsets.sample.tokens": [0, 5, 9], "offsets.image.merged": [0, 4, 4, 20], "item_of.image": [0, 1, 1], "ids": [7] * 9}
two = {"offsets.sample.tokens": [0, 5], "offsets.image.merged": [0], "item_of.image": []}
write("one.safetensors", one)
write("two.safetensors", two)
for batch in (one, two):
    write("stream", batch, mode="ab")
write("alone.safetensors", {"offsets.image.merged": [0, 4, 6], "ids": [7]})
write("descends.safetensors", {"offsets.image.merged": [0, 4, 3]})
write("wide.safetensors", {"offsets.image.merged": ([0, 4, 6, 7], [2, 2])})
write("owner.safetensors", one | {"item_of.image": [0, 1, 2]})
write("short.safetensors", one | {"item_of.image": [0, 1]})
write("none.safetensors", {"ids": [7]})
index = {"wheres": [0, 9, 20], "measures.tokens": [5, 0, 7], "measures.image.merged": [4, 0, 9, 2], "counts.image.merged": [1, 1, 2]}
write("index.safetensors", index, {"broken": json.dumps({"1": "no such picture"})})
write("counts.safetensors", index | {"counts.image.merged": [1, 1, 1]})
json.dump({"kinds": ["image"], "samples": [{"tokens": 700, "items": [[1024, 256]], "count": 12}, {"tokens": 3, "items": [[]], "count": 0.5}]}, open("data.json", "w"))
P
"$tool" stats one.safetensors two.safetensors >out
expect "2 files, 3 samples" out
expect "sample.tokens: mean 4.67, from 4 to 5, half at most 5, 99 % at most 5" out
expect "image: items of a sample: mean 1.00, from 0 to 2, half at most 1, 99 % at most 2" out
expect "image.merged of an item: mean 6.67, from 0 to 16, half at most 4, 99 % at most 16" out
expect "image.merged of all items of a sample: mean 6.67, from 0 to 16" out
"$tool" stats one.safetensors two.safetensors --json >files.json
expect '"measures":{"image.merged":{"item":[[0,1],[4,1],[16,1]],"sample":[[0,1],[4,1],[16,1]]},"sample.tokens":{"sample":[[4,1],[5,2]]}}' files.json
"$tool" stats - --json <stream >out
cmp <(sed 's/"files":1/"files":2/' out) files.json || fail "a stream has other measures than its files"
"$tool" stats alone.safetensors >out # whose items they are is not said
expect "1 file" out
expect "image.merged of an item: mean 3.00, from 2 to 4" out
if grep -q "of a sample" out; then fail "items of samples that nobody knows"; fi
"$tool" stats index.safetensors --json >out
expect '"items":{"image":[[1,1],[2,1]]}' out
expect '"image.merged":{"item":[[2,1],[4,1],[9,1]],"sample":[[4,1],[11,1]]}' out
expect '"reasons":{"no such picture":1' out
expect '"samples":2' out
"$tool" stats data.json --json >out
expect '"image.tokens":{"item":[[256,12],[1024,12]],"sample":[[0,0.5],[1280,12]]}' out
echo '{"kinds": ["image"], "measures": {"image": ["merged", "patches"]}, "samples": [{"tokens": 7, "items": [[[4, 16], [1, 9]]]}]}' >two.json
"$tool" stats two.json --json >out
expect '"image.merged":{"item":[[1,1],[4,1]],"sample":[[5,1]]},"image.patches":{"item":[[9,1],[16,1]],"sample":[[25,1]]},"sample.tokens":' out
"$tool" stats one.safetensors -o page.html
expect "image.merged of all items of a sample" page.html
expect "<svg" page.html
"$tool" stats texts.tar --recipe pairs.json -o page.html
expect "tokens a sample" page.html
refuse "descends.safetensors: tensor 'offsets.image.merged': expected 0, then sums that never descend (offsets)" "$tool" stats descends.safetensors
refuse "wide.safetensors: tensor 'offsets.image.merged' has shape [2, 2], expected integers along one axis" "$tool" stats wide.safetensors
refuse "owner.safetensors: tensor 'item_of.image': item 2 is of sample 2; there are 2" "$tool" stats owner.safetensors
refuse "short.safetensors: tensor 'item_of.image' is of 2 items, others of the file of 3" "$tool" stats short.safetensors
refuse "none.safetensors: no sizes: expected tensors offsets.KIND.MEASURE" "$tool" stats none.safetensors
refuse "counts.safetensors: tensor 'counts.image.merged' counts 3 items of 3 samples; there are 4 of 3" "$tool" stats counts.safetensors
refuse "alone.safetensors: measures of samples are none; those of the files before are tokens" "$tool" stats one.safetensors alone.safetensors
refuse "expected --recipe: texts.tar is read as a shard" "$tool" stats texts.tar one.safetensors
refuse "nowhere/p.html: " "$tool" stats one.safetensors -o nowhere/p.html

# A disk that is full.
for what in "--help" "stats texts.tar --recipe pairs.json" "stats texts.tar --recipe pairs.json --json" "check pictures.tar --recipe pictures.json"; do
  if "$tool" $what >/dev/full 2>err; then fail "'$what' succeeded on a full disk"; fi
  expect "error: standard output: No space left on device" err
  [ "$(wc -l <err)" = 1 ] || { cat err >&2; fail "'$what': not one line"; }
done

# Numbers of broken samples: those that they share, and from the least to the most.
mkdir many
for n in 0 1; do echo 7 >many/$n.cls; echo "a cat" >many/$n.txt; done
echo 9 >many/1.cls; echo "a text of more than sixteen bytes" >many/2.txt
echo 0 >many/2.cls
"$tool" build --from-dir many -o many.tar
sed 's/"labels": {"tokens": "labels"}/"labels": {"tokens": "labels"}, "class": {"label": "sample"}/' pairs.json >classes.json
"$tool" stats many.tar --recipe classes.json >out
expect "        2 class 7 to 9 is outside 0..2" out
expect "        1 more than 16 tokens" out

refuse "none.tar: cannot open: No such file" "$tool" check none.tar --recipe pairs.json
refuse "none.json: cannot open: No such file or directory" "$tool" check texts.tar --recipe none.json
refuse "not an uncompressed tar file" "$tool" check pairs.json --recipe pairs.json
refuse "expected either --from-emoji or --from-dir" "$tool" build -o x.tar
refuse "build: expected -o FILE" "$tool" build --from-dir files
refuse "emptydir: no files" "$tool" build --from-dir "$(mkdir emptydir; echo emptydir)" -o x.tar
refuse "expected a subcommand" "$tool"

[ -f $font ] && [ -f $names ] || { echo "skipped: no $font or $names"; exit 77; }
"$tool" build --from-emoji $font --sequences 300 --seed 5 --vocabulary v -o a.tar >out
expect "300 documents of 119 emoji" out
"$tool" build --from-emoji $font --sequences 300 --seed 5 -o b.tar >out
cmp a.tar b.tar || fail "equal options gave different shards"
cmp v "$repo/models/examples/demo/emoji.vocabulary" || fail "the demo's vocabulary differs"
"$tool" check a.tar --recipe "$repo/models/examples/demo/recipe.json" >out
expect "a.tar: 300 samples, 0 broken" out
"$tool" stats a.tar --recipe "$repo/models/examples/demo/recipe.json" >out
expect "image (rows) by target (columns)" out
"$tool" stats a.tar --recipe "$repo/models/examples/demo/recipe.json" --samples samples.json
python3 - samples.json <<'P' || fail "samples.json"
import json, sys
data = json.load(open(sys.argv[1]))
samples, image = data["samples"], data["kinds"].index("image")
assert sum(s["count"] for s in samples) == 300
assert max(len(s["items"][image]) for s in samples) == 3 and all(i == 4 for s in samples for i in s["items"][image])
P
"$tool" build --from-emoji $font --pairs --groups animal-bug --size 16 -o p.tar >out
refuse "no group or subgroup 'fish'" "$tool" build --from-emoji $font --groups fish -o x.tar
refuse "--images 3-1: expected a number or a range" "$tool" build --from-emoji $font --images 3-1 -o x.tar
refuse "not a font" "$tool" build --from-emoji v -o x.tar
[ ! -e x.tar ] || fail "a failed build left a shard"
