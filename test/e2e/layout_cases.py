# ===- layout_cases.py - the matrix of layouts ------------------------------===
#
# Part of the DistTrain compiler, under Apache-2.0 WITH LLVM-exception
#
# name, model, samples of a step, samples of a microbatch (None: the plan says), plan (layouts.py says
# how it is written; "auto": --plan=auto). `refused`: the plan cannot work, and the error must match.
# `words`: the model with fewer words, which are padded; one process has them as they are.
# `favours`: routers choose the first so many experts for every token.
# `overlap`: sums of gradients begin before the last backward ends.
# ===-----------------------------------------------------------------------===
"""CASES: what layouts.py tries."""

CASES = []
TIGHT = {"experts": {"capacity": 1}}
SPLIT = {"split": "auto"}  # one graph, cut into the modules it holds


def case(name, model, samples, micro, plan, **more):
    CASES.append(dict(name=name, model=model, samples=samples, micro=micro, plan=plan, **more))


# One axis at a time.
for model in ("gpt2", "llama"):
    case(f"{model}-dp2", model, 8, 4, "model:dp=2", subset=model == "gpt2")
    case(f"{model}-dp3", model, 9, 3, "model:dp=3")
    case(f"{model}-tp2", model, 8, 4, "model:tp=2", subset=model == "llama")
    case(f"{model}-tp4", model, 4, 4, "model:tp=4,overlap=" + ("3,sequence_parallel=true" if model == "gpt2" else "2"))
    case(f"{model}-pp2", model, 8, 2, "model:pp=2", subset=model == "llama")
case("gpt2-zero1", "gpt2", 8, 4, "model:dp=2,zero=1")
case("llama-zero1-dp3", "llama", 9, 9, "model:dp=3,zero=1")
case("gpt2-dp3-uneven", "gpt2", 7, 5, "model:dp=3")
# A graph that returns nothing but its loss: its inputs say what it works on.
case("llama_loss-dp3", "llama_loss", 7, 4, "model:dp=3", subset=True)
case("llama_loss-dp2-pp2", "llama_loss", 8, 4, "model:dp=2,pp=2")
case("unet-dp2", "unet", 4, 4, "model:dp=2")
case("unet-tp2", "unet", 4, 4, "model:tp=2")
case("unet-pp2", "unet", 4, 1, "model:pp=2")
case("clip-dp2", "clip", 8, 4, "model_vision_model:dp=2 model_text_model:dp=2,ranks=0-1", patch=SPLIT)

# Vocabularies that are padded: on one rank, cut, and in two stages of which one looks up what the other has class scores of.
case("gpt2-words", "gpt2", 8, 4, "model:", words=250, subset=True)
case("gpt2-words-tp2-pp2", "gpt2", 8, 2, "model:tp=2,pp=2", words=250, subset=True)
case("gpt2-words-pp2", "gpt2", 8, 2, "model:pp=2", words=250)
case("llama-words-tp3", "llama", 8, 4, "model:tp=3", words=251)

# Schedules.
for schedule in ("gpipe", "1f1b", "zb-h1", "zb-h2", "zb-1p", "zb-2p", "accumulate"):
    case(f"gpt2-pp2-{schedule}", "gpt2", 8, 1, f"model:pp=2 | schedule={schedule}", subset=schedule == "zb-h1")
case("llama-pp2-vpp2", "llama", 8, 2, "model:pp=2,vpp=2 | schedule=interleaved", subset=True)
for schedule in ("zb-v", "dualpipe-v"):
    case(f"gpt2-{schedule}", "gpt2", 8, 2, f"model:pp=2,vpp=2 | schedule={schedule}")
case("llama-pp4", "llama", 8, 1, "model:pp=4 | schedule=1f1b")

