"""A transformers causal language model as an agent that returns what it sampled, token by token.

An episode is one assistant turn: the chat template is rendered once for the prompt, then sampled ids and the ids of
observations follow each other. Sampled ids are kept and never decoded and encoded again, so that a trainer sees
exactly the tokens that the policy chose. Sampling is from the plain distribution at the asked temperature (no top-k,
no top-p), with random numbers of its own: global random states are left alone.

Left out: serving engines, several turns of a chat template, images. Token exactness follows the rules of
https://github.com/huggingface/trl/issues/5224.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ssp_env.errors import ConfigError
from ssp_env.types import Completion, Conversation, Finish, Sampling

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@dataclass(slots=True, eq=False)
class _Row:
    """One sequence while it is being sampled; ``uniforms`` holds one random number per token to come."""

    context: list[int]
    uniforms: list[float]
    sampled: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: Finish | None = None


class HFAgent:
    """Completes conversations with a transformers model.

    ``max_context`` is the longest sequence in tokens (default: the model's positions); ``max_batch_tokens`` bounds
    rows times longest row of one forward pass. The model's training mode is restored after every call.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_context: int | None = None,
        max_batch_tokens: int = 32_768,
        seed: int = 0,
    ) -> None:
        """Wrap a loaded model.

        Raises:
            ConfigError: If the tokenizer has no chat template.
        """
        import torch

        if tokenizer.chat_template is None:
            raise ConfigError(
                f"expected a tokenizer with a chat template, got none in {tokenizer.name_or_path!r}; "
                "set tokenizer.chat_template or use an instruction-tuned model"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.max_context = max_context or int(getattr(model.config, "max_position_embeddings", 0) or 1 << 20)
        self._max_batch_tokens = max_batch_tokens
        self._generator = torch.Generator().manual_seed(seed)
        self._eos = _eos_ids(model, tokenizer)
        self._enders: dict[frozenset[str], frozenset[int]] = {}

    @classmethod
    def from_path(cls, path: str | Path, *, dtype: str = "float32", device: str = "cpu", seed: int = 0) -> HFAgent:
        """Load model and tokenizer from a local folder in the transformers format; see ``load_model``."""
        model, tokenizer = load_model(path, dtype=dtype)
        return cls(model.to(device), tokenizer, seed=seed)  # type: ignore[arg-type]

    def complete(self, conversations: Sequence[Conversation], *, sampling: Sampling) -> list[Completion]:
        """Return one completion per conversation, in order.

        Log-probabilities are those of the distribution that was sampled from; greedy ones are reported at
        temperature 1. With the same ``sampling.seed`` the random numbers depend on the position in the batch only.
        """
        import torch

        rows = [
            _Row(self.context_ids(conversation), uniforms)
            for conversation, uniforms in zip(conversations, self._uniforms(len(conversations), sampling), strict=True)
        ]
        open_rows = [row for row in rows if self._room(row, sampling) > 0]
        was_training = self.model.training
        self.model.train(False)
        try:
            with torch.no_grad():
                for batch in self._micro_batches(open_rows, sampling):
                    self._sample(batch, sampling)
        finally:
            self.model.train(was_training)
        return [self._completion(row) for row in rows]

    def context_ids(self, conversation: Conversation) -> list[int]:
        """Return the token ids that the next completion of a conversation is sampled from."""
        start = len(conversation.turns)
        while start and not conversation.turns[start - 1].completion.prompt_ids:
            start -= 1
        if start:
            completion = conversation.turns[start - 1].completion
            ids = [*completion.prompt_ids, *completion.token_ids]
            ids += self._encode(conversation.turns[start - 1].observation)
        else:
            ids = self._prompt_ids(conversation)
        for turn in conversation.turns[start:]:
            ids += self._encode(turn.completion.text) + self._encode(turn.observation)
        return ids

    def _prompt_ids(self, conversation: Conversation) -> list[int]:
        text = self.tokenizer.apply_chat_template(
            [{"role": m["role"], "content": m["content"]} for m in conversation.prompt],
            add_generation_prompt=True,
            tokenize=False,
        )
        return list(self.tokenizer.encode(str(text), add_special_tokens=False))

    def _encode(self, text: str) -> list[int]:
        # Control tokens written as text stay text: a passage must not be able to end the turn.
        if not text:
            return []
        return list(self.tokenizer.encode(text, add_special_tokens=False, split_special_tokens=True))

    def _uniforms(self, n_rows: int, sampling: Sampling) -> list[list[float]]:
        import torch

        generator = self._generator if sampling.seed is None else torch.Generator().manual_seed(sampling.seed)
        if sampling.temperature == 0:
            return [[]] * n_rows
        draws = torch.rand((n_rows, sampling.max_tokens), generator=generator, dtype=torch.float64)
        return draws.tolist()

    def _room(self, row: _Row, sampling: Sampling) -> int:
        return min(sampling.max_tokens, self.max_context - len(row.context))

    def _micro_batches(self, rows: Sequence[_Row], sampling: Sampling) -> Iterator[list[_Row]]:
        batch: list[_Row] = []
        for row in sorted(rows, key=lambda row: len(row.context)):
            width = len(row.context) + self._room(row, sampling)
            if batch and (len(batch) + 1) * width > self._max_batch_tokens:
                yield batch
                batch = []
            batch.append(row)
        if batch:
            yield batch

    def _sample(self, rows: list[_Row], sampling: Sampling) -> None:
        """Sample all rows of one micro-batch to their ends; ended rows leave the batch when half have ended."""
        import torch
        from transformers import DynamicCache

        device = self.model.device
        ids, mask = _left_padded([row.context for row in rows], self.tokenizer.pad_token_id or 0, device)
        positions = (mask.cumsum(1) - 1).clamp(min=0)
        cache = DynamicCache(config=self.model.config)
        while True:
            logits = self.model(
                input_ids=ids,
                attention_mask=mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
                logits_to_keep=1,
            ).logits[:, -1]
            chosen = self._choose(logits, rows, sampling)
            running = [i for i, row in enumerate(rows) if row.finish is None]
            if not running:
                return
            if len(running) <= len(rows) // 2:
                keep = torch.tensor(running, device=device)
                cache.batch_select_indices(keep)
                rows, chosen, mask, positions = [rows[i] for i in running], chosen[keep], mask[keep], positions[keep]
            ids, positions = chosen[:, None], positions[:, -1:] + 1
            mask = torch.cat([mask, mask.new_ones((len(rows), 1))], dim=1)

    def _choose(self, logits: torch.Tensor, rows: Sequence[_Row], sampling: Sampling) -> torch.Tensor:
        """Pick one token per row, append it to the rows that still run and settle which of them end."""
        import torch

        logprobs = torch.log_softmax(logits.float() / (sampling.temperature or 1.0), dim=-1)
        if sampling.temperature == 0:
            chosen = logprobs.argmax(-1)
        else:
            steps = [min(len(row.sampled), len(row.uniforms) - 1) for row in rows]
            points = [row.uniforms[step] for row, step in zip(rows, steps, strict=True)]
            cumulative = logprobs.double().exp().cumsum(-1)
            target = torch.tensor(points, dtype=torch.float64, device=logits.device)[:, None] * cumulative[:, -1:]
            chosen = torch.searchsorted(cumulative, target, right=True).squeeze(1).clamp(max=logits.size(-1) - 1)
        values = logprobs.gather(1, chosen[:, None]).squeeze(1).tolist()
        for row, token, value in zip(rows, chosen.tolist(), values, strict=True):
            if row.finish is None:
                row.sampled.append(token)
                row.logprobs.append(value)
                row.finish = self._finish(row, sampling)
        return chosen

    def _finish(self, row: _Row, sampling: Sampling) -> Finish | None:
        token = row.sampled[-1]
        if token in self._eos:
            return "eos"
        if sampling.stop and token in self._tokens_with(frozenset(stop[-1] for stop in sampling.stop)):
            text = self._decode(row.sampled)
            if any(stop in text for stop in sampling.stop):
                return "stop"
        return "length" if len(row.sampled) >= self._room(row, sampling) else None

    def _tokens_with(self, characters: frozenset[str]) -> frozenset[int]:
        """Return the ids whose text holds one of the characters: only these can complete a stop string."""
        if characters not in self._enders:
            texts = self.tokenizer.batch_decode(
                [[i] for i in range(len(self.tokenizer))], clean_up_tokenization_spaces=False
            )
            self._enders[characters] = frozenset(i for i, text in enumerate(texts) if characters & set(text))
        return self._enders[characters]

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self.tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))

    def _completion(self, row: _Row) -> Completion:
        if row.finish is None:
            return Completion("", "context", tuple(row.context))
        text = self._decode(row.sampled[:-1] if row.finish == "eos" else row.sampled)
        return Completion(text, row.finish, tuple(row.context), tuple(row.sampled), tuple(row.logprobs))


