# ===- example.py - a tiny folder and chats about pictures ---------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# What people have, made here: a Qwen2.5-VL of random weights, small enough to learn
# on two cores within a minute, and questions about pictures of different sizes.
# ===-----------------------------------------------------------------------===
"""write(folder): folder/model, folder/train.jsonl, folder/valid.jsonl; python -m finetuning.example FOLDER."""

import json
import pathlib
import random
import sys

COLORS = {"red": (220, 40, 40), "green": (40, 170, 60), "blue": (50, 80, 220), "yellow": (235, 205, 40)}
SHAPES = ("circle", "square", "triangle")
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
TEMPLATE = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'image' %}"
    "{{ '<|vision_start|><|image_pad|><|vision_end|>' }}{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}{{ '<|im_end|>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
WIDTH, PATCH, MERGE = 64, 8, 2
TRAIN, VALID = 480, 48  # samples


def write(folder):
    folder = pathlib.Path(folder)
    (folder / "pictures").mkdir(parents=True, exist_ok=True)
    draw = random.Random(1)
    texts = []
    for name, count in (("train", TRAIN), ("valid", VALID)):
        samples = [_sample(draw, folder, f"{name}-{i}") for i in range(count)]
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(s) + "\n" for s in samples))
        texts += [json.dumps(s["messages"]) for s in samples]
    _write_model(folder / "model", texts)


def _sample(draw, folder, name):
    """One or two pictures, and a question about each."""
    messages = []
    for i in range(draw.randint(1, 2)):
        color, shape = draw.choice(list(COLORS)), draw.choice(SHAPES)
        path = f"pictures/{name}-{i}.png"
        _picture(draw, color, shape).save(folder / path)
        question, answer = draw.choice([("What is this?", f"a {color} {shape}"), ("Which color is it?", color), ("Which shape is it?", f"a {shape}")])
        messages += [{"role": "user", "content": [{"type": "image", "image": path}, {"type": "text", "text": question}]}, {"role": "assistant", "content": answer}]
    return {"messages": messages}


def _picture(draw, color, shape):
    """A shape that fills most of a picture of any size."""
    from PIL import Image, ImageDraw

    width, height = draw.randint(24, 80), draw.randint(24, 80)
    picture = Image.new("RGB", (width, height), (250, 250, 250))
    left, top, right, bottom = draw.randint(0, width // 6), draw.randint(0, height // 6), width - draw.randint(1, width // 6), height - draw.randint(1, height // 6)
    pen = ImageDraw.Draw(picture)
    if shape == "circle":
        pen.ellipse((left, top, right, bottom), COLORS[color])
    elif shape == "square":
        pen.rectangle((left, top, right, bottom), COLORS[color])
    else:
        pen.polygon([(left, bottom), (right, bottom), ((left + right) // 2, top)], COLORS[color])
    return picture


def _write_model(folder, texts):
    import torch
    import transformers as hf

    hf.logging.disable_progress_bar()
    tokenizer = _tokenizer(texts)
    token = tokenizer.convert_tokens_to_ids
    shape = {"patch_size": PATCH, "temporal_patch_size": 2, "merge_size": MERGE}
    size = {"min_pixels": (PATCH * MERGE) ** 2, "max_pixels": 80 * 80}
    hf.Qwen2_5_VLProcessor(hf.Qwen2VLImageProcessor(**shape, **size), tokenizer, hf.Qwen2VLVideoProcessor(**shape), chat_template=TEMPLATE).save_pretrained(folder)
    vision = {
        "depth": 2, "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "out_hidden_size": WIDTH, "num_heads": 4, "patch_size": PATCH, "temporal_patch_size": 2, "spatial_merge_size": MERGE,
        "window_size": 2 * PATCH * MERGE, "fullatt_block_indexes": [1],
    }  # fmt: skip
    text = {
        "vocab_size": len(tokenizer), "hidden_size": WIDTH, "intermediate_size": 2 * WIDTH, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 512,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 3, 3]}, "bos_token_id": None, "eos_token_id": token("<|im_end|>"), "pad_token_id": token("<|endoftext|>"),
    }  # fmt: skip
    ids = {f"{name}_token_id": token(f"<|{word}|>") for name, word in (("image", "image_pad"), ("video", "video_pad"), ("vision_start", "vision_start"), ("vision_end", "vision_end"))}
    torch.manual_seed(1)
    hf.Qwen2_5_VLForConditionalGeneration(hf.Qwen2_5_VLConfig(text_config=text, vision_config=vision, tie_word_embeddings=True, **ids)).save_pretrained(folder)


def _tokenizer(texts):
    import transformers as hf
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    made = Tokenizer(models.BPE())
    made.pre_tokenizer, made.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    made.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=400, special_tokens=SPECIAL, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return hf.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="<|im_end|>", pad_token="<|endoftext|>", extra_special_tokens=SPECIAL)


if __name__ == "__main__":
    write(sys.argv[1])
