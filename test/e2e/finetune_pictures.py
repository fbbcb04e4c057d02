# ===- finetune_pictures.py - tiny folders of networks that see pictures -------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# Random weights, the library's own processors at a small size, and templates as
# the families' own models have them. What is learned of a conversation is found
# a second time, by tokens and not by characters.
# ===-----------------------------------------------------------------------===
"""FAMILIES: Pictures with make, draw, write, expected; for finetune.py."""

import json
import random
import wave
from dataclasses import dataclass, field

import numpy as np
import torch
import transformers as hf
from PIL import Image
from tokenizers.processors import TemplateProcessing

import finetune_folders as folders

VISION = ["<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|video_pad|>"]
TEXT = {
    "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 1024, "initializer_range": 0.2,
    "bos_token_id": None, "eos_token_id": None, "pad_token_id": None,
}  # fmt: skip
TOWER = {"hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "num_attention_heads": 2, "initializer_range": 0.2}


def parts(image, video=""):
    text = "{% if m.content is string %}{{ m.content }}{% else %}{% for p in m.content %}{% if p.type == 'image' %}{{ 'IMAGE' }}{% elif p.type == 'video' %}{{ 'VIDEO' }}{% else %}{{ p.text }}{% endif %}{% endfor %}{% endif %}"
    return text.replace("IMAGE", image).replace("VIDEO", video)


def chatml(image, video=""):
    return "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}" + parts(image, video) + "{{ '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"


@dataclass
class Sample:
    ids: list
    learned: list
    inputs: dict  # of the library's network, beside the tokens


@dataclass
class Video:
    frames: list  # pictures of one size
    fps: float

    def told(self):
        return {"fps": self.fps, "total_num_frames": len(self.frames), "frames_indices": list(range(len(self.frames)))}


@dataclass
class Pictures:
    """build(tokenizer) -> (network, processor)."""

    build: object
    template: str
    special: tuple = ()
    begin: str = "<|im_start|>assistant\n"
    end: str = "<|im_end|>"
    names: dict = field(default_factory=dict)  # that a processor calls special tokens by
    kind: torch.dtype = torch.float32
    videos: bool = False  # whether some samples have one

    def make(self, path):
        torch.manual_seed(1)
        tokenizer = folders.make_tokenizer(folders.Family(None, None, None, self.end), self.special, **self.names)
        net, processor = self.build(tokenizer)
        with torch.no_grad():
            for parameter in net.parameters():  # norms and biases, too
                parameter += 0.05 * torch.randn_like(parameter)
        net.save_pretrained(path, max_shard_size="60KB")
        processor.chat_template = self.template
        processor.save_pretrained(path)
        return path

    def reader(self, path):
        return hf.AutoProcessor.from_pretrained(path)

    def draw(self, count, seed):
        """Of 0 to 3 pictures of any shape, and one to three turns."""
        draw, chats = random.Random(seed), []
        for i in range(count):
            pictures, chat = i % 4, []
            for turn in range(draw.randint(1, 3)):
                here = pictures if turn == 0 else 0
                parts = [self._picture(draw) for _ in range(here)] + [self._video(draw) for _ in range(self.videos and turn == 0 and i % 3)] + [" ".join(draw.choices(folders.WORDS, k=draw.randint(1, 8)))]
                draw.shuffle(parts) if i % 3 else None
                chat += [("user", parts), ("assistant", " ".join(draw.choices(folders.WORDS, k=draw.randint(1, 8))))]
            chats.append(chat)
        return chats

    @staticmethod
    def _picture(draw):
        width, height = draw.randint(8, 70), draw.randint(8, 70)
        return Image.fromarray(np.random.default_rng(draw.randint(0, 10**6)).integers(0, 256, (height, width, 3), np.uint8))

    @staticmethod
    def _video(draw):
        width, height = draw.randint(8, 70), draw.randint(8, 70)
        frames = np.random.default_rng(draw.randint(0, 10**6)).integers(0, 256, (draw.randint(2, 5), height, width, 3), np.uint8)
        return Video([Image.fromarray(frame) for frame in frames], draw.choice([0.5, 2, 3]))

    def write(self, path, chats):
        lines = []
        for i, chat in enumerate(chats):
            messages, beside, frames = [], [], 0
            for role, content in chat:
                parts = []
                for part in [content] if isinstance(content, str) else content:
                    if isinstance(part, str):
                        parts.append({"type": "text", "text": part})
                        continue
                    if isinstance(part, Video):
                        names = [f"{path.stem}-{i}-frame{frames + n}.png" for n in range(len(part.frames))]
                        frames += len(names)
                        for name, frame in zip(names, part.frames):
                            frame.save(path.with_name(name))
                        parts.append({"type": "video", "video": names, "fps": part.fps})
                        continue
                    name = f"{path.stem}-{i}-{len(beside)}.png"
                    part.save(path.with_name(name))
                    beside.append(name)
                    parts.append({"type": "image"} | ({"image": name} if i % 2 else {}))
                messages.append({"role": role, "content": parts[0]["text"] if role == "assistant" else parts})
            lines.append({"messages": messages} | ({} if i % 2 else {"images": beside}))
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return path

    def expected(self, processor, chat):
        if self.videos:
            return self._sample(processor, self._seen(processor, chat))
        part = lambda p: {"type": "text", "text": p} if isinstance(p, str) else {"type": "image", "image": p}
        messages = [{"role": role, "content": [part(p) for p in ([content] if isinstance(content, str) else content)]} for role, content in chat]
        return self._sample(processor, processor.apply_chat_template(messages, tokenize=True, return_dict=True, return_tensors="pt"))

    def _seen(self, processor, chat):
        """Of pictures and videos, which the template does not read."""
        kind = lambda p: "text" if isinstance(p, str) else "video" if isinstance(p, Video) else "image"
        contents = [[content] if isinstance(content, str) else content for _, content in chat]
        messages = [{"role": role, "content": [{"type": kind(p), "text": p} for p in parts]} for (role, _), parts in zip(chat, contents)]
        every = [p for parts in contents for p in parts]
        images, videos = ([p for p in every if kind(p) == k] for k in ("image", "video"))
        more = {"images": [images]} if images else {}
        more |= {"videos": [np.stack([np.asarray(f) for f in v.frames]) for v in videos], "video_metadata": [v.told() for v in videos], "do_sample_frames": False} if videos else {}
        return processor(text=[processor.apply_chat_template(messages, tokenize=False)], return_tensors="pt", **more)

    def _sample(self, processor, made):
        ids, inputs = made["input_ids"][0].tolist(), {k: v for k, v in made.items() if k not in ("input_ids", "attention_mask")}
        tokens = processor.tokenizer
        begin, end = tokens(self.begin, add_special_tokens=False)["input_ids"], tokens.convert_tokens_to_ids(self.end)
        learned, on = [], False
        for i, token in enumerate(ids):
            learned.append(on)
            on = on and token != end or ids[i + 1 - len(begin) : i + 1] == begin
        return Sample(ids, learned, inputs)


# --- the families -------------------------------------------------------------------


def qwen(version, text=(), vision=(), processor="Qwen2VLProcessor", **more):
    def build(tokenizer):
        token = tokenizer.convert_tokens_to_ids
        shape = {"patch_size": 4, "temporal_patch_size": 2, "merge_size": 2}
        pixels = {"min_pixels": 64, "max_pixels": 40 * 40}
        # Of a frame, of Qwen3-VL of all frames.
        frames = hf.Qwen3VLVideoProcessor(**shape, size={"shortest_edge": 128, "longest_edge": 4 * 24 * 24}) if version == "Qwen3VL" else hf.Qwen2VLVideoProcessor(**shape, size={"shortest_edge": 64, "longest_edge": 24 * 24})
        made = getattr(hf, processor)(hf.Qwen2VLImageProcessor(**shape, **pixels), tokenizer, frames)
        tower = {"depth": 2, "num_heads": 2, "in_channels": 3, "patch_size": 4, "temporal_patch_size": 2, "spatial_merge_size": 2, "initializer_range": 0.2} | dict(vision)
        words = TEXT | {"vocab_size": len(tokenizer) + 7, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "mrope_section": [2, 1, 1]}} | dict(text)
        ids = {"image_token_id": token("<|image_pad|>"), "video_token_id": token("<|video_pad|>"), "vision_start_token_id": token("<|vision_start|>"), "vision_end_token_id": token("<|vision_end|>")}
        config = getattr(hf, f"{version}Config")(text_config=words, vision_config=tower, **ids, **({"tie_word_embeddings": False} | more))
        return getattr(hf, f"{version}ForConditionalGeneration")(config), made

    return Pictures(build, chatml("<|vision_start|><|image_pad|><|vision_end|>", "<|vision_start|><|video_pad|><|vision_end|>"), VISION, videos=True)