def load_model(path: str | Path, *, dtype: str = "float32") -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """Load a causal language model and its tokenizer from a local folder; nothing is downloaded.

    Raises:
        ConfigError: If the folder does not hold a model.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    if not (Path(path) / "config.json").is_file():
        raise ConfigError(
            f"expected a folder with config.json, weights and tokenizer, got {str(path)!r}; "
            "give a folder written by save_pretrained (training/convert_gguf.py makes one of a .gguf file)"
        )
    try:
        tokenizer = AutoTokenizer.from_pretrained(str(path), local_files_only=True)
        model = AutoModelForCausalLM.from_pretrained(str(path), local_files_only=True, dtype=dtype)
    except (OSError, ValueError) as error:
        raise ConfigError(f"expected a loadable model in {str(path)!r}, got: {error}; check the folder") from error
    return model, tokenizer


def _eos_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    declared = getattr(model.generation_config, "eos_token_id", None)
    several = declared if isinstance(declared, list) else [declared]
    return frozenset(i for i in [*several, tokenizer.eos_token_id] if isinstance(i, int))


def _left_padded(
    contexts: Sequence[Sequence[int]], pad: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    width = max(map(len, contexts))
    ids = torch.tensor([[pad] * (width - len(c)) + list(c) for c in contexts], device=device)
    mask = torch.tensor([[0] * (width - len(c)) + [1] * len(c) for c in contexts], device=device)
    return ids, mask
