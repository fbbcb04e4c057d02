# ===- finetune_input.py - what tools/finetune reads and refuses ------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Folders and data that are wrong in one way end in one line that names the place,
# before anything is written. A step's parts are compared with what the runtime's
# way to pack them gives in the worst case.
# ===-----------------------------------------------------------------------===
"""finetune_input.py: tests of tools/finetuning, in one process."""

import json
import os
import pathlib
import random
import re
import shutil
import tempfile
import unittest
from types import SimpleNamespace
from unittest import mock

from finetune_cases import ANSWER, GOOD, USER, WithFolders, call  # first: it skips all without PyTorch

import finetune_folders as folders
import numpy as np
import onnx
import torch
import transformers as hf
from onnx import helper, numpy_helper
from safetensors.torch import load_file, save_file

from finetuning import encoded, families, folder, merging, network, saving, source, steps
from finetuning.errors import Failure
from finetuning.metrics import Metrics
from finetuning.project import Project
from finetuning.sources import open_source


class Data(WithFolders):
    def test_lines(self):
        for record, said in [
            (b'{"messages": [', r"train\.jsonl:2: no JSON: "),
            (b'{"text": "\xff"}', r"train\.jsonl:2: no JSON: "),
            ([1], r"train\.jsonl:2: no JSON object"),
            ({"prompt": "why"}, r"train\.jsonl:2: no messages and no text"),
            ({"messages": []}, r"train\.jsonl:2: messages is no list of messages"),
            ({"messages": [USER]}, r"train\.jsonl:2: no assistant turn"),
            ({"messages": [{"role": "human", "content": "why"}, ANSWER]}, r"train\.jsonl:2: message 1: unknown role 'human' \(known: system, user, assistant, tool\)"),
            ({"messages": [USER, {"role": "assistant", "content": " \n"}]}, r"train\.jsonl:2: message 2: the assistant's turn is empty"),
            ({"messages": [USER, {"role": "assistant", "content": []}]}, r"train\.jsonl:2: message 2: the assistant's turn is empty"),
            ({"messages": [{"role": "user", "content": [{"type": "image"}]}, ANSWER]}, r"train\.jsonl:2: message 1: a part of type 'image' is not there yet"),
            ({"messages": [USER, ANSWER | {"tool_calls": [{}]}]}, r"train\.jsonl:2: message 2: tool_calls is not there yet"),
            ({"messages": [USER, {"role": "assistant"}]}, r"train\.jsonl:2: message 2: content is neither"),
            ({"messages": ["why"]}, r"train\.jsonl:2: message 1: no object with role and content"),
            ({"text": 3}, r"train\.jsonl:2: text is no string"),
            ({"text": ""}, r"train\.jsonl:2: none of its 1 tokens is learned"),
        ]:  # fmt: skip
            with self.subTest(said):
                self.refused(said, data=self.data(GOOD, record))

    def test_files(self):
        self.refused("there is no such file", data=self.folder / "none.jsonl")
        self.refused("there is no sample", data=self.data(b"", b"  "))
        parquet = self.folder / "train.parquet"
        parquet.write_bytes(b"none")
        self.refused("(no Parquet|Parquet needs pyarrow)", data=parquet)
        self.refused(r"valid\.jsonl: there is no such file", "--validate", self.folder / "valid.jsonl")

    def test_parquet(self):
        try:
            import pyarrow
            from pyarrow import parquet
        except ImportError:
            self.skipTest("pyarrow is not here")
        path = self.folder / "train.parquet"
        rows = [{"messages": [USER, ANSWER], "text": None}, {"messages": None, "text": "why"}]
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        rows = open_source(str(path))
        wheres, numbers = rows.scan()
        self.assertEqual([(rows.place(n), rows.record(w)) for w, n in zip(wheres, numbers)], [(f"{path}: row 1", {"messages": [USER, ANSWER]}), (f"{path}: row 2", {"text": "why"})])

    def test_templates(self):
        self.refused(r"train\.jsonl:1: the template refuses it: roles must alternate", model=self.kept["gemma3_text"], data=self.data({"messages": [USER, USER, ANSWER]}))
        # Nothing says it, where an answer is asked for it is there: training would be on something else.
        self.refused(r"train\.jsonl:1: message 3: the template writes what stands before", model=self.kept["mistral"], data=self.data({"messages": [{"role": "system", "content": "be kind"}, USER, ANSWER]}))
        model = self.model()
        (model / "chat_template.jinja").unlink()
        self.refused("there is no chat template", model=model)
        (model / "chat_template.jinja").write_text("{% for m in messages %}{{ m.role + ': ' + m.content + '\n' }}{% endfor %}")
        self.refused("ends the assistant's turn with no token of its own", model=model)

    def test_sizes(self):
        self.refused(r"all samples are longer than 2 tokens; the shortest, .*train\.jsonl:1, has [0-9]+", "--max-tokens", 2)
        long = {"messages": [USER, {"role": "assistant", "content": "why " * 300}]}
        code, printed, _ = call("--model", self.kept["llama"], "--data", self.data(GOOD, long, GOOD), "--dry-run")
        self.assertEqual(code, 0)
        self.assertRegex(printed, r"1 of 3 samples of .* are longer than 256 tokens and left out \(first .*train\.jsonl:2, ")