# Axes together.
case("gpt2-tp2-dp2", "gpt2", 8, 4, "model:tp=2,dp=2")
case("gpt2-tp2-pp2", "gpt2", 8, 2, "model:tp=2,pp=2")
case("llama-dp2-pp2-zero1", "llama", 8, 4, "model:dp=2,pp=2,zero=1")
case("llama-tp2-dp2-pp2", "llama", 8, 4, "model:tp=2,dp=2,pp=2", subset=True)
case("llama-tp2-dp3-pp2", "llama", 12, 6, "model:tp=2,dp=3,pp=2,zero=1")
case("unet-tp2-dp2-pp2", "unet", 8, 4, "model:tp=2,dp=2,pp=2")
case("unet-tp2-pp2-vpp2", "unet", 6, 3, "model:tp=2,pp=2,vpp=2 | schedule=interleaved", subset=True)  # what skips a stage stays on its ranks; three samples are no even share of two

# Small buckets: sums begin inside the last backward, whatever a replica's part holds.
case("gpt2-dp3-buckets", "gpt2", 7, 5, "model:dp=3 | bucket_bytes=20000", subset=True, overlap=True)
# Rounded, so compared as programs in bf16 are.
case("gpt2-dp3-narrow-sums", "gpt2", 7, 5, "model:dp=3 | bucket_bytes=20000 gradient_sums=bf16", subset=True)
case("llama-tp2-dp2-zero1-narrow-sums", "llama", 8, 4, "model:tp=2,dp=2,zero=1 | bucket_bytes=9000 gradient_sums=bf16", subset=True)
case("gpt2-dp2-pp2-zb-buckets", "gpt2", 8, 4, "model:dp=2,pp=2,zero=1 | schedule=zb-h1 bucket_bytes=20000")
case("llama-tp2-dp2-sp-buckets", "llama", 8, 4, "model:tp=2,dp=2,zero=1,sequence_parallel=true,overlap=3 | bucket_bytes=9000", subset=True)
case("gpt2-tp2-sp", "gpt2", 4, 2, "model:tp=2,save=all,sequence_parallel=true,overlap=2")
# Tokens stay cut between stages: each rank sends its own, to another rank or, where a V turns, to itself.
case("gpt2-tp2-pp2-sp-v", "gpt2", 8, 2, "model:tp=2,pp=2,vpp=2,sequence_parallel=true | schedule=zb-v", subset=True)
case("llama-tp2-pp2-dp2-sp-sub2", "llama", 8, 4, "model:tp=2,pp=2,dp=2,sub=2,sequence_parallel=true,zero=1")
case("mllm-buckets", "mllm", 12, 4, "vision:dp=3,zero=1 llm:tp=2,dp=2 generator:dp=2 | bucket_bytes=5000")

# Layers computed again before their backward function, cut over ranks; products and their collectives in strips, which the rows do not divide.
case("llama-tp2-save-none", "llama", 8, 4, "model:tp=2,save=none,overlap=3", subset=True)
# What a stage saves is its own: the first holds most microbatches. One that saves nothing has a whole backward among split ones.
case("llama-pp2-saves", "llama", 8, 1, "model:pp=2,save=none+all | schedule=zb-h1", subset=True)
case("gpt2-pp2-vpp2-saves", "gpt2", 8, 2, "model:pp=2,vpp=2,save=none+vjp+all+vjp | schedule=interleaved")
case("convnext-tp2-dp2-save-none", "extra/convnext", 8, 4, "model:tp=2,dp=2,save=none")

# Windows whose mask is repeated for every sample.
case("swin-dp2", "extra/swin", 7, 4, "model:dp=2")
# Documents in a row: numbers of segments are computed in one stage and stay whole where heads are cut.
case("packed-tp2-pp2-sp", "extra/packed", 6, 3, "model:tp=2,pp=2,sequence_parallel=true")