def llava(tokenizer):
    vision = TOWER | {"model_type": "clip_vision_model", "image_size": 16, "patch_size": 4}
    config = hf.LlavaConfig(text_config=TEXT | {"model_type": "llama", "vocab_size": len(tokenizer) + 7}, vision_config=vision, image_token_index=tokenizer.convert_tokens_to_ids("<image>"), vision_feature_layer=-2)
    pixels = hf.CLIPImageProcessor(size={"shortest_edge": 16}, crop_size={"height": 16, "width": 16})
    return hf.LlavaForConditionalGeneration(config), hf.LlavaProcessor(pixels, tokenizer, patch_size=4, vision_feature_select_strategy="default", num_additional_image_tokens=1)


def onevision(tokenizer):
    vision = TOWER | {"model_type": "siglip_vision_model", "image_size": 16, "patch_size": 4, "vision_use_head": False}
    words = TEXT | {"model_type": "qwen2", "vocab_size": len(tokenizer) + 7}
    grids = [[16 * i, 16 * j] for i in range(1, 4) for j in range(1, 4)]
    token = tokenizer.convert_tokens_to_ids
    config = hf.LlavaOnevisionConfig(text_config=words, vision_config=vision, image_token_index=token("<image>"), video_token_index=token("<video>"), image_grid_pinpoints=grids, vision_aspect_ratio="anyres_max_3", tie_word_embeddings=False)
    pixels = hf.LlavaOnevisionImageProcessor(size={"height": 16, "width": 16}, image_grid_pinpoints=grids)
    processor = hf.LlavaOnevisionProcessor(pixels, tokenizer, hf.LlavaOnevisionVideoProcessor(), num_image_tokens=16, vision_feature_select_strategy="full", vision_aspect_ratio="anyres_max_3")
    return hf.LlavaOnevisionForConditionalGeneration(config), processor


