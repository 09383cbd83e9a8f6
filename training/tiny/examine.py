"""Load a tiny policy and measure it in held-out worlds: solver accuracy by kind, and what its proposals are worth."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import numpy as np

from ssp_agents.hf import HFAgent
from ssp_env.errors import ConfigError
from ssp_env.types import Answer, ReadingCase, Sampling, Task, Trajectory
from ssp_env.world import KINDS, World, WorldConfig
from ssp_env.world.experts import ExpertAgent
from training.tiny.traces import rollout, with_distractors, world_tool

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

HELD_OUT = tuple(range(1000, 1004))
"""Seeds of the worlds that nothing is ever trained on."""
_STOP = {"solver": ("</search>", "</answer>"), "proposer": ("</search>", "</question>")}


def check_tasks(n_tasks: int) -> None:
    """Draw the held-out tasks, some seconds, so that their number is refused before and not after a training.

    Raises:
        ConfigError: If a held-out world gets no task of a kind, or does not hold that many.
    """
    if n_tasks < len(HELD_OUT):
        raise ConfigError(
            f"expected at least {len(HELD_OUT)} tasks, one for each held-out world, got {n_tasks}; raise --n-tasks"
        )
    for world in (World(WorldConfig(seed=seed)) for seed in HELD_OUT):
        for kind in KINDS:
            try:
                world.tasks(kind, n_tasks // len(HELD_OUT), np.random.default_rng(world.config.seed))
            except ValueError as error:
                raise ConfigError(
                    f"expected no more {kind} tasks than the held-out worlds hold, got {n_tasks} for {len(HELD_OUT)} "
                    f"worlds; lower --n-tasks ({error})"
                ) from error


def load_start(folder: Path, tokenizer: PreTrainedTokenizerFast) -> PreTrainedModel:
    """Return the policy of a folder, in float32.

    Raises:
        ConfigError: If the folder does not hold a Llama of as many words as the tokenizer has, with all its weights.
    """
    import torch
    from safetensors import SafetensorError
    from transformers import LlamaForCausalLM

    asked, remedy = f"as --start {folder.as_posix()!r}", "give a folder that a warm start wrote"
    try:
        settings = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigError(f"expected the folder of a policy {asked}, got: {error}; {remedy}") from error
    kind, size = settings.get("model_type"), settings.get("vocab_size")
    if (kind, size) != ("llama", len(tokenizer)):
        raise ConfigError(f"expected a llama of {len(tokenizer)} words {asked}, got a {kind} of {size}; {remedy}")
    try:
        found = LlamaForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="sdpa", local_files_only=True, output_loading_info=True
        )
        model, differences = cast("tuple[PreTrainedModel, dict[str, set[str]]]", found)
    except (OSError, ValueError, RuntimeError, SafetensorError) as error:
        said = " ".join(str(error).split()).rstrip(".")
        raise ConfigError(f"expected a policy with its weights {asked}, got: {said}; {remedy}") from error
    if wrong := differences["missing_keys"] | differences["unexpected_keys"]:
        raise ConfigError(
            f"expected the weights named by config.json {asked}, got more or fewer: {min(wrong)}; {remedy}"
        )
    return model


def measure_start(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, *, n_tasks: int = 200
) -> dict[str, dict[str, float]]:
    """Return shares in 0 .. 1; ``n_tasks`` must pass ``check_tasks``.

    Greedy and sampled accuracy of the solver by kind, greedy accuracy of the reader by kind, and the merits of
    sampled proposals by demanded searches.
    """
    agent = HFAgent(model, tokenizer)
    worlds = [World(WorldConfig(seed=seed)) for seed in HELD_OUT]
    figures: dict[str, dict[str, float]] = {}
    for name, temperature in (("greedy", 0.0), ("sampled", 1.0)):
        figures[name] = {kind: _accuracy(agent, worlds, kind, n_tasks, temperature) for kind in KINDS}
    figures["reader"] = {kind: _reading(agent, worlds, kind, n_tasks) for kind in KINDS}
    for n_searches in (1, 2, 3, 4):
        figures[f"proposals with {n_searches} searches"] = _proposals(agent, worlds, n_searches, n_tasks)
    return figures


def _accuracy(agent: HFAgent, worlds: list[World], kind: str, n_tasks: int, temperature: float) -> float:
    right = 0
    for world in worlds:
        tasks = world.tasks(kind, n_tasks // len(worlds), np.random.default_rng(world.config.seed))
        sampling = Sampling(max_tokens=64, temperature=temperature, stop=_STOP["solver"], seed=0)
        records = rollout(agent, "solver", tasks, world_tool(world), sampling=sampling, max_turns=6)
        right += sum(_is_right(record) for record in records)
    return right / (n_tasks // len(worlds) * len(worlds))


def _reading(agent: HFAgent, worlds: list[World], kind: str, n_tasks: int) -> float:
    """Show the reader what the solving expert found, with four distractors, shuffled."""
    right = n = 0
    for world in worlds:
        rng, tool = np.random.default_rng(world.config.seed), world_tool(world)
        tasks = world.tasks(kind, n_tasks // len(worlds), rng)
        solved = rollout(ExpertAgent(), "solver", tasks, tool, sampling=Sampling())
        proven = [(task, r.evidence) for task, r in zip(tasks, solved, strict=True) if r.final in task.answers]
        cases = [ReadingCase(task.question, with_distractors(world, evidence, 4, rng)) for task, evidence in proven]
        sampling = Sampling(max_tokens=64, temperature=0.0, stop=_STOP["solver"])
        for record, (task, _) in zip(rollout(agent, "reader", cases, tool, sampling=sampling), proven, strict=True):
            right += (record.final or "").lower() in {answer.lower() for answer in task.answers}
        n += len(cases)
    return round(right / n, 4)


def _is_right(record: Trajectory) -> bool:
    answers = record.item.answers if isinstance(record.item, Task) else ()
    return (record.final or "").lower() in {answer.lower() for answer in answers}


def _proposals(agent: HFAgent, worlds: list[World], n_searches: int, n_tasks: int) -> dict[str, float]:
    """Return the shares of proposals that end in a question, with that many distinct searches, that is right."""
    counts = dict.fromkeys(("question", "searches", "proven", "unique", "demanded hops"), 0)
    n = n_tasks // len(worlds)
    for world in worlds:
        answers = world.answers(n, np.random.default_rng(world.config.seed), n_searches=(n_searches,))
        sampling = Sampling(max_tokens=64, temperature=1.0, stop=_STOP["proposer"], seed=0)
        for record in rollout(agent, "proposer", answers, world_tool(world), sampling=sampling, max_turns=6):
            for name in _merits(world, record):
                counts[name] += 1
    return {name: count / (n * len(worlds)) for name, count in counts.items()}


def _merits(world: World, record: Trajectory) -> list[str]:
    """Return what is true of a proposal: each merit counts for questions whose answer is the given one."""
    given, question, oracle = record.item, record.final or "", world.oracle
    if not isinstance(given, Answer) or oracle.answers(question) is None:
        return []
    answer = (given.text.lower(),)
    merits = ["question"]
    if len(set(record.queries)) == len(record.queries) == given.n_searches:
        merits.append("searches")
    if oracle.implied(question, record.evidence) == answer:
        merits.append("proven")
    if oracle.answers(question) == answer:
        merits.append("unique")
        if oracle.n_hops(question) == given.n_searches:
            merits.append("demanded hops")
    return merits
