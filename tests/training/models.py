"""A random model and a word-level tokenizer, built in memory: real transformers objects of a few thousand weights."""

from __future__ import annotations

import torch
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

TAGS = [f"<{slash}{tag}>" for tag in ("think", "search", "information", "question", "answer") for slash in ("", "/")]
WORDS = (
    "question answer searches : ? doc title ( ) which city lies in the country of "
    "paris lima oslo peru norway france a is . 1 2"
)
TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }} {{ m['content'] }}<|im_end|>{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant {% endif %}"
)


def word_tokenizer() -> PreTrainedTokenizerFast:
    """Return a lower-casing word-level tokenizer whose tags are single tokens."""
    words = ["<pad>", "<unk>", "<eos>", "<|im_start|>", "<|im_end|>", "system", "user", "assistant", *WORDS.split()]
    vocabulary = {word: i for i, word in enumerate([*words, *TAGS])}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_tokens([AddedToken(tag, normalized=False, special=False) for tag in TAGS])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<eos>",
        additional_special_tokens=["<|im_start|>", "<|im_end|>"],
    )
    fast.chat_template = TEMPLATE
    return fast


def tiny_llama(tokenizer: PreTrainedTokenizerFast, *, seed: int = 0, positions: int = 512) -> LlamaForCausalLM:
    """Return a random Llama with two layers of width 32."""
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=positions,
        tie_word_embeddings=True,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        initializer_range=0.2,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return LlamaForCausalLM(config).eval()