INTERN = {"start_image_token": "<img>", "end_image_token": "</img>", "context_image_token": "<IMG_CONTEXT>", "video_token": "<video>"}


def internvl(tokenizer):
    vision = TOWER | {"image_size": [16, 16], "patch_size": [4, 4]}
    words = TEXT | {"model_type": "qwen2", "vocab_size": len(tokenizer) + 7}
    config = hf.InternVLConfig(text_config=words, vision_config=vision, image_token_id=tokenizer.convert_tokens_to_ids("<IMG_CONTEXT>"), tie_word_embeddings=False)
    pixels = hf.GotOcr2ImageProcessor(size={"height": 16, "width": 16}, crop_to_patches=True, min_patches=1, max_patches=4)
    return hf.InternVLForConditionalGeneration(config), hf.InternVLProcessor(pixels, tokenizer, hf.InternVLVideoProcessor(), image_seq_length=4)


def smolvlm(tokenizer, name="SmolVLM"):
    library = lambda what: getattr(hf, f"{name}{what}")
    vision = TOWER | {"image_size": 16, "patch_size": 4}
    words = TEXT | {"model_type": "llama", "vocab_size": len(tokenizer) + 7}
    config = library("Config")(text_config=words, vision_config=vision, image_token_id=tokenizer.convert_tokens_to_ids("<image>"), scale_factor=2, tie_word_embeddings=False)
    pixels = library("ImageProcessor")(size={"longest_edge": 40}, max_image_size={"longest_edge": 16})
    return library("ForConditionalGeneration")(config), library("Processor")(pixels, tokenizer, *([hf.SmolVLMVideoProcessor()] if name == "SmolVLM" else []), image_seq_len=4)


GEMMA = {"boi_token": "<start_of_image>", "eoi_token": "<end_of_image>", "image_token": "<image_soft_token>"}


