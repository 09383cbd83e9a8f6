"""Make the shipped weights of the tiny policy: supervised learning on expert traces in many other worlds.

    python training/tiny/warm_start.py

The policy learns the language, the tags, to search and to copy out of passages; facts it cannot learn, since every
world deals the names anew. The share of long questions in ``MIX`` decides how much is left for reinforcement
learning: one-hop questions are mastered, two-hop ones sometimes, longer ones hardly ever. Training worlds have seeds
from 100,000 on; self-play (0 .. 99) and held-out worlds (1,000 on) are never seen here. Needs PyTorch and
transformers, about twenty minutes on one idle core.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ssp_env.errors import ConfigError, SSPError
from ssp_env.storage import write_json
from ssp_env.world import World, WorldConfig
from training.tiny.examine import check_tasks, load_start, measure_start
from training.tiny.traces import Mix, Trace, repeat_batch, world_traces
from training.tiny.vocabulary import SPECIAL, TAGS, build_tokenizer

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

WEIGHTS = Path(__file__).parent / "weights"
CARD = "card.json"
FIRST_WORLD = 100_000
FIRST_WORD = len(SPECIAL) + len(TAGS)
MIX = Mix(
    solver={"1-hop": 30, "2-hop": 36, "3-hop": 24, "4-hop": 8, "intersection": 8, "comparison": 8},
    proposer={1: 10, 2: 20, 3: 12, 4: 4},
    reader={"1-hop": 10, "2-hop": 4},
    drills=60,
    patience=0.4,
)


@dataclass(frozen=True)
class WarmStartConfig:
    """Settings of the warm start."""

    output: Path = WEIGHTS
    """Folder for weights, tokenizer and card; with --start one of its own."""
    start: Path | None = None
    """Folder of weights to go on from; None: new ones."""
    proposer_patience: float | None = None
    """Probability, after each search, that the proposing expert makes one more of those it was told to make."""
    seed: int = 0
    """Decides initial weights, traces and their order."""
    n_repeat_batches: int = 500
    """Optimiser steps on random tokens that come twice, 64 rows each; about 40 s."""
    n_batches: int = 3500
    """Optimiser steps on traces and drills."""
    batch_size: int = 24
    """Sequences per step: one to three traces, or a drill."""
    repeat_lr: float = 3e-3
    """Learning rate of the repeats, reached after 30 steps."""
    lr: float = 2e-3
    """Highest learning rate: reached after 5 % of the steps, then falling to a tenth along a cosine."""
    context_weight: float = 0.1
    """Loss weight of tokens that the role did not write; its own tokens weigh 1."""
    bfloat16: bool = False
    """Whether to multiply in bfloat16; a third faster on processors that have it."""
    threads: int = 2
    """CPU threads."""
    n_tasks: int = 200
    """Held-out tasks per kind for the figures on the card."""


def build_model(tokenizer: PreTrainedTokenizerFast, *, seed: int) -> PreTrainedModel:
    """Return the untrained policy: a Llama of 3 layers and width 96, about 0.36 M parameters, float32."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=96,
        intermediate_size=224,
        num_hidden_layers=3,
        num_attention_heads=3,
        num_key_value_heads=3,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return LlamaForCausalLM(config)


def mix_of(config: WarmStartConfig) -> Mix:
    """Return the traces of one world."""
    return replace(MIX, proposer_patience=config.proposer_patience)


def batches(config: WarmStartConfig, tokenizer: PreTrainedTokenizerFast) -> Iterator[list[Trace]]:
    """Yield batches of traces of about the same length, from ever new worlds."""
    rng = np.random.default_rng(config.seed)
    mix = mix_of(config)
    world_seed = FIRST_WORLD
    while True:
        traces: list[Trace] = []
        while len(traces) < 16 * config.batch_size:
            traces += world_traces(World(WorldConfig(seed=world_seed)), mix, tokenizer, rng)
            world_seed += 1
        traces = sorted(traces[: 16 * config.batch_size], key=lambda trace: len(trace.ids))
        for k in rng.permutation(16):
            yield traces[int(k) * config.batch_size : (int(k) + 1) * config.batch_size]


@dataclass(frozen=True, slots=True)
class Batch:
    """Tensors of one batch, right-padded: ids (int64, (rows, length)) and loss weights (float32, same shape)."""

    ids: torch.Tensor
    weights: torch.Tensor

    @classmethod
    def of(cls, traces: list[Trace], *, context_weight: float) -> Batch:
        """Pad and weigh some traces."""
        import torch

        length = max(len(trace.ids) for trace in traces)
        ids = torch.zeros(len(traces), length, dtype=torch.long)
        weights = torch.zeros(len(traces), length)
        for row, trace in enumerate(traces):
            ids[row, : len(trace.ids)] = torch.tensor(trace.ids)
            weights[row, : len(trace.ids)] = torch.tensor([1.0 if own else context_weight for own in trace.written])
        return cls(ids, weights)


def update(
    model: PreTrainedModel, optimizer: torch.optim.Optimizer, batch: Batch, lr: float, *, bfloat16: bool = False
) -> tuple[float, float]:
    """Make one step on the weighted next-token loss; return it (nats) and the share of own tokens foreseen."""
    import torch

    optimizer.param_groups[0]["lr"] = lr
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
        logits = model(input_ids=batch.ids[:, :-1], use_cache=False).logits.flatten(0, 1).float()
    targets, weights = batch.ids[:, 1:].flatten(), batch.weights[:, 1:].flatten()
    losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
    loss = (losses * weights).sum() / weights.sum()
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    own = weights == 1.0
    return loss.item(), (logits.argmax(-1) == targets)[own].float().mean().item()