class Folders(WithFolders):
    def changed(self, **more):
        model = self.model()
        path = model / "config.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | more))
        return model

    def test_families(self):
        for config, said in [({"model_type": "gpt2"}, "the family 'gpt2' is not there yet; there are Llama"), ({"model_type": "nobody"}, "AutoConfig: ")]:
            with self.subTest(said):
                self.refused(said, model=self.changed(**config))
                shutil.rmtree(self.folder / "llama")
        self.refused("the loss of a router .output_router_logits. is not there yet", model=folders.make_folder("olmoe", self.folder / "olmoe", output_router_logits=True))
        self.refused("rotary tables of type 'dynamic' are not there yet", model=self.changed(rope_parameters={"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10000.0}))

    def test_files(self):
        self.refused("no Hugging Face folder", model=self.folder)
        model = self.model()
        index = model / "model.safetensors.index.json"
        (model / "tokenizer.json").rename(self.folder / "tokenizer.json")
        self.refused("AutoTokenizer|no fast tokenizer", model=model)
        (self.folder / "tokenizer.json").rename(model / "tokenizer.json")
        text = index.read_text()
        index.write_text(text.replace("model-00001", "../model-00001"))
        self.refused("is no file of this folder", model=model)
        index.write_text(text)
        first = min(model.glob("*.safetensors"))
        tensors = load_file(first)
        name = min(tensors)
        save_file(tensors | {name: tensors[name][:-1].contiguous()}, first)
        self.refused(rf"weight '{name}' has shape .*, the network's has", model=model)
        save_file(tensors | {name: tensors[name].to(torch.int8)}, first)
        self.refused(rf"weight '{name}' is of type I8", model=model)
        save_file({n: t for n, t in tensors.items() if n != name}, first)
        self.refused(rf"no weight '{name}'", model=model)
        first.write_bytes(b"none")
        self.refused(first.name, model=model)
        index.unlink()
        self.refused("no weights: neither model.safetensors", model=model)

    def test_experts(self):
        """Of weights that the library merges a folder has all, of one type of shape, and not the merged one beside them."""
        model = self.model("qwen3_moe")
        file = next(path for path in model.glob("*.safetensors") if any(".experts.1.up_proj." in n for n in load_file(path)))
        tensors = load_file(file)
        name = next(n for n in tensors if ".experts.1.up_proj." in n)
        merged, last = "model.layers.1.mlp.experts.gate_up_proj", name.replace(".1.up", ".4.up")
        for others, said in [
            ({n: t for n, t in tensors.items() if n != name}, f"and others do not go together to the network's '{merged}'"),
            (tensors | {name: tensors[name][:-1].contiguous()}, f"and others do not go together to the network's '{merged}'"),
            (tensors | {last.replace("up", part): tensors[name].clone() for part in ("up", "gate")}, rf"weight '{merged}' has shape \[5, .*, the network's has \[4"),
            ({n.replace(".mlp.experts.1.up_", ".mlp.experts.7.up_"): t for n, t in tensors.items()}, "no weight 'model.layers.1.mlp.experts.1.up_proj.weight' of those that are the network's"),
            (tensors | {name: tensors[name].to(torch.int8)}, f"weight '{name}' is of type I8"),
            (tensors | {merged: torch.ones(4, 48, 32)}, f"weight '{merged}' is there in two forms"),
        ]:
            with self.subTest(said):
                save_file(others, file)
                index = model / folder.INDEX
                index.write_text(json.dumps({"weight_map": {n: p.name for p in model.glob("*.safetensors") for n in load_file(p)}}))
                self.refused(said, model=model)
        save_file(tensors, file)
        self.refused(r"--freeze \*.experts.1.\*: no weight has such a name", "--freeze", "*.experts.1.*", model=model)

    def test_vocabulary(self):
        model = folders.make_folder("llama", self.folder / "few", vocab_size=20)
        self.refused(r"train\.jsonl:1: the tokenizer gives token [0-9]+; the network of .* has 20", model=model)


class Flags(WithFolders):
    def test_optimizers(self):
        self.refused("--betas goes with --optimizer adamw or lion or muon; sgd has none", "--optimizer", "sgd", "--betas", "0.9,0.99")
        self.refused("--momentum goes with --optimizer muon or sgd; adamw has none", "--momentum", 0.9)
        self.refused("--momentum 1: that of muon is below 1", "--optimizer", "muon", "--momentum", 1)
        for text in ("0.9", "0.9,1", "0.9,0.8,0.7"):
            self.refused(f"argument --betas: '{text}' is not two numbers from 0 and below 1", "--betas", text)
        self.refused("argument --optimizer: invalid choice: 'adam'", "--optimizer", "adam")

    def test_flags(self):
        self.refused("--rank goes with --lora", "--rank", 4)
        self.refused("--merge goes with --lora", "--merge")
        self.refused("--freeze does not go with --lora", "--lora", "*", "--freeze", "*")
        self.refused("--train with --lora needs --merge", "--lora", "*", "--train", "*norm*")
        self.refused("--alpha 0: adapters would do nothing", "--lora", "*", "--alpha", 0)
        self.refused(r"--lora \*q_prj\*: no weight has such a name", "--lora", "*q_prj*")
        self.refused("unrecognized arguments: --rate", "--rate", 3)
        self.refused("not allowed with", "--steps", 3, "--epochs", 2)
        self.refused("'0' is not a whole number from 1", "--global-batch", 0)
        self.refused("'nan' is not a number from 0", "--lr", "nan")
        self.refused("--freeze embed: no weight has such a name", "--freeze", "embed")
        self.refused("--train", "--train", "model.layers.{7,8}.*")
        self.refused("--resume: .* has no checkpoint", "--resume")
        self.refused("is a pattern to the program", "--out", self.folder / "o[1]")
        self.refused("dt-opt is not there: build it first", "--bin", self.folder)

    def test_out(self):
        out = self.folder / "out"
        out.mkdir()
        (out / "mine").touch()
        flags = ["--model", self.kept["llama"], "--data", self.data(GOOD)]
        code, _, error = call(*flags, "--out", out)
        self.assertEqual((code, [p.name for p in out.iterdir()]), (1, ["mine"]))
        self.assertIn("no folder of this tool", error)
        self.assertIn("--out is missing", call(*flags)[2])
        (out / "mine").unlink()
        project = Project(out, False)
        with project.begin():
            with self.assertRaisesRegex(Failure, "another run is at work in"), Project(out, False).begin():
                pass
            self.assertIn("another run is at work in", call(*flags, "--out", out)[2])
        (out / "recipe.json").write_text("{}")
        self.assertRegex(call(*flags, "--out", out)[2], "recipe.json: not as it was written, and no recipe of this tool")
        made = {"batch": {"global": 2, "micro": 1, "tokens": 40}, "items": {"sample": {"measures": {"tokens": {"max": 9}}}}}
        (out / "recipe.json").write_text(json.dumps(made))
        self.assertRegex(call(*flags, "--out", out)[2], r"recipe.json: a sample has [0-9]+ tokens; items.sample.measures.tokens.max is 9")
        made["items"]["sample"]["measures"]["tokens"]["max"] = 99
        (out / "recipe.json").write_text(json.dumps(made))
        self.assertRegex(call(*flags, "--out", out)[2], r"recipe.json: the samples of step 0 may need parts of [0-9]+ tokens; batch.tokens is 40")
        shutil.rmtree(out)
        code, printed, _ = call(*flags, "--out", out, "--dry-run")
        self.assertEqual((code, out.exists()), (0, False))
        self.assertIn("'<|eot_id|>'", printed)

    def test_optimizer_of_a_run(self):
        """It stays; runs that do not say theirs had AdamW."""
        out = self.folder / "out"
        (out / "checkpoint/step-3").mkdir(parents=True)
        for noted, other in (({"optimizer": "muon"}, "adamw"), ({}, "muon")):
            (out / "run.json").write_text(json.dumps(noted))
            project, had = Project(out, True), noted.get("optimizer", "adamw")
            project.check({"optimizer": had})
            with self.assertRaisesRegex(Failure, f"^--resume: optimizer {other} is not {had}, that of the run in "):
                project.check({"optimizer": other})


class Saved(WithFolders):
    def test_folder(self):
        """What trained is the export's, in the folder's types; all else is the folder's."""
        model = self.model("qwen3")
        first = min(model.glob("*.safetensors"))
        save_file(load_file(first) | {"other": torch.ones(2)}, first)
        for name in ("pytorch_model.bin", ".hidden", "vocab.txt"):
            (model / name).touch()
        opened = folder.Folder(model)
        net = network.Network(opened, families.of(opened))
        before = {k: v for path in model.glob("*.safetensors") for k, v in load_file(path).items()}
        names = net.keys("llm")
        values = [numpy_helper.from_array(before[n].numpy() + 1, n) for n in names]
        exported = self.folder / "onnx"
        exported.mkdir()
        onnx.save(helper.make_model(helper.make_graph([], "graph", [], [], values)), exported / "llm.onnx")
        trained = {"model.embed_tokens.weight", "model.norm.weight"}
        saving.save(net, exported, {f"llm.{n}" for n in trained}, self.folder / "model")
        after = {k: v for path in (self.folder / "model").glob("*.safetensors") for k, v in load_file(path).items()}
        self.assertEqual(set(after), set(before))
        self.assertEqual({n for n in before if not torch.equal(before[n], after[n])}, trained)
        self.assertEqual({p.name for p in model.iterdir()} - {p.name for p in (self.folder / "model").iterdir()}, {"pytorch_model.bin", ".hidden"})

    def test_experts(self):
        """What the library merges goes to the program as the library has it, and back into the folder's files; of what does not train every bit."""
        for name in ("qwen3_moe", "mixtral"):
            with self.subTest(name), mock.patch.object(merging, "SHARD", 20000):
                path = folders.make_folder(name, self.folder / name)
                opened = folder.Folder(path)
                net = network.Network(opened, families.of(opened))
                project = Project(self.folder / f"{name}.out", False)
                project.out.mkdir()
                source = merging.start_from(project, net)
                made = {k: v for file in source.parent.glob("*.safetensors") for k, v in load_file(file).items()}
                self.assertEqual(set(json.loads(source.read_text())["weight_map"]), set(made))
                self.assertEqual(set(made), set(net.keys("llm")))
                library = hf.AutoModelForCausalLM.from_pretrained(path).state_dict()
                self.assertEqual([k for k, v in made.items() if not torch.equal(v, library[net.library_name(k)])], [])
                before, after = {}, {}
                for file in sorted(path.glob("*.safetensors")):
                    before |= load_file(file)
                    after |= saving._tensors(net, {k: v + 1 for k, v in made.items() if k.endswith("experts.down_proj")}, file.name, None)
                self.assertEqual(set(before), set(after))
                downs = {k for k in before if re.search(r"experts\.\d\.(down_proj|w2)\.", k)}
                self.assertTrue(downs)
                self.assertEqual([k for k in before if not torch.equal(after[k], before[k] + (k in downs))], [])
                stamp = source.stat().st_mtime_ns
                self.assertEqual(merging.start_from(project, net).stat().st_mtime_ns, stamp)  # once
                os.utime(file)
                self.assertNotEqual(merging.start_from(project, net).stat().st_mtime_ns, stamp)

    def test_base(self):
        """A folder of the base model, whose names lack the network's first part, gets experts under its own names."""
        path = folders.make_folder("qwen3_moe", self.folder / "base", tie_word_embeddings=True)
        for file in path.glob("*.safetensors"):
            save_file({n.removeprefix("model."): t for n, t in load_file(file).items()}, file)
        index = path / folder.INDEX
        index.write_text(index.read_text().replace('"model.', '"'))
        opened = folder.Folder(path)
        net, name = network.Network(opened, families.of(opened)), "model.layers.1.mlp.experts.down_proj"
        self.assertIn(name, net.keys("llm"))
        back = net.merging.back("layers.1.mlp.experts.2.down_proj.weight", {name: torch.ones(4, 32, 24)}, None)
        self.assertEqual(set(back), {f"layers.1.mlp.experts.{i}.down_proj.weight" for i in range(4)})

    def test_names(self):
        save_file({k: torch.ones(1) for k in ("llm.net.a", "exp_avg.llm.net.a", "exp_avg.llm.net.b.0[12]", "exp_avg_sq.llm.net.c")}, self.folder / "rank-0.safetensors")
        self.assertEqual(saving.trained_names(self.folder), {"llm.net.a", "llm.net.b.0"})
        save_file({k: torch.ones(1) for k in ("llm.net.a", "llm.net.b[0]")}, self.folder / "rank-0.safetensors")
        self.assertEqual(saving.trained_names(self.folder), {"llm.net.a", "llm.net.b"})


def dealt(lengths, count):
    """Largest first, each to the emptiest group."""
    groups = [[] for _ in range(count)]
    for n in sorted(lengths, reverse=True):
        min(groups, key=sum).append(n)
    return groups


class Numbers(unittest.TestCase):
    def made(self, lengths):
        return source.Chats([encoded.Encoded("here", np.arange(n), np.ones(n, bool)) for n in lengths], families.Text(SimpleNamespace(config=None)))

    def test_order(self):
        """Epochs follow one another without a gap; each has every sample once, in an order of its own."""
        for order in ("file", "shuffle"):
            one = steps.Steps(self.made([3] * 7), 4, order, 5)
            stream = [i for s in range(7) for i in one.samples(s)]
            epochs = [stream[i : i + 7] for i in range(0, 28, 7)]
            self.assertTrue(all(sorted(e) == list(range(7)) for e in epochs))
            self.assertEqual(len(set(map(tuple, epochs))), 1 if order == "file" else 4)
            self.assertEqual(one.samples(2), steps.Steps(self.made([3] * 7), 4, order, 5).samples(2))
        once = steps.Steps(self.made([3, 1, 2, 5, 4]), 4, once=True)
        self.assertEqual((once.epoch, once.samples(1)), (2, [4]))
        self.assertEqual(once.tensors(1)["offsets.sample.tokens"].tolist(), [0, 4, 4, 4, 4])

    def test_parts(self):
        """Largest first, each to the emptiest part, never exceeds what recipes say."""
        draw = random.Random(1)
        for _ in range(300):
            size = draw.randint(1, 40)
            batches = [[draw.choice([1, 3, 200, 700, draw.randint(1, 2000)]) for _ in range(size)] for _ in range(draw.randint(1, 4))]
            longest = max(map(max, batches))
            replicas = draw.choice([1, 1, 2, 3, size])
            replicas = min(replicas, size)
            micro, tokens = steps.choose_parts(size, longest, [(sum(b), max(b)) for b in batches], replicas)
            self.assertTrue(replicas <= micro <= size and tokens >= longest)
            for batch in batches:
                parts = [part for microbatch in dealt(batch, -(-size // micro)) for part in dealt(microbatch, replicas)]
                self.assertLessEqual(max(map(sum, parts)), tokens)

    def test_few_microbatches(self):
        """As many as small parts need, of long samples one for each replica."""
        self.assertEqual(steps.choose_parts(8, 100, [(800, 100)]), (8, 800))
        self.assertEqual(steps.choose_parts(8, 2000, [(16000, 2000)])[0], 1)
        self.assertEqual(steps.choose_parts(8, 2000, [(16000, 2000)], replicas=4)[0], 4)
        self.assertEqual(steps.choose_parts(8, 100, [(800, 100)], count=4)[0], 2)

    def test_metrics(self):
        """Lines are followed as they come; a run that goes on has cut the file."""
        with tempfile.TemporaryDirectory() as work:
            program, out = pathlib.Path(work) / "program.jsonl", pathlib.Path(work) / "out.jsonl"
            lines = lambda: [json.loads(line) for line in out.read_text().splitlines()]
            metrics = Metrics(program, out, steps.Steps(self.made([3, 5]), 1))
            metrics.follow()
            program.write_text('{"step":1,"loss":2.5,"lr":1,"seconds":1}\n{"step":1,"validation_loss":3.5}\n{"step":2,"lo')
            metrics.follow()
            metrics.end()
            self.assertEqual(lines(), [{"step": 1, "loss": 2.5, "learned_tokens": 2, "tokens": 3, "lr": 1, "seconds": 1, "validation_loss": 3.5}])
            program.unlink()
            program.write_text('{"step":1,"loss":2.5}\n{"step":2,"loss":1.5}\n')
            metrics.end()
            self.assertEqual([(line["step"], line["tokens"]) for line in lines()], [(1, 3), (2, 5)])


if __name__ == "__main__":
    unittest.main()
