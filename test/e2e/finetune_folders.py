# ===- finetune_folders.py - tiny Hugging Face folders and chats --------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# A folder of each family with random weights, a tokenizer that is trained here,
# and a template as the family's own models have it. What a conversation becomes
# is written down a second time, without Jinja, as texts of which some are learned.
# ===-----------------------------------------------------------------------===
"""FAMILIES, make_folder, draw_chats, expected: for finetune.py and finetune_input.py."""

import json
import random
from dataclasses import dataclass, field

import tokenizers
import torch
import transformers as hf
from tokenizers import decoders, models, pre_tokenizers, trainers

SPECIAL = ["<pad>", "<bos>", "<|im_start|>", "<|im_end|>", "<start_of_turn>", "<end_of_turn>", "[INST]", "[/INST]", "</s>", "<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
WORDS = "the a quick brown fox jumps over lazy dog and sees another one of its kind why does it rain where is my hat".split()

CHATML = "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
MARKED = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' }}{% if m.role == 'assistant' %}{% generation %}{{ m.content + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ m.content + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
LLAMA = (
    "{{ '<|begin_of_text|>' }}{% for m in messages %}{{ '<|start_header_id|>' + m.role + '<|end_header_id|>\n\n' + m.content | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
GEMMA = (
    "{{ '<bos>' }}{% for m in messages %}{% if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% endif %}"
    "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\n' + m.content | trim + '<end_of_turn>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}"
)
# The system message stands in the last user's turn, so nowhere if the conversation ends with an answer.
MISTRAL = (
    "{% if messages[0].role == 'system' %}{% set system = messages[0].content %}{% set messages = messages[1:] %}{% endif %}{{ '<bos>' }}{% for m in messages %}"
    "{% if m.role == 'user' %}{{ '[INST] ' + (system + '\n\n' if loop.last and system is defined else '') + m.content + '[/INST]' }}{% else %}{{ ' ' + m.content + '</s>' }}{% endif %}{% endfor %}"
)
PHI = "{% for m in messages %}{{ '<|' + m.role + '|>\n' + m.content + '<|end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>\n' }}{% endif %}"


def chatml(role, content):
    return [(f"<|im_start|>{role}\n", False), (f"{content}<|im_end|>", role == "assistant"), ("\n", False)]


def llama(role, content):
    return [(f"<|start_header_id|>{role}<|end_header_id|>\n\n", False), (f"{content}<|eot_id|>", role == "assistant")]


def gemma(role, content):
    return [(f"<start_of_turn>{'model' if role == 'assistant' else role}\n", False), (f"{content}<end_of_turn>", role == "assistant"), ("\n", False)]


def mistral(role, content):
    return [(f" {content}</s>", True)] if role == "assistant" else [(f"[INST] {content}[/INST]", False)]


def phi(role, content):
    return [(f"<|{role}|>\n", False), (f"{content}<|end|>", role == "assistant"), ("\n", False)]


@dataclass
class Family:
    config: type
    template: str
    pieces: object  # (role, content) -> [(text, whether it is learned)]
    end: str
    begin: str = ""
    systems: bool = True
    kind: torch.dtype = torch.float32
    more: dict = field(default_factory=dict)


FAMILIES = {
    "llama": Family(hf.LlamaConfig, LLAMA, llama, "<|eot_id|>", "<|begin_of_text|>", more={"rope_parameters": {"rope_type": "llama3", "rope_theta": 10000.0, "factor": 4.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0, "original_max_position_embeddings": 64}}),
    "qwen3": Family(hf.Qwen3Config, MARKED, chatml, "<|im_end|>", more={"head_dim": 8, "tie_word_embeddings": True}),
    # Caps that bend: scores and logits of these weights are several times as large.
    "gemma2": Family(hf.Gemma2Config, GEMMA, gemma, "<end_of_turn>", "<bos>", systems=False, more={"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 12, "layer_types": ["sliding_attention", "full_attention"], "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "tie_word_embeddings": True}),
    "gemma3_text": Family(hf.Gemma3TextConfig, GEMMA, gemma, "<end_of_turn>", "<bos>", systems=False, more={"head_dim": 8, "query_pre_attn_scalar": 8, "sliding_window": 12, "layer_types": ["sliding_attention", "full_attention"], "tie_word_embeddings": True}),
    "mistral": Family(hf.MistralConfig, MISTRAL, mistral, "</s>", "<bos>", systems=False, more={"sliding_window": 20}),
    "qwen2": Family(hf.Qwen2Config, CHATML, chatml, "<|im_end|>"),
    # A dense layer and one of experts.
    "qwen3_moe": Family(hf.Qwen3MoeConfig, CHATML, chatml, "<|im_end|>", more={"head_dim": 8, "moe_intermediate_size": 24, "num_experts": 4, "num_experts_per_tok": 2, "norm_topk_prob": True, "mlp_only_layers": [0]}),
    "qwen2_moe": Family(hf.Qwen2MoeConfig, CHATML, chatml, "<|im_end|>", more={"moe_intermediate_size": 24, "shared_expert_intermediate_size": 40, "num_experts": 4, "num_experts_per_tok": 2, "mlp_only_layers": [0]}),
    "mixtral": Family(hf.MixtralConfig, MISTRAL, mistral, "</s>", "<bos>", systems=False, more={"num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": 20}),
    "olmoe": Family(hf.OlmoeConfig, CHATML, chatml, "<|im_end|>", more={"num_experts": 4, "num_experts_per_tok": 2}),
    "phi3": Family(hf.Phi3Config, PHI, phi, "<|end|>", kind=torch.bfloat16),
}  # fmt: skip


def make_tokenizer(family, special=(), **more):
    special = [*SPECIAL, *special]
    trained = tokenizers.Tokenizer(models.BPE())
    trained.pre_tokenizer, trained.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    texts = [" ".join(random.Random(i).choices(WORDS, k=12)) for i in range(100)]
    trained.train_from_iterator(texts, trainers.BpeTrainer(vocab_size=340, special_tokens=special, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False))
    return hf.PreTrainedTokenizerFast(tokenizer_object=trained, eos_token=family.end, pad_token="<pad>", chat_template=family.template, extra_special_tokens=special, **more)


def make_folder(name, path, **more):
    """Of several files of weights. `more`: of the config."""
    family, tokenizer = FAMILIES[name], make_tokenizer(FAMILIES[name])
    sizes = {"vocab_size": len(tokenizer) + 7, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256, "initializer_range": 0.2}
    config = family.config(**sizes | {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None, "tie_word_embeddings": False} | family.more | more)
    torch.manual_seed(1)
    net = hf.AutoModelForCausalLM.from_config(config, dtype=torch.float32)
    with torch.no_grad():
        for parameter in net.parameters():  # norms and biases, too
            parameter += 0.05 * torch.randn_like(parameter)
    net.to(family.kind).save_pretrained(path, max_shard_size="60KB")
    tokenizer.save_pretrained(path)
    return path


def draw_chats(name, count, seed):
    """Conversations of one to three turns; some contents are lists of parts."""
    draw, chats = random.Random(seed), []
    words = lambda: " ".join(draw.choices(WORDS, k=draw.randint(1, 10)))
    for i in range(count):
        chat = [("system", words())] if FAMILIES[name].systems and i % 3 == 0 else []
        for _ in range(draw.randint(1, 3)):
            chat += [("user", words()), ("assistant", words())]
        chats.append(chat)
    return chats


def write_chats(path, chats):
    def message(i, role, content):
        return {"role": role, "content": [{"type": "text", "text": content[:3]}, {"type": "text", "text": content[3:]}] if i % 4 == 1 else content}

    path.write_text("".join(json.dumps({"messages": [message(i, *turn) for i, turn in enumerate(chat)]}) + "\n" for chat in chats))
    return path


def expected(name, tokenizer, chat):
    """(ids, which are learned) of a conversation."""
    family, ids, learned = FAMILIES[name], [], []
    pieces = [(family.begin, False), *(piece for turn in chat for piece in family.pieces(*turn))]
    for text, is_learned in pieces:
        tokens = tokenizer(text, add_special_tokens=False)["input_ids"]
        ids += tokens
        learned += [is_learned] * len(tokens)
    assert ids == tokenizer("".join(text for text, _ in pieces), add_special_tokens=False)["input_ids"], "no token reaches over two pieces"
    return ids, learned
