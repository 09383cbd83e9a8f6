"""What is true of the questions of a round: exact in generated worlds, and whether the policy knows answers by heart.

Metrics only; nothing here is learned from.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Literal

import numpy as np

from ssp_env.protocols import Agent
from ssp_env.readers import read_with
from ssp_env.types import JudgeCase, ReadingCase, Round, Sampling
from ssp_env.world.quality import Quality, quality_statistics, round_quality
from training.games import Games

ClosedBook = dict[int, Literal["correct", "wrong", "error"]]


def measure(played: Sequence[Round], games: Games) -> list[Quality | None]:
    """Return the truth about each question that a reader has read; None for the others and outside of worlds."""
    worlds = {
        seed.id: world
        for game, world in zip(games.training, games.worlds, strict=bool(games.worlds))
        for seed in game.seeds
    }
    return [round_quality(worlds[r.seed.id], r) if r.seed.id in worlds else None for r in played]


def closed_book(played: Sequence[Round], games: Games, agent: Agent, *, max_new_tokens: int) -> ClosedBook:
    """Let the policy answer the accepted questions without any passage; verdicts by position in ``played``."""
    asked = [i for i, r in enumerate(played) if r.validation.ok]
    questions = [played[i].proposal.final or "" for i in asked]
    game = games.training[0]
    readings = read_with(
        agent,
        [ReadingCase(question, ()) for question in questions],
        prompt_set=game.prompt_set,
        sampling=Sampling(max_tokens=max_new_tokens, temperature=0.0),
        rng=np.random.default_rng(0),
    )
    answered = [k for k, reading in enumerate(readings) if not reading.error]
    cases = [
        JudgeCase(question=questions[k], answers=played[asked[k]].seed.answers, response=readings[k].response)
        for k in answered
    ]
    verdicts = game.judge.judge(cases) if cases else []
    return {asked[k]: verdict.label for k, verdict in zip(answered, verdicts, strict=True)}


def figures(
    played: Sequence[Round], found: Sequence[Quality | None], known: ClosedBook | None
) -> dict[str, float | None]:
    """Return the round's figures; those of a world only where there is one, ``closed_book`` only where it was asked."""
    told: dict[str, float | None] = {}
    if any(quality is not None for quality in found):
        told = {f"quality/{k}": v for k, v in quality_statistics(list(zip(played, found, strict=True))).items()}
    if known is not None:
        marks = [label == "correct" for label in known.values() if label != "error"]
        told["quality/closed_book"] = sum(marks) / len(marks) if marks else None
    return told


def record(quality: Quality | None, known: str | None) -> dict[str, object]:
    """Return what ``rounds.jsonl`` says about one question; empty when nothing is known."""
    told: dict[str, object] = {} if quality is None else asdict(quality)
    if known is not None:
        told["closed_book"] = known
    return {"quality": told} if told else {}