# Tokens over several ranks (docs/context.md): keys gathered, heads for tokens, beside all other axes; modules of one program may differ in it.
case("llama-cp2", "llama", 8, 4, "model:cp=2")
case("llama-cp2-zero1", "llama", 8, 4, "model:cp=2,zero=1")
case("gpt2-cp4-heads", "gpt2", 8, 4, "model:cp=4", subset=True)
case("llama-cp4-dp2", "llama", 8, 4, "model:cp=4,dp=2,zero=1")
case("llama-cp2-tp2-pp2-sp", "llama", 8, 2, "model:cp=2,tp=2,pp=2,zero=1,sequence_parallel=true", subset=True)
case("llama-cp2-dp2-zero1-save-none", "llama", 8, 4, "model:cp=2,dp=2,zero=1,save=none | bucket_bytes=9000")
case("llama-cp2-pp2-zb", "llama", 8, 2, "model:cp=2,pp=2 | schedule=zb-h1")
case("gpt2-cp2-vpp2-sub2", "gpt2", 8, 2, "model:cp=2,pp=2,vpp=2,sub=2 | schedule=interleaved")
case("gpt2-cp2-words", "gpt2", 8, 4, "model:cp=2,tp=2,zero=1", words=250)
case("llama_loss-cp2-dp3", "llama_loss", 7, 4, "model:cp=2,dp=3")
case("mllm-cp", "mllm", 12, 4, "vision:dp=2 llm:cp=4 generator:dp=2,cp=2,zero=1", subset=True)
case("mllm-cp-colocated", "mllm", 12, 4, "vision:dp=4,ranks=0-3 llm:tp=2,cp=2,ranks=0-3 generator:dp=2,cp=2,ranks=0-3 | schedule=phased")
# Keys go round: of grouped queries, beside all other axes, of packed rows.
case("llama-cp4-ring", "llama", 4, 2, "model:cp=4,context=ring", subset=True)
case("llama-cp2-tp2-pp2-ring", "llama", 8, 2, "model:cp=2,tp=2,pp=2,zero=1,sequence_parallel=true,context=ring,save=none")
case("packed-cp2-ring", "extra/packed", 6, 3, "model:cp=2,context=ring,zero=1")
case("llava-cp2", "llava", 3, 3, "model:cp=2,pp=2")
case("clip-cp2", "clip", 8, 4, "model_vision_model:tp=2 model_text_model:cp=4", patch=SPLIT)
case("packed-cp2-tp2", "extra/packed", 6, 3, "model:tp=2,cp=2,zero=1")
case("windows-cp2", "extra/gpt_oss", 6, 3, "model:cp=2,dp=2,zero=1")

