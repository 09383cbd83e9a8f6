"""Rounds as plain JSON, every game whole, and the figures of a round.

A record is enough to look at a game and to judge it again: what each model wrote, asked and was shown (passage ids),
the validation with its reason and every reading behind it, all verdicts and rewards, and the corpora. Of the passages
of a reading, those that the proposal's turns show are evidence, the others distractors. Prompts are written on request;
token ids and the texts of passages never are.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import is_dataclass
from typing import get_args

from ssp_env.errors import RunError
from ssp_env.game.pool import QuestionPool
from ssp_env.text import normalize_unicode
from ssp_env.types import (
    Answer,
    Final,
    Invalid,
    JudgedReading,
    Passage,
    Reason,
    Round,
    ToolCall,
    Trajectory,
    Turn,
)

SCHEMA = 2
"""Changes when a field changes its name or meaning. In schema 1 the answer of a round stood under ``seed``."""
_KINDS = {ToolCall: "tool", Final: "final", Invalid: "invalid"}


def round_record(played: Round, *, with_prompts: bool = False) -> dict[str, object]:
    """Return a round as plain JSON."""
    return {
        "schema": SCHEMA,
        "answer": plain(played.answer),
        "proposal": trajectory_record(played.proposal, with_prompt=with_prompts),
        "validation": plain(played.validation),
        "origin": played.origin,
        "task": plain(played.task),
        "solves": [
            {**trajectory_record(solve, with_prompt=with_prompts), "verdict": plain(verdict)}
            for solve, verdict in zip(played.solves, played.verdicts, strict=True)
        ],
        "success_rate": played.success_rate,
        "proposer_reward": played.proposer_reward,
        "corpus": played.corpus,
        "task_corpus": played.task_corpus,
    }


def trajectory_record(trajectory: Trajectory, *, with_prompt: bool = False) -> dict[str, object]:
    """Return one episode as plain JSON."""
    names = ("role", "status", "truncation", "reward", "error", "final", "queries")
    record = {name: plain(getattr(trajectory, name)) for name in names}
    record["turns"] = plain(trajectory.conversation.turns)
    return record | ({"prompt": plain(trajectory.conversation.prompt)} if with_prompt else {})


def plain(value: object) -> object:
    """Return a part of a game as plain JSON: records as their fields, passages as their ids."""
    match value:
        case Passage():
            return value.id
        case Answer():
            return {"answer" if name == "text" else name: part for name, part in _fields(value).items()}
        case Turn(completion, action, results):
            said = {"text": completion.text, "dropped": value.dropped, "finish": completion.finish}
            return said | {"action": plain(action), "passages": [result.passage.id for result in results]}
        case ToolCall() | Final() | Invalid():
            return {"kind": _KINDS[type(value)], **_fields(value)}
        case JudgedReading(kind, case, reading, verdicts):
            return {"kind": kind, "passages": plain(case.passages), **_fields(reading), "verdicts": plain(verdicts)}
        case tuple():
            return [plain(part) for part in value]
        case dict():
            return dict(value)
    return _fields(value) if is_dataclass(value) else value


def _fields(record: object) -> dict[str, object]:
    return {name: plain(getattr(record, name)) for name in getattr(record, "__dataclass_fields__", ())}


def read_records(path: str | os.PathLike[str]) -> Iterator[dict[str, object]]:
    """Yield the records of a ``rounds.jsonl`` or ``episodes.jsonl`` as they are written today, whatever wrote them.

    Raises:
        RunError: If the file cannot be read, a line is no record, or its schema is unknown; the message names the line.
    """
    try:
        with open(path, encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                yield _read_record(line, f"{os.fspath(path)}:{number}")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"expected a file of records, got {os.fspath(path)!r} ({error}); name another") from error


def _read_record(line: str, place: str) -> dict[str, object]:
    try:
        record = json.loads(line)
        schema = record["schema"]
    except (ValueError, KeyError, TypeError) as error:
        got = f"{line.strip()!r:.80}; delete the line"
        raise RunError(f"{place}: expected a record as a JSON object with its schema, got {got}") from error
    if type(schema) is not int or not 1 <= schema <= SCHEMA:
        raise RunError(
            f"{place}: expected schema 1 to {SCHEMA}, got {schema!r}; read it with the version that wrote it"
        )
    return {"answer" if name == "seed" else name: value for name, value in record.items()} | {"schema": SCHEMA}


def round_statistics(rounds: Sequence[Round], pool: QuestionPool | None = None) -> dict[str, float | None]:
    """Return the figures of one batch of rounds; None where nothing was there to be counted.

    Shares and means are over what our side did not fail: ``valid_rate`` over validated proposals, ``solver_accuracy``
    over scored solves of fresh and reused tasks (dummies are left out), ``proposer_reward`` over paid proposers.
    ``zero_variance_share`` counts tasks with at least two scored solves that all have the same reward, and so give
    no group-relative signal. ``repeat_call_rate`` is the share of searches that repeat one of the same episode.
    ``duplicate_rate`` is the share of proposed questions that repeat an earlier one of the
    batch. ``rejected/<reason>`` counts proposals. Pool figures are as after the round.
    """
    played = [r for r in rounds if r.origin in ("fresh", "reused")]
    solves = [solve for r in played for solve in r.solves]
    scored = [reward for solve in solves if (reward := solve.reward) is not None]
    judged = [r.validation for r in rounds if r.validation.reason != "failed"]
    paid = [r.proposer_reward for r in rounds if r.proposer_reward is not None]
    groups = [g for r in played if len(g := [s.reward for s in r.solves if s.reward is not None]) > 1]
    asked = [normalize_unicode(r.proposal.final) for r in rounds if r.proposal.final]
    searched = [[normalize_unicode(q) for q in t.queries] for t in (*(r.proposal for r in rounds), *solves)]
    repeats = [query in queries[:i] for queries in searched for i, query in enumerate(queries)]
    figures: dict[str, float | None] = {
        "n_proposals": len(rounds),
        "n_solves": len(solves),
        "n_failed_solves": len(solves) - len(scored),
        "valid_rate": _mean([validation.ok for validation in judged]),
        "solver_accuracy": _mean([reward > 0 for reward in scored]),
        "proposer_reward": _mean(paid),
        "proposer_searches": _mean([len(r.proposal.queries) for r in rounds]),
        "demanded_searches": _mean([r.answer.n_searches for r in rounds]),
        "solver_searches": _mean([len(solve.queries) for solve in solves]),
        "repeat_call_rate": _mean(repeats),
        "zero_variance_share": _mean([len(set(group)) == 1 for group in groups]),
        "duplicate_rate": _mean([question in asked[:i] for i, question in enumerate(asked)]),
    }
    for origin in ("fresh", "reused", "dummy", "none"):
        figures[f"slots/{origin}"] = sum(r.origin == origin for r in rounds)
    for reason in get_args(Reason)[1:]:
        figures[f"rejected/{reason}"] = sum(r.validation.reason == reason for r in rounds)
    if pool is not None:
        figures |= {"pool_size": len(pool), "pool_age": pool.mean_age}
    return figures


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None