def gemma3(tokenizer):
    vision = TOWER | {"model_type": "siglip_vision_model", "image_size": 16, "patch_size": 4}
    layers = ["sliding_attention", "full_attention"]
    words = TEXT | {"model_type": "gemma3_text", "vocab_size": len(tokenizer) + 7, "head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 12, "layer_types": layers, "tie_word_embeddings": True}
    ids = {f"{name.replace('token', 'token_index')}": tokenizer.convert_tokens_to_ids(token) for name, token in GEMMA.items()}
    config = hf.Gemma3Config(text_config=words, vision_config=vision, mm_tokens_per_image=4, tie_word_embeddings=True, **ids)
    pixels = hf.Gemma3ImageProcessor(size={"height": 16, "width": 16})
    return hf.Gemma3ForConditionalGeneration(config), hf.Gemma3Processor(pixels, tokenizer, image_seq_length=4)


def paligemma(tokenizer, **text):
    vision = TOWER | {"model_type": "siglip_vision_model", "image_size": 16, "patch_size": 4, "vision_use_head": False}
    words = TEXT | {"model_type": "gemma", "head_dim": 8} | text
    pixels = hf.SiglipImageProcessor(size={"height": 16, "width": 16})
    pixels.image_seq_length = 16
    processor = hf.PaliGemmaProcessor(pixels, tokenizer)
    words["vocab_size"] = len(tokenizer) - 1000  # of the tokens that the processor adds the last ones have no row
    return hf.PaliGemmaForConditionalGeneration(hf.PaliGemmaConfig(text_config=words, vision_config=vision, image_token_index=tokenizer.convert_tokens_to_ids("<image>"), projection_dim=32)), processor


def paligemma2(tokenizer):
    layers = ["sliding_attention", "full_attention"]
    return paligemma(tokenizer, model_type="gemma2", query_pre_attn_scalar=8, sliding_window=12, layer_types=layers, attn_logit_softcapping=2.0, final_logit_softcapping=3.0)


class Prompts(Pictures):
    """A prompt with its pictures, and an answer: the processor knows what is learned."""

    def draw(self, count, seed):
        chats = super().draw(count + count // 3 + 1, seed)
        chats = [[chat[0], chat[1]] for i, chat in enumerate(chats) if i % 4]  # a picture at least
        return [[("user", sorted(chat[0][1], key=lambda part: isinstance(part, str))), chat[1]] for chat in chats[:count]]

    def expected(self, processor, chat):
        (_, parts), (_, answer) = chat
        parts = [parts] if isinstance(parts, str) else parts
        pictures, text = [p for p in parts if not isinstance(p, str)], "".join(p for p in parts if isinstance(p, str))
        made = processor(text=["<image>" * len(pictures) + text], images=[pictures], suffix=[answer], return_tensors="pt") if pictures else processor.tokenizer(text + answer, return_tensors="pt")
        inputs = {k: v for k, v in made.items() if k in ("pixel_values", "token_type_ids")}
        return Sample(made["input_ids"][0].tolist(), made["token_type_ids"][0].bool().tolist() if pictures else [], inputs)


class Sounds(Pictures):
    """A recording and what is said: all behind the start token is learned."""

    def draw(self, count, seed):
        draw = random.Random(seed)
        sound = lambda: np.random.default_rng(draw.randint(0, 10**6)).integers(-(2**14), 2**14, draw.randint(2000, 9000)).astype("<i2")
        return [[("user", [sound()]), ("assistant", " ".join(draw.choices(folders.WORDS, k=draw.randint(1, 8))))] for _ in range(count)]

    def write(self, path, chats):
        lines = []
        for i, ((_, (sound,)), (_, text)) in enumerate(chats):
            with wave.open(str(path.with_name(name := f"{path.stem}-{i}.wav")), "wb") as file:
                file.setnchannels(1), file.setsampwidth(2), file.setframerate(16000)
                file.writeframes(sound.tobytes())
            turns = [{"role": "user", "content": [{"type": "audio", "audio": name}]}, {"role": "assistant", "content": text}]
            lines.append({"messages": turns} if i % 2 else {"audio": name, "text": text})
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))

    def expected(self, processor, chat):
        (_, (sound,)), (_, text) = chat
        ids = processor.tokenizer(text)["input_ids"]
        features = processor.feature_extractor((sound / 32768).astype(np.float32), sampling_rate=16000, return_tensors="pt")["input_features"]
        return Sample(ids, [False] + [True] * (len(ids) - 1), {"input_features": features})