# Experts whose inner axis is cut: what they add to a token is summed over ranks behind the sum over its experts.
case("qwen3_moe-tp2-dp2", "extra/qwen3_moe", 6, 3, "model:tp=2,dp=2,zero=1", subset=True)
case("qwen3_moe-tp2-pp2-sp", "extra/qwen3_moe", 6, 3, "model:tp=2,pp=2,sequence_parallel=true")
case("gpt_oss-tp2-dp2", "extra/gpt_oss", 6, 3, "model:tp=2,dp=2")
# Stages begin behind layers of experts, also where a microbatch is cut: a token's sum is of its own rows.
case("qwen3_moe-pp2-dp3", "extra/qwen3_moe", 6, 3, "model:pp=2,dp=3,zero=1")
case("gpt_oss-pp3-sub2", "extra/gpt_oss", 6, 2, "model:pp=3,sub=2", subset=True)
# Experts of each rank: whole ones, with inner axes cut over what is left of the group, with tokens cut between layers.
case("qwen3_moe-ep2-dp2", "extra/qwen3_moe", 6, 3, "model:tp=2,ep=2,dp=2,zero=1", subset=True)
case("qwen3_moe-ep4-sp", "extra/qwen3_moe", 4, 2, "model:tp=4,ep=4,sequence_parallel=true")
case("qwen3_moe-tp4-ep2-pp2", "extra/qwen3_moe", 4, 2, "model:tp=4,ep=2,pp=2,sequence_parallel=true,save=none", subset=True)
case("gpt_oss-ep2-zb", "extra/gpt_oss", 4, 1, "model:tp=2,ep=2,pp=2 | schedule=zb-h1", subset=True)
case("deepseek_v3-ep4-pp2-dp2", "extra/deepseek_v3", 8, 4, "model:tp=4,ep=4,pp=2,dp=2,zero=1")
# All rows are of the first experts: one rank has all of them, others none.
case("deepseek_v3-ep2-one-rank", "extra/deepseek_v3", 4, 2, "model:tp=2,ep=2", favours=4, subset=True)
case("gpt_oss-ep4-one-rank", "extra/gpt_oss", 4, 2, "model:tp=4,ep=4", favours=2)
# Tokens over several ranks: each routes its own, to all experts or to those of its tensor-parallel ranks; or ranks that share tokens share out experts, all of them or neighbours.
case("deepseek_v3-cp2", "extra/deepseek_v3", 4, 2, "model:cp=2")
case("gpt_oss-tp2-cp2-ep2-sp", "extra/gpt_oss", 4, 2, "model:tp=2,cp=2,ep=2,sequence_parallel=true", subset=True)
case("qwen3_moe-cp2-ep2", "extra/qwen3_moe", 6, 3, "model:cp=2,ep=2")
case("qwen3_moe-cp2-ep2-pp2-dp2", "extra/qwen3_moe", 8, 2, "model:cp=2,ep=2,pp=2,dp=2,zero=1", subset=True)
case("deepseek_v3-tp2-cp2-ep4", "extra/deepseek_v3", 4, 2, "model:tp=2,cp=2,ep=4,save=none", subset=True)
case("qwen3_moe-cp4-ep2", "extra/qwen3_moe", 4, 2, "model:cp=4,ep=2 | bucket_bytes=9000", subset=True)
case("gpt_oss-cp2-ep2-one-rank", "extra/gpt_oss", 4, 2, "model:cp=2,ep=2 | schedule=accumulate", favours=2)
# Replicas that share out experts, each with samples of its own.
case("qwen3_moe-dp2-ep2", "extra/qwen3_moe", 8, 4, "model:dp=2,ep=2", subset=True)
case("qwen3_moe-tp2-dp4-ep4-zero", "extra/qwen3_moe", 8, 4, "model:tp=2,dp=4,ep=4,zero=1")
case("gpt_oss-dp4-ep2-sub", "extra/gpt_oss", 16, 8, "model:dp=4,ep=2,sub=2")
case("gpt_oss-tp2-dp2-ep4-pp2-sp", "extra/gpt_oss", 8, 2, "model:tp=2,pp=2,dp=2,ep=4,sequence_parallel=true,save=none | schedule=zb-h1")
case("deepseek_v3-tp2-pp2-dp2-ep4", "extra/deepseek_v3", 8, 2, "model:tp=2,pp=2,dp=2,ep=4,zero=1", subset=True)
case("deepseek_v3-cp2-dp2-ep4", "extra/deepseek_v3", 4, 2, "model:cp=2,dp=2,ep=4")
case("gpt_oss-dp4-ep4-one-rank", "extra/gpt_oss", 8, 4, "model:dp=4,ep=4", favours=2)
# With a capacity rows travel to the ranks of their experts, between replicas alone, inside of tensor-parallel ranks' parts, between ranks that share tokens; of experts with biases, where one rank's have all rows that are left and others none.
case("qwen3_moe-dp4-ep4-rows", "extra/qwen3_moe", 8, 4, "model:dp=4,ep=4,zero=1", patch=TIGHT)
case("qwen3_moe-tp2-dp2-ep4-sp-rows", "extra/qwen3_moe", 8, 2, "model:tp=2,dp=2,ep=4,sequence_parallel=true", patch=TIGHT)
case("qwen3_moe-tp4-cp2-ep8-rows", "extra/qwen3_moe", 4, 2, "model:tp=4,cp=2,ep=8,save=none", patch=TIGHT)
case("gpt_oss-dp4-ep4-pp2-rows", "extra/gpt_oss", 8, 4, "model:dp=4,ep=4,pp=2 | schedule=zb-h1", patch=TIGHT, favours=2, subset=True)
case("qwen3_moe-dp2-ep2-odd", "extra/qwen3_moe", 6, 3, "model:dp=2,ep=2", refused="model.ep: 2 ranks share out experts over 2 replicas, which need as many samples each; a microbatch has 3 samples")
case("qwen3_moe-ep3", "extra/qwen3_moe", 6, 3, "model:tp=3,ep=3", refused="layers of 8 experts, which ep = 3 does not divide")
case("deepseek_v3-tp2-pp2", "extra/deepseek_v3", 6, 3, "model:tp=2,pp=2,save=none | schedule=1f1b", subset=True)

