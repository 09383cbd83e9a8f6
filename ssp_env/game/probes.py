"""Probes: further readings of a question that passed the gate, each of which can only reject it.

They close holes that the published gate leaves open: a question that needs no passage (``closed_book``), one that
needs fewer passages than were searched for (``not_multi_hop``), and one with several answers (``not_unique``). Every
reading is of the same reader and judged by the same judge as the gate's. An outage is ``failed``, as in the gate.

*Rivals* are passages that may hold another answer. The first step searches for the question and for the proposer's own
queries. A second answer to a question of several hops often stands where neither leads. So each further step
(``rival_hops``) searches for the titles of the passages found so far, and follows other ways through the chain link by
link. Not found: second answers whose passages no such search brings up, or that do not name what links them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, islice, zip_longest
from math import comb
from typing import Literal

import numpy as np

from ssp_env.errors import ConfigError, RetrievalError
from ssp_env.game.distractors import passage_distractors, shuffled, without_answer
from ssp_env.game.game import Game
from ssp_env.game.proposal import proposed_question
from ssp_env.protocols import Retriever
from ssp_env.types import (
    Answer,
    JudgeCase,
    JudgedReading,
    Passage,
    Reading,
    ReadingCase,
    ReadingKind,
    Reason,
    Trajectory,
    Validation,
    Verdict,
)

N_FOUND = 10
"""Passages that the question and each query of the proposer fetch."""
N_LINKED = 5
"""Passages that each title fetches."""

Proposal = tuple[Game, Trajectory]


def find_rivals(proposals: Sequence[Proposal]) -> list[list[Passage] | str]:
    """Return, for each proposal, passages that may hold another answer, or what broke the search for them.

    Nearest first: what question and queries find, one passage of each in turn, then what the titles of those find. One
    retrieval call per retriever and step. Empty where no rule asks for them.

    Raises:
        ConfigError: If a game has no retriever and its rules ask for other answers.
    """
    rivals: list[list[Passage] | str] = [[] for _ in proposals]
    by_retriever: dict[int, tuple[Retriever, list[int]]] = {}
    for i, (game, _) in enumerate(proposals):
        if not game.rules.looks_for_rivals:
            continue
        if game.retriever is None:
            raise ConfigError("expected a retriever for the uniqueness probes, got a game without; give Game one")
        by_retriever.setdefault(id(game.retriever), (game.retriever, []))[1].append(i)
    for retriever, members in by_retriever.values():
        try:
            found = _search(retriever, [proposals[i] for i in members])
        except RetrievalError as error:
            found = [str(error)] * len(members)
        for i, passages in zip(members, found, strict=True):
            rivals[i] = passages
    return rivals


def _search(retriever: Retriever, proposals: Sequence[Proposal]) -> list[list[Passage] | str]:
    found: list[dict[str, Passage]] = [{} for _ in proposals]
    asked: list[set[str]] = [set() for _ in proposals]
    for step in range(max(game.rules.rival_hops for game, _ in proposals)):
        queries: list[list[str]] = []
        for (game, trajectory), passages, before in zip(proposals, found, asked, strict=True):
            first = [proposed_question(trajectory), *trajectory.queries]
            wanted = first if step == 0 else [p.title for p in passages.values() if p.title]
            queries.append(
                [q for q in dict.fromkeys(wanted) if q not in before] if step < game.rules.rival_hops else []
            )
            before.update(queries[-1])
        if flat := [query for wanted in queries for query in wanted]:
            results = iter(retriever.search(flat, N_LINKED if step else N_FOUND))
            for passages, wanted in zip(found, queries, strict=True):
                ranked = [[result.passage for result in next(results)] for _ in wanted]
                passages.update({p.id: p for p in _in_turn(ranked) if p.id not in passages})
    return [list(passages.values()) for passages in found]


def _in_turn(ranked: Sequence[Sequence[Passage]]) -> Iterable[Passage]:
    """Yield the best of each list, then the second of each, and so on."""
    return (passage for passage in chain.from_iterable(zip_longest(*ranked)) if passage is not None)


MAX_SUBSETS = 64
"""Most sets of passages that the rule ``chain="passages"`` tries for one question; more are drawn at random."""

Read = Callable[[Sequence[tuple[Game, ReadingCase]]], list[Reading]]


@dataclass(frozen=True, slots=True)
class Probe:
    """A case to be read, of what kind, which verdict on it speaks against the question, and what is wrong then."""

    kind: ReadingKind
    case: ReadingCase
    rejects: Literal["correct", "wrong"]
    reason: Reason


def probe(
    proposals: Sequence[Proposal],
    *,
    others: Sequence[Sequence[Trajectory]],
    read: Read,
    rngs: Sequence[np.random.Generator],
) -> list[Validation]:
    """Probe proposals that passed the gate: one batch of readings, one of verdicts per judge.

    The first finding against a question, or the first outage, decides. A question without one is ``ok``. The
    validations hold all readings.

    Args:
        proposals: What passed.
        others: For each, other proposals over the same corpus, from whose evidence distractors are drawn.
        read: Reads cases, in order.
        rngs: For each, what distractors and orders are drawn from; one generator may be given several times.

    Raises:
        ConfigError: If a game has no retriever and its rules ask for other answers.
    """
    rivals = find_rivals(proposals)
    asked: list[tuple[int, Probe]] = []
    for i, ((game, trajectory), found, rest, rng) in enumerate(zip(proposals, rivals, others, rngs, strict=True)):
        if not isinstance(found, str):
            asked += [(i, asking) for asking in _probes(game, trajectory, found, rest, rng)]
    readings = read([(proposals[i][0], asking.case) for i, asking in asked])
    verdicts = _judge([(proposals[i], reading) for (i, _), reading in zip(asked, readings, strict=True)], asked)
    decided = {i: Validation("failed", error=f"retriever: {f}") for i, f in enumerate(rivals) if isinstance(f, str)}
    made: list[list[JudgedReading]] = [[] for _ in proposals]
    for (i, asking), reading, judged in zip(asked, readings, verdicts, strict=True):
        made[i].append(JudgedReading(asking.kind, asking.case, reading, tuple(judged)))
        if i not in decided and not (validation := _finding(asking, reading, judged)).ok:
            decided[i] = validation
    return [replace(decided.get(i, Validation("ok")), readings=tuple(made[i])) for i in range(len(proposals))]


def after_probes(gate: Validation, probed: Validation) -> Validation:
    """Return the decision on a proposal that passed the gate and was probed, with the readings of both."""
    return replace(gate if probed.ok else probed, readings=(*gate.readings, *probed.readings))


def _probes(
    game: Game,
    trajectory: Trajectory,
    rivals: Sequence[Passage],
    others: Sequence[Trajectory],
    rng: np.random.Generator,
) -> Iterator[Probe]:
    question, rules = proposed_question(trajectory), game.rules

    def case(evidence: Sequence[Passage], first: Iterable[Passage] = ()) -> ReadingCase:
        distractors = passage_distractors(game, trajectory, others, rng, first=first)
        return ReadingCase(question, shuffled([*evidence, *distractors], rng))

    if rules.closed_book_probe:
        yield Probe("closed_book", case(()), "correct", "closed_book")
    for part in _parts(game, trajectory, rng):
        yield Probe("chain", case(part), "correct", "not_multi_hop")
    for i in range(rules.n_unique_probes):
        turned = [*rivals[i * rules.n_distractors :], *rivals[: i * rules.n_distractors]]
        yield Probe("unique", case(trajectory.evidence, turned), "wrong", "not_unique")
    if rules.ask_for_all:
        asking = (
            case(trajectory.evidence, rivals) if not rules.n_rivals else _over_rivals(game, trajectory, rivals, rng)
        )
        yield Probe("ask_for_all", replace(asking, ask_for_all=True), "wrong", "not_unique")


def _over_rivals(
    game: Game, trajectory: Trajectory, rivals: Sequence[Passage], rng: np.random.Generator
) -> ReadingCase:
    shown = islice(without_answer(rivals, trajectory), game.rules.n_rivals)
    return ReadingCase(proposed_question(trajectory), shuffled([*trajectory.evidence, *shown], rng))


def _parts(game: Game, trajectory: Trajectory, rng: np.random.Generator) -> list[list[Passage]]:
    """Return the parts of the evidence from which the question must not be answerable."""
    evidence, demanded = trajectory.evidence, _answer(trajectory).n_searches
    if game.rules.chain == "searches":
        turns = trajectory.conversation.turns
        found = [{result.passage.id for result in turn.results} for turn in turns if turn.results]
        others = [set().union(*found[:i], *found[i + 1 :]) for i in range(len(found))]
        return [[p for p in evidence if p.id in ids] for ids in others] if len(found) > 1 else []
    if game.rules.chain == "any" or demanded < 2:
        return []
    size = min(demanded - 1, len(evidence))
    if comb(len(evidence), size) <= MAX_SUBSETS:
        return [list(part) for part in combinations(evidence, size)]
    drawn = {tuple(sorted(rng.permutation(len(evidence))[:size].tolist())) for _ in range(MAX_SUBSETS)}
    return [[evidence[i] for i in part] for part in sorted(drawn)]


def _judge(readings: Sequence[tuple[Proposal, Reading]], asked: Sequence[tuple[int, Probe]]) -> list[list[Verdict]]:
    """Return the verdicts on each reading: one per answer that it names, none if it failed."""
    verdicts: list[list[Verdict]] = [[] for _ in readings]
    by_judge: dict[int, list[tuple[int, JudgeCase]]] = {}
    for k, (((game, trajectory), reading), (_, asking)) in enumerate(zip(readings, asked, strict=True)):
        answers = _named(reading.response) if asking.case.ask_for_all else [reading.response]
        question, accepted = asking.case.question, _answer(trajectory).accepted
        cases = [JudgeCase(question=question, answers=accepted, response=answer) for answer in answers]
        if not reading.error:
            by_judge.setdefault(id(game.judge), []).extend((k, case) for case in cases)
    for members in by_judge.values():
        judge = readings[members[0][0]][0][0].judge
        for (k, _), verdict in zip(members, judge.judge([case for _, case in members]), strict=True):
            verdicts[k].append(verdict)
    return verdicts


def _named(response: str) -> list[str]:
    """Return the answers that a reader lists, at least one, which may be empty."""
    return [part for part in map(str.strip, re.split(r"[;\n]", response)) if part] or [""]


def _finding(asking: Probe, reading: Reading, verdicts: Sequence[Verdict]) -> Validation:
    if reading.error:
        return Validation("failed", error=f"reader: {reading.error}")
    if lost := [verdict for verdict in verdicts if verdict.label == "error"]:
        return Validation("failed", reading.response, f"judge: {lost[0].detail or 'no verdict'}")
    found = "correct" if all(verdict.correct for verdict in verdicts) else "wrong"
    return Validation(asking.reason if found == asking.rejects else "ok", reading.response)


def _answer(trajectory: Trajectory) -> Answer:
    if not isinstance(trajectory.item, Answer):
        raise TypeError(f"expected a proposer's trajectory, got one of role {trajectory.role!r}")
    return trajectory.item
