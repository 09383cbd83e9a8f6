"""The validator: the rule filter, then the gate, where a reader must find the answer in the proposal's own evidence.

The gate is the cooperative half of the game (SSP section 3, equation 2): the question counts only if its answer
follows from what the proposer found, with distractors mixed in. A reader or judge that breaks yields the reason
``failed``; it never means that a question is valid, nor that it is bad.

Questions that pass the gate are read again where the rules say so (``probes``). What is mixed into the evidence is
described in ``distractors``.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ssp_env.errors import RetrievalError
from ssp_env.game.distractors import with_distractors
from ssp_env.game.game import Game
from ssp_env.game.probes import Proposal, after_probes, probe
from ssp_env.game.proposal import check_proposal, proposed_question
from ssp_env.game.readers import read_with
from ssp_env.protocols import Agent
from ssp_env.types import (
    Answer,
    JudgeCase,
    JudgedReading,
    Reading,
    ReadingCase,
    Sampling,
    Trajectory,
    Validation,
    Verdict,
)


def validate(
    proposals: Sequence[Proposal], *, policy: Agent, sampling: Sampling, rng: np.random.Generator
) -> list[Validation]:
    """Validate the proposals of one batch: all readings in one batch per reader, all verdicts in one per judge.

    Args:
        proposals: The ended proposer episodes with the games they were played in.
        policy: Reads where the game names no reader.
        sampling: For the policy's readings.
        rng: Draws distractors, order and sampling seeds.
    """
    corpora = [game.corpus.fingerprint for game, _ in proposals]
    others = [
        [t for j, (_, t) in enumerate(proposals) if j != i and corpora[j] == own] for i, own in enumerate(corpora)
    ]
    opened = [open_gate(*pair, others=rest, rng=rng) for pair, rest in zip(proposals, others, strict=True)]
    pending = [i for i, step in enumerate(opened) if isinstance(step, ReadingCase)]
    cases = [(proposals[i][0], case) for i in pending if isinstance(case := opened[i], ReadingCase)]
    readings = _read(cases, policy, sampling, rng)
    validations = close_gate([proposals[i] for i in pending], [case for _, case in cases], readings)
    closed = dict(zip(pending, validations, strict=True))
    probed = [i for i in pending if closed[i].ok and proposals[i][0].rules.probes]
    found = probe(
        [proposals[i] for i in probed],
        others=[others[i] for i in probed],
        read=lambda cases: _read(cases, policy, sampling, rng),
        rngs=[rng] * len(probed),
    )
    closed |= {i: after_probes(closed[i], validation) for i, validation in zip(probed, found, strict=True)}
    return [closed[i] if isinstance(step, ReadingCase) else step for i, step in enumerate(opened)]


def open_gate(
    game: Game, trajectory: Trajectory, *, others: Sequence[Trajectory], rng: np.random.Generator
) -> Validation | ReadingCase:
    """Return the validation if the rules alone decide it, else the case that a reader must answer.

    The validation is ``failed`` where our side broke the episode or the search for distractors.

    Args:
        game: Where the proposal was played.
        trajectory: The ended proposer episode.
        others: Other proposals over the same corpus, from whose evidence distractors are drawn.
        rng: Draws the distractors and the order of the passages.
    """
    answer = _answer(trajectory)
    reason = check_proposal(game.rules, answer, trajectory)
    if reason != "ok" or not game.rules.gate:
        return Validation(reason, error=trajectory.error if reason == "failed" else "")
    try:
        return ReadingCase(proposed_question(trajectory), with_distractors(game, trajectory, others, rng))
    except RetrievalError as error:
        return Validation("failed", error=f"retriever: {error}")


def close_gate(
    proposals: Sequence[Proposal], cases: Sequence[ReadingCase], readings: Sequence[Reading]
) -> list[Validation]:
    """Judge the readings of the cases of proposals that passed the rules, each against its answer's answers."""
    judged = _judge(proposals, readings)
    return [_validation(*parts) for parts in zip(cases, readings, judged, strict=True)]


def _judge(proposals: Sequence[Proposal], readings: Sequence[Reading]) -> list[tuple[Verdict, ...]]:
    """Return the verdict on each reading, none if it failed."""
    verdicts: dict[int, Verdict] = {}
    by_judge: dict[int, list[int]] = {}
    for i, ((game, _), reading) in enumerate(zip(proposals, readings, strict=True)):
        if not reading.error:
            by_judge.setdefault(id(game.judge), []).append(i)
    for members in by_judge.values():
        cases = [_judge_case(proposals[i][1], readings[i]) for i in members]
        verdicts.update(zip(members, proposals[members[0]][0].judge.judge(cases), strict=True))
    return [(verdicts[i],) if i in verdicts else () for i in range(len(proposals))]


def _answer(trajectory: Trajectory) -> Answer:
    if not isinstance(trajectory.item, Answer):
        raise TypeError(f"expected a proposer's trajectory, got one of role {trajectory.role!r}")
    return trajectory.item


def _judge_case(trajectory: Trajectory, answer: Reading) -> JudgeCase:
    return JudgeCase(
        question=proposed_question(trajectory), answers=_answer(trajectory).accepted, response=answer.response
    )


def _validation(case: ReadingCase, answer: Reading, verdicts: tuple[Verdict, ...]) -> Validation:
    made = (JudgedReading("gate", case, answer, verdicts),)
    if answer.error:
        return Validation("failed", error=f"reader: {answer.error}", readings=made)
    (verdict,) = verdicts
    if verdict.label == "error":
        return Validation("failed", answer.response, f"judge: {verdict.detail or 'no verdict'}", made)
    return Validation("ok" if verdict.correct else "not_answerable", answer.response, readings=made)


def _read(
    cases: Sequence[tuple[Game, ReadingCase]], policy: Agent, sampling: Sampling, rng: np.random.Generator
) -> list[Reading]:
    """Ask each distinct reader once; games without one share the policy, by prompt set."""
    groups: dict[tuple[int, str], list[int]] = {}
    for i, (game, _) in enumerate(cases):
        key = (0, game.prompt_set) if game.reader is None else (id(game.reader), "")
        groups.setdefault(key, []).append(i)
    readings: dict[int, Reading] = {}
    for members in groups.values():
        game, batch = cases[members[0]][0], [cases[i][1] for i in members]
        if game.reader is None:
            found = read_with(policy, batch, prompt_set=game.prompt_set, sampling=sampling, rng=rng)
        else:
            found = game.reader.read(batch)
        readings.update(zip(members, found, strict=True))
    return [readings[i] for i in range(len(cases))]