# Encoder, language model and generator on their own ranks; samples with 0 to 3 images.
case("mllm-disaggregated", "mllm", 12, 3, "vision: llm: generator:", subset=True)
case("mllm-vision2-llm2", "mllm", 12, 4, "vision:dp=2 llm:dp=2 generator:")
case("mllm-vision3-llm2", "mllm", 12, 4, "vision:dp=3 llm:dp=2 generator:")
case("mllm-vision4-llm2", "mllm", 12, 2, "vision:dp=4 llm:dp=2 generator: | reorder=both")
case("mllm-vision2-llm5", "mllm", 12, 5, "vision:dp=2 llm:dp=5 generator:dp=3")
case("mllm-llm-tp2-pp2", "mllm", 12, 3, "vision:dp=2 llm:tp=2,pp=2 generator:dp=2")
case("mllm-12-ranks", "mllm", 12, 4, "vision:dp=3 llm:tp=2,dp=2,pp=2 generator:", subset=True)
case("mllm-vision-tp2", "mllm", 12, 4, "vision:tp=2,dp=2 llm:tp=2,dp=2 generator:dp=2,tp=2")
case("mllm-micro1", "mllm", 12, 1, "vision: llm:pp=2 generator:")
case("mllm-colocated-phased", "mllm", 12, 4, "vision:dp=2,ranks=0-1 llm:pp=2,ranks=0-1 generator:dp=2,ranks=0-1 | schedule=phased", subset=True)
case("mllm-colocated-nested", "mllm", 12, 3, "vision:dp=2,ranks=0-1 llm:pp=2,ranks=0-1 generator:,ranks=1-1 | schedule=nested")
case("mllm-colocated-tp", "mllm", 12, 4, "vision:dp=4,ranks=0-3 llm:tp=2,dp=2,ranks=0-3 generator:dp=4,ranks=0-3 | schedule=phased")
case("mllm-frozen", "mllm", 12, 3, "vision:dp=2 llm:pp=2 generator:", recipe="recipe-frozen.json")
for mode in ("intra", "inter", "both"):
    case(f"mllm-reorder-{mode}", "mllm", 12, 3, f"vision:dp=3 llm:dp=2 generator:dp=2 | reorder={mode}", subset=mode == "both")
# Replicas of unequal speed have shares of unequal size, one maybe none; units on the same ranks may differ in it.
case("gpt2-speeds", "gpt2", 8, 4, "model:dp=2,speeds=3+1")
case("gpt2-speeds-dp3-pp2-sub2", "gpt2", 11, 7, "model:dp=3,pp=2,sub=2,zero=1,speeds=100+350+240 | schedule=zb-h1", subset=True)
case("mllm-speeds", "mllm", 12, 4, "vision:dp=3,speeds=1+9+4 llm:dp=2,tp=2,speeds=2+1 generator:dp=2,speeds=1+5 | reorder=both", subset=True)
case("mllm-speeds-colocated", "mllm", 12, 4, "vision:dp=2,ranks=0-1,speeds=2+1 llm:dp=2,ranks=0-1,speeds=3+1 generator:dp=2,ranks=0-1 | schedule=phased reorder=intra")
case("mllm-speeds-span", "mllm", 12, 2, "vision:dp=2,span=3,speeds=1+3 llm:dp=2,speeds=2+3 generator:")
case("clip-speeds", "clip", 8, 4, "model_vision_model:dp=2,speeds=3+1 model_text_model:dp=2,ranks=0-1,speeds=1+2", patch=SPLIT, subset=True)
case("mllm-zb", "mllm", 12, 2, "vision: llm:pp=2 generator: | schedule=zb")

