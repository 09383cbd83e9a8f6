"""Rounds as plain JSON, every game whole, and the figures of a round.

A record is enough to look at a game and to judge it again: what each model wrote, asked and was shown (passage ids),
the validation with its reason and every reading behind it, all verdicts and rewards, and the corpora. Of the passages
of a reading, those that the proposal's turns show are evidence, the others distractors. Prompts are written on request;
token ids and the texts of passages never are.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from ssp_env.game.pool import QuestionPool
from ssp_env.text import normalize_unicode
from ssp_env.types import (
    Answer,
    Final,
    Invalid,
    JudgedReading,
    ReadingCase,
    Reason,
    Round,
    Task,
    ToolCall,
    Trajectory,
    Turn,
    Validation,
    Verdict,
)

SCHEMA = 1


def round_record(played: Round, *, with_prompts: bool = False) -> dict[str, object]:
    """Return a round as plain JSON; ``schema`` changes when a field changes its name or meaning."""
    return {
        "schema": SCHEMA,
        "answer": item_record(played.answer),
        "proposal": trajectory_record(played.proposal, with_prompt=with_prompts),
        "validation": validation_record(played.validation),
        "origin": played.origin,
        "task": None if played.task is None else item_record(played.task),
        "solves": [
            {**trajectory_record(solve, with_prompt=with_prompts), "verdict": verdict_record(verdict)}
            for solve, verdict in zip(played.solves, played.verdicts, strict=True)
        ],
        "success_rate": played.success_rate,
        "proposer_reward": played.proposer_reward,
        "corpus": played.corpus,
        "task_corpus": played.task_corpus,
    }


def trajectory_record(trajectory: Trajectory, *, with_prompt: bool = False) -> dict[str, object]:
    """Return one episode as plain JSON."""
    record: dict[str, object] = {
        "role": trajectory.role,
        "status": trajectory.status,
        "truncation": trajectory.truncation,
        "reward": trajectory.reward,
        "error": trajectory.error,
        "final": trajectory.final,
        "queries": list(trajectory.queries),
        "turns": [_turn(turn) for turn in trajectory.conversation.turns],
    }
    if with_prompt:
        record["prompt"] = [dict(message) for message in trajectory.conversation.prompt]
    return record


def _turn(turn: Turn) -> dict[str, object]:
    return {
        "text": turn.completion.text,
        "dropped": turn.dropped,
        "finish": turn.completion.finish,
        "action": _action(turn.action),
        "passages": [result.passage.id for result in turn.results],
    }


def _action(action: ToolCall | Final | Invalid) -> dict[str, str]:
    match action:
        case ToolCall(tool, argument):
            return {"kind": "tool", "tool": tool, "argument": argument}
        case Final(text):
            return {"kind": "final", "text": text}
        case Invalid(reason):
            return {"kind": "invalid", "reason": reason}


def _reading(made: JudgedReading) -> dict[str, object]:
    return {
        "kind": made.kind,
        "passages": [passage.id for passage in made.case.passages],
        "response": made.reading.response,
        "error": made.reading.error,
        "verdicts": [verdict_record(verdict) for verdict in made.verdicts],
    }


def item_record(item: Answer | Task | ReadingCase) -> dict[str, object]:
    """Return what an episode starts from as plain JSON."""
    match item:
        case Answer():
            return {
                "id": item.id,
                "answer": item.text,
                "aliases": list(item.aliases),
                "n_searches": item.n_searches,
            }
        case Task():
            return {"id": item.id, "question": item.question, "answers": list(item.answers), "kind": item.kind}
        case ReadingCase():
            return {"question": item.question, "passages": [passage.id for passage in item.passages]}


def validation_record(validation: Validation) -> dict[str, object]:
    """Return a validation as plain JSON."""
    return {
        "reason": validation.reason,
        "response": validation.response,
        "error": validation.error,
        "readings": [_reading(made) for made in validation.readings],
    }


def verdict_record(verdict: Verdict) -> dict[str, str]:
    """Return a verdict as plain JSON."""
    return {"label": verdict.label, "method": verdict.method, "detail": verdict.detail}


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