def whisper(tokenizer):
    start, end = tokenizer.convert_tokens_to_ids(["<|begin_of_text|>", "<|im_end|>"])
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(single="<|begin_of_text|> $A <|im_end|>", special_tokens=[("<|begin_of_text|>", start), ("<|im_end|>", end)])
    sizes = {"d_model": 16, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24}
    config = hf.WhisperConfig(
        vocab_size=len(tokenizer) + 7, num_mel_bins=8, max_source_positions=50, max_target_positions=64, decoder_start_token_id=start, bos_token_id=start, eos_token_id=end, pad_token_id=end, init_std=0.2, **sizes
    )
    sound = hf.WhisperFeatureExtractor(feature_size=8, chunk_length=1)
    return hf.WhisperForConditionalGeneration(config), hf.WhisperProcessor(sound, tokenizer)


SMOL = (
    "<|im_start|>{% for m in messages %}{{ m.role | capitalize }}{% if m.content[0].type == 'image' %}{{ ':' }}{% else %}{{ ': ' }}{% endif %}{% for p in m.content %}{% if p.type == 'text' %}{{ p.text }}"
    "{% else %}{{ '<image>' }}{% endif %}{% endfor %}<end_of_utterance>\n{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
SMOL_TOKENS = ("<image>", "<fake_token_around_image>", "<global-img>", "<end_of_utterance>", "<video>", *(f"<row_{i}_col_{j}>" for i in range(1, 5) for j in range(1, 5)))
GEMMA_CHAT = (
    "{{ '<bos>' }}{% for m in messages %}{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' }}"
    + parts("<start_of_image>")
    + "{{ '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
VICUNA = "{% for m in messages %}{{ m.role | upper + ': ' }}" + parts("<image>\\n") + "{{ '</s>' if m.role == 'assistant' else ' ' }}{% endfor %}{% if add_generation_prompt %}{{ 'ASSISTANT:' }}{% endif %}"

FAMILIES = {
    "qwen2_vl": qwen("Qwen2VL", vision={"embed_dim": 16, "hidden_size": 32, "mlp_ratio": 2}),
    "qwen2_5_vl": qwen("Qwen2_5_VL", vision={"hidden_size": 16, "intermediate_size": 24, "out_hidden_size": 32, "window_size": 16, "fullatt_block_indexes": [1]}, processor="Qwen2_5_VLProcessor"),
    "qwen3_vl": qwen(
        "Qwen3VL", {"head_dim": 8}, {"hidden_size": 16, "intermediate_size": 24, "out_hidden_size": 32, "num_position_embeddings": 9, "deepstack_visual_indexes": [0, 1]}, processor="Qwen3VLProcessor", tie_word_embeddings=True
    ),
    "gemma3": Pictures(gemma3, GEMMA_CHAT, GEMMA.values(), "<start_of_turn>model\n", "<end_of_turn>", {"model_specific_special_tokens": GEMMA}),
    **{name: Prompts(build, None, ("<image>",), names={"bos_token": "<bos>", "model_specific_special_tokens": {"image_token": "<image>"}}) for name, build in (("paligemma", paligemma), ("paligemma2", paligemma2))},
    "whisper": Sounds(whisper, None),
    "llava": Pictures(llava, VICUNA, ("<image>",), "ASSISTANT:", "</s>"),
    "llava_onevision": Pictures(onevision, chatml("<image>"), ("<image>", "<video>")),
    "internvl": Pictures(internvl, chatml("<IMG_CONTEXT>"), INTERN.values(), names={"model_specific_special_tokens": INTERN}),
    "idefics3": Pictures(lambda tokenizer: smolvlm(tokenizer, "Idefics3"), SMOL, SMOL_TOKENS, "Assistant:", "<end_of_utterance>"),
    "smolvlm": Pictures(smolvlm, SMOL, SMOL_TOKENS, "Assistant:", "<end_of_utterance>"),
}  # fmt: skip