# Shares of a microbatch in pieces; samples with 0 to 3 images, some microbatches without one.
case("gpt2-sub2-one-rank", "gpt2", 8, 4, "model:sub=2")
case("gpt2-sub2-dp2", "gpt2", 7, 5, "model:dp=2,sub=2,zero=1")
case("llama-sub2-tp2", "llama", 8, 4, "model:tp=2,sub=2,sequence_parallel=true,save=none", subset=True)
case("llama-sub3-pp2", "llama", 8, 4, "model:pp=2,sub=3 | schedule=1f1b")
case("gpt2-sub2-zb-h1", "gpt2", 8, 2, "model:pp=2,sub=2 | schedule=zb-h1")
case("gpt2-sub2-vpp2", "gpt2", 8, 2, "model:pp=2,vpp=2,sub=2 | schedule=interleaved")
case("unet-sub2-pp2", "unet", 4, 2, "model:pp=2,sub=2")
case("mllm-sub-one-rank", "mllm", 12, 4, "vision:sub=3,ranks=0 llm:sub=2,ranks=0 generator:ranks=0")
case("mllm-sub-vision", "mllm", 12, 1, "vision:sub=3 llm: generator:")
case("mllm-sub-llm", "mllm", 12, 4, "vision:dp=2 llm:dp=2,sub=2 generator:")
case("mllm-sub-all", "mllm", 12, 5, "vision:dp=3,sub=2 llm:dp=2,sub=2 generator:dp=2,sub=2 | reorder=both", subset=True)
case("mllm-sub-llm-tp2-pp2", "mllm", 12, 3, "vision:sub=2 llm:tp=2,pp=2,sub=3 generator:sub=2 | reorder=intra")
case("mllm-sub-vision-tp2", "mllm", 12, 4, "vision:tp=2,dp=2,sub=2 llm:tp=2,dp=2 generator:sub=4")
case("mllm-sub-colocated", "mllm", 12, 4, "vision:dp=2,sub=3,ranks=0-1 llm:dp=2,sub=2,ranks=0-1 generator:dp=2,sub=2,ranks=0-1 | schedule=phased reorder=both")
case("mllm-sub-colocated-tp", "mllm", 12, 4, "vision:tp=2,dp=2,sub=2,ranks=0-3 llm:tp=2,dp=2,ranks=0-3 generator:dp=4,ranks=0-3 | schedule=phased")
case("mllm-sub-frozen", "mllm", 12, 3, "vision:sub=2 llm:pp=2,sub=3 generator:", recipe="recipe-frozen.json")
case("clip-sub", "clip", 12, 4, "model_vision_model:dp=2,sub=2 model_text_model:sub=4", subset=True, patch=SPLIT)
case("clip-sub-one-rank", "clip", 8, 8, "model_vision_model:sub=2,ranks=0 model_text_model:sub=4,ranks=0", patch=SPLIT)
case("clip-sub-pp2", "clip", 8, 4, "model_vision_model:pp=2,sub=2 model_text_model:pp=2,sub=4 | schedule=distmm-pipe", patch=SPLIT)

# An encoder's task works on several microbatches, the last one maybe on fewer; frozen ones run ahead.
FROZEN = {"freeze": ["*"]}  # the encoder
case("mllm-span-one-rank", "mllm", 12, 3, "vision:span=2,run_ahead=2,ranks=0 llm:ranks=0 generator:ranks=0")
case("mllm-span-disaggregated", "mllm", 12, 3, "vision:dp=2,span=3 llm:pp=2 generator:", subset=True)
case("mllm-span-tp2", "mllm", 12, 2, "vision:tp=2,span=3,sub=2 llm:tp=2,dp=2 generator:")
case("mllm-span-llm", "mllm", 12, 2, "vision:pp=2,span=4 llm:tp=2,span=2 generator: | schedule=zb")
case("mllm-span-colocated", "mllm", 12, 2, "vision:dp=2,span=3,ranks=0-1 llm:dp=2,ranks=0-1 generator:dp=2,ranks=0-1 | schedule=phased reorder=both")
case("mllm-span-frozen", "mllm", 12, 2, "vision:span=2,run_ahead=3,ranks=0 llm:pp=2,ranks=0-1 generator:ranks=1", patch=FROZEN, subset=True)
case("mllm-ahead-frozen", "mllm", 12, 1, "vision:run_ahead=4,dp=3 llm: generator: | receive_depth=1", patch=FROZEN)
case("mllm-ahead-disaggregated", "mllm", 12, 2, "vision:run_ahead=2 llm:pp=2,run_ahead=1 generator:")
case("mllm-ahead-colocated", "mllm", 12, 2, "vision:pp=2,ranks=0-1 llm:pp=2,run_ahead=2,ranks=0-1 generator:pp=2,run_ahead=1,ranks=0-1 | schedule=phased")
case("mllm-ahead-one-rank", "mllm", 12, 3, "vision:run_ahead=2,ranks=0 llm:ranks=0 generator:ranks=0", patch=FROZEN)

