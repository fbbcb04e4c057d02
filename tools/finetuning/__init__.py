"""Fine-tunes a Hugging Face folder with the compiler (docs/finetune.md): `tools/finetune` runs it."""