def train(config: WarmStartConfig, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast) -> int:
    """Train in place, repeats first, and return the number of tokens seen."""
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, betas=(0.9, 0.98), weight_decay=0.01)
    n_tokens, start = 0, time.monotonic()
    warm_up = max(1, config.n_batches // 20)
    for step, (traces, progress) in enumerate(_curriculum(config, tokenizer)):
        if progress < 0:
            lr = config.repeat_lr * min(1.0, (step + 1) / 30)
        else:
            after = max(0.0, (progress - warm_up) / max(1, config.n_batches - warm_up))
            lr = config.lr * min((progress + 1) / warm_up, 0.55 + 0.45 * float(np.cos(np.pi * after)))
        batch = Batch.of(traces, context_weight=config.context_weight)
        loss, foreseen = update(model, optimizer, batch, lr, bfloat16=config.bfloat16)
        n_tokens += sum(len(trace.ids) for trace in traces)
        if step % 50 == 0:
            speed = n_tokens / (time.monotonic() - start)
            print(f"step {step:5d}  loss {loss:.3f}  foreseen {foreseen:.3f}  {speed:.0f} tokens/s", flush=True)
    return n_tokens


def _curriculum(config: WarmStartConfig, tokenizer: PreTrainedTokenizerFast) -> Iterator[tuple[list[Trace], int]]:
    """Yield batches with their step among the trace batches, which is negative for the repeats."""
    rng = np.random.default_rng([config.seed, 1])
    for step in range(config.n_repeat_batches):
        yield repeat_batch(64, range(FIRST_WORD, len(tokenizer)), rng), step - config.n_repeat_batches
    yield from zip(batches(config, tokenizer), range(config.n_batches), strict=False)


def command(config: WarmStartConfig) -> str:
    """Return the command line that gives this configuration; what is as usual is left out."""
    usual = asdict(WarmStartConfig())
    words = ["python", "training/tiny/warm_start.py"]
    for name, value in asdict(config).items():
        if value == usual[name] or (name == "output" and value.resolve() == WEIGHTS.resolve()):
            continue
        words.append(f"--{name.replace('_', '-')}")
        if value is not True:
            words.append(value.as_posix() if isinstance(value, Path) else str(value))
    return shlex.join(words)


def save(
    config: WarmStartConfig, model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, figures: Mapping[str, object]
) -> None:
    """Write weights in half precision and the tokenizer; the card comes last and marks the folder as complete."""
    config.output.mkdir(parents=True, exist_ok=True)
    (config.output / CARD).unlink(missing_ok=True)
    model.half().save_pretrained(config.output)
    tokenizer.save_pretrained(config.output)
    settings = {key: value for key, value in asdict(config).items() if key != "output"}
    settings["start"] = config.start and config.start.as_posix()
    card = {"command": command(config), "config": settings, "mix": asdict(mix_of(config)), **figures}
    write_json(config.output / CARD, card)


def check(config: WarmStartConfig) -> None:
    """Refuse what must not be trained.

    Raises:
        ConfigError: If the shipped weights, or those to go on from, would be written over, or a number is out of range.
    """
    output = config.output.resolve()
    if config.start and output in (WEIGHTS.resolve(), config.start.resolve()):
        raise ConfigError(
            f"expected an --output that is neither --start nor the folder of the shipped weights, got "
            f"{config.output.as_posix()!r}; give --output another folder"
        )
    patience = config.proposer_patience
    if patience is not None and not 0 <= patience <= 1:
        raise ConfigError(f"expected --proposer-patience in 0 .. 1, got {patience}; give a probability")
    for name, least in (("threads", 1), ("batch_size", 1), ("n_batches", 0), ("n_repeat_batches", 0), ("seed", 0)):
        if (value := getattr(config, name)) < least:
            raise ConfigError(f"expected --{name.replace('_', '-')} of {least} or more, got {value}; raise it")
    check_tasks(config.n_tasks)


def run(config: WarmStartConfig) -> None:
    """Build, train, measure, save.

    Raises:
        ConfigError: If the configuration is refused; nothing is trained or written then.
    """
    import torch

    check(config)
    commit = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=Path(__file__).parent)
    torch.set_num_threads(config.threads)
    tokenizer = build_tokenizer()
    model = load_start(config.start, tokenizer) if config.start else build_model(tokenizer, seed=config.seed)
    n_parameters = sum(parameter.numel() for parameter in model.parameters())
    print(f"{n_parameters} parameters, {len(tokenizer)} words")
    start = time.monotonic()
    n_tokens = train(config, model, tokenizer)
    trained_s = round(time.monotonic() - start)
    measured = measure_start(model.half().float(), tokenizer, n_tasks=config.n_tasks)
    print(json.dumps(measured, indent=2))
    facts = {"commit": commit.stdout.strip(), "n_parameters": n_parameters, "n_tokens": n_tokens}
    save(config, model, tokenizer, {**facts, "trained_s": trained_s, "start": measured})


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code; what a user can put right is one message, not a traceback."""
    import tyro
    from transformers.utils import logging

    config = tyro.cli(WarmStartConfig, args=arguments)
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        run(config)
    except SSPError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