# A contrastive loss is exact over the whole batch.
case("clip-towers", "clip", 8, 2, "model_vision_model: model_text_model:", subset=True, patch=SPLIT)
case("clip-towers-dp", "clip", 12, 4, "model_vision_model:dp=2 model_text_model:dp=3", patch=SPLIT)
case("clip-towers-pp2", "clip", 8, 2, "model_vision_model:pp=2 model_text_model:pp=2 | schedule=distmm-pipe", patch=SPLIT)
case("clip-towers-tp2", "clip", 8, 4, "model_vision_model:tp=2 model_text_model:tp=2", patch=SPLIT)

# One graph with fixed images: tensor and pipeline parallel only.
case("llava-tp2", "llava", 3, 3, "model:tp=2")
case("llava-pp2", "llava", 3, 3, "model:pp=2")
case("llava-modules", "llava", 3, 3, "model_vision_tower:tp=2 model_language_model:pp=2", patch=SPLIT, subset=True)
case("llava-tp2-pp2", "llava", 3, 3, "model:tp=2,pp=2")

# The planner's choice for two cores.
case("gpt2-auto", "gpt2", 8, 4, "auto", subset=True, profile=True)
case("mllm-auto", "mllm", 12, 3, "auto")
# The recipe does not say the size of a microbatch: the plan does.
case("gpt2-open-micro", "gpt2", 8, None, "model:pp=2 | microbatches=4")
case("mllm-auto-open-micro", "mllm", 12, None, "auto", subset=True)

# What cannot be.
case("no-such-unit", "gpt2", 4, 4, "modle:dp=2", refused="modle")
case("more-stages-than-cuts", "gpt2", 4, 4, "model:pp=400", refused="stages", subset=True)
case("dp-beyond-micro", "gpt2", 4, 2, "model:dp=4", refused="dp")
case("cp-needs-ranks", "gpt2", 4, 4, "model:cp=2,ranks=0-2", refused="model.ranks: names 3 ranks; tp \\* cp \\* dp \\* pp = 1 \\* 2 \\* 1 \\* 1 = 2")
case("sub-beyond-micro", "gpt2", 4, 2, "model:sub=3", refused="sub: dp \\* sub = 1 \\* 3 .*at most 2", subset=True)
case("sub-of-fixed-pictures", "llava", 3, 3, "model:sub=3", refused="pixel_values.*3")
case("sub-mixes-items", "extra/convnet_train", 4, 4, "model:sub=2", refused="pieces")
case("span-beyond-batch", "mllm", 12, 3, "vision:span=5 llm: generator:", refused="vision.span: a step has 4 microbatches, fewer than 5", subset=True)
case("span-before-head", "clip", 8, 2, "model_vision_model:span=2 model_text_model:", patch=SPLIT, refused="model_vision_model.span: .*whole batch.*expected 1, not 2")
case("unknown-schedule", "gpt2", 4, 2, "model:pp=2 | schedule=2f2b", refused="2f2b.*1f1b")
case("zb-v-needs-vpp", "gpt2", 4, 2, "model:pp=2 | schedule=zb-v", refused="zb-v")
case("llava-dp2", "llava", 3, 3, "model:dp=2", refused="pixel_values.*3")
