"""The validator: the rule filter, then the gate, where a reader must find the answer in the proposal's own evidence.

The gate is the cooperative half of the game (SSP section 3, equation 2): the question counts only if its answer
follows from what the proposer found, with distractors mixed in. Questions that pass are read again where the rules say
so (``probes``). A reader, judge or retriever that breaks yields the reason ``failed``; it never means that a question
is valid, nor that it is bad.

The trainer and the environments validate here. The trainer records what failed, the environments raise it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from ssp_env.errors import RetrievalError
from ssp_env.game.batching import in_groups, judge_all
from ssp_env.game.distractors import with_distractors
from ssp_env.game.game import Game
from ssp_env.game.probes import Check, Proposal, probe_checks
from ssp_env.game.proposal import check_proposal, proposed_from, proposed_question
from ssp_env.game.readers import read_with
from ssp_env.protocols import Agent
from ssp_env.types import (
    JudgeCase,
    JudgedReading,
    Reading,
    ReadingCase,
    Sampling,
    Trajectory,
    Validation,
    Verdict,
)

Read = Callable[[Sequence[Check]], list[Reading]]
"""Reads the cases of checks, in order."""


def validate_batch(
    played: Sequence[tuple[Game, Trajectory]], *, policy: Agent, sampling: Sampling, rng: np.random.Generator
) -> list[Validation]:
    """Validate the proposals of one batch, which share their evidence: it is where distractors come from first.

    Args:
        played: The ended proposer episodes with the games they were played in.
        policy: Reads where the game names no reader.
        sampling: For the policy's readings.
        rng: Draws distractors, order and sampling seeds.
    """

    def others(i: int) -> list[Trajectory]:
        own = played[i][0].corpus.fingerprint
        return [t for j, (game, t) in enumerate(played) if j != i and game.corpus.fingerprint == own]

    def read(checks: list[Check]) -> list[Reading]:
        game, cases = checks[0].game, [check.case for check in checks]
        if game.reader is not None:
            return game.reader.read(cases)
        return read_with(policy, cases, prompt_set=game.prompt_set, sampling=sampling, rng=rng)

    proposals = [Proposal(game, trajectory, rng, rng, others(i)) for i, (game, trajectory) in enumerate(played)]
    return validate(proposals, lambda checks: in_groups(checks, _reader_key, read))


def validate(proposals: Sequence[Proposal], read: Read) -> list[Validation]:
    """Validate a batch: one call of ``read`` and one batch of verdicts per judge for the gate, and so for the probes.

    The first finding against a question, or the first outage, decides. A validation holds all of its readings.

    Raises:
        ConfigError: If the rules need a retriever, for rivals or bundles of distractors, and the game has none.
    """
    opened = [open_gate(proposal) for proposal in proposals]
    findings = _read([[step] if isinstance(step, Check) else step for step in opened], read)
    read_well = [i for i, step in enumerate(opened) if isinstance(step, Check) and findings[i][0].ok]
    probed = [i for i in read_well if proposals[i].game.rules.probes]
    for i, found in zip(probed, _read(probe_checks([proposals[i] for i in probed]), read), strict=True):
        findings[i] += found
    return [_combined(made) for made in findings]


def open_gate(proposal: Proposal) -> Validation | Check:
    """Return the validation if the rules alone decide it, else the check that a reader must answer.

    The validation is ``failed`` where our side broke the episode or the search for distractors.
    """
    game, trajectory = proposal.game, proposal.trajectory
    reason = check_proposal(game.rules, trajectory)
    if reason != "ok" or not game.rules.gate:
        return Validation(reason, error=trajectory.error if reason == "failed" else "")
    try:
        passages = with_distractors(game, trajectory, proposal.others, proposal.rng)
    except RetrievalError as error:
        return Validation("failed", error=f"retriever: {error}")
    return gate_check(game, trajectory, ReadingCase(proposed_question(trajectory), passages))


def gate_check(game: Game, trajectory: Trajectory, case: ReadingCase) -> Check:
    """Return the check that rejects a proposal unless its answer is read out of the case."""
    return Check(game, proposed_from(trajectory), case, "gate", rejects="wrong", reason="not_answerable")


def decide(checks: Sequence[Check], readings: Sequence[Reading]) -> list[Validation]:
    """Judge the readings of checks, each against its answer: what the check alone says of its question."""
    pairs = list(zip(checks, readings, strict=True))
    cases = [(i, case) for i, (check, reading) in enumerate(pairs) for case in _judge_cases(check, reading)]
    verdicts: list[list[Verdict]] = [[] for _ in pairs]
    for (i, _), verdict in zip(cases, judge_all([(checks[i].game.judge, case) for i, case in cases]), strict=True):
        verdicts[i].append(verdict)
    return [
        replace(_finding(check, reading, said), readings=(JudgedReading(check.kind, check.case, reading, tuple(said)),))
        for (check, reading), said in zip(pairs, verdicts, strict=True)
    ]


def _reader_key(check: Check) -> Hashable:
    """Games without a reader share the policy; each prompt set is a call of its own."""
    return check.game.prompt_set if check.game.reader is None else id(check.game.reader)


def _read(asked: Sequence[Sequence[Check] | Validation], read: Read) -> list[list[Validation]]:
    """Return what the checks of each question say of it; what is decided already is left as it is."""
    checks = [check for part in asked if not isinstance(part, Validation) for check in part]
    found = iter(decide(checks, read(checks) if checks else []))
    return [[part] if isinstance(part, Validation) else list(islice(found, len(part))) for part in asked]


def _combined(findings: Sequence[Validation]) -> Validation:
    """Return the first finding that is not ``ok``, else the gate's, with the readings of all."""
    decisive = next((finding for finding in findings if not finding.ok), findings[0])
    return replace(decisive, readings=tuple(made for finding in findings for made in finding.readings))


def _judge_cases(check: Check, reading: Reading) -> list[JudgeCase]:
    """Return a case per answer that a reading names, none if it failed."""
    if reading.error:
        return []
    responses = _named(reading.response) if check.case.ask_for_all else [reading.response]
    question, answers = check.case.question, check.answer.accepted
    return [JudgeCase(question=question, answers=answers, response=response) for response in responses]


def _named(response: str) -> list[str]:
    """Return the answers that a reader lists, at least one, which may be empty."""
    return [part for part in map(str.strip, re.split(r"[;\n]", response)) if part] or [""]


def _finding(check: Check, reading: Reading, verdicts: Sequence[Verdict]) -> Validation:
    if reading.error:
        return Validation("failed", error=f"reader: {reading.error}")
    if lost := [verdict for verdict in verdicts if verdict.label == "error"]:
        return Validation("failed", reading.response, f"judge: {lost[0].detail or 'no verdict'}")
    found = "correct" if all(verdict.correct for verdict in verdicts) else "wrong"
    return Validation(check.reason if found == check.rejects else "ok", reading.response)
