"""The records of a round: judging, reading, validation, and the round itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ssp_env.types.episode import ReadingCase, Seed, Task, Trajectory


@dataclass(frozen=True, slots=True)
class JudgeCase:
    """One response to be compared with the accepted answers; build it with keywords only."""

    question: str
    answers: tuple[str, ...]
    response: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge said. ``error`` means that the judge failed: nobody may be paid on it.

    ``method`` names what decided (``"exact"``, ``"unicode"``, ``"model"``, ``"empty"``, ...).
    """

    label: Literal["correct", "wrong", "error"]
    method: str
    detail: str = ""

    @property
    def correct(self) -> bool:
        """Whether the label is ``correct``."""
        return self.label == "correct"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader answered; a non-empty ``error`` means that the reader failed on our side."""

    response: str
    error: str = ""


Reason = Literal[
    "ok",
    "no_question",
    "too_short",
    "too_long",
    "answer_leak",
    "no_evidence",
    "too_few_searches",
    "repeated_search",
    "answer_in_query",
    "wrong_search_count",
    "not_answerable",
    "closed_book",
    "not_multi_hop",
    "not_unique",
    "failed",
]


ReadingKind = Literal["gate", "closed_book", "chain", "unique", "ask_for_all"]


@dataclass(frozen=True, slots=True)
class JudgedReading:
    """A reading of a proposed question by the gate or a probe: what the reader saw, in order, and what came of it.

    There is one verdict per answer that the response names (several under ``ask_for_all`` only), none if the reader
    failed.
    """

    kind: ReadingKind
    case: ReadingCase
    reading: Reading
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True, slots=True)
class Validation:
    """Whether a proposed question may be used, and the first reason why not.

    ``failed`` is our own failure (reader or judge outage): the question is not used and its proposer is not paid.
    ``response`` and ``error`` are of the reading that decided, the gate's if it is accepted. ``readings`` are all that
    were made, the gate's first; two validations are equal if they decide alike.
    """

    reason: Reason
    response: str = ""
    error: str = ""
    readings: tuple[JudgedReading, ...] = field(default=(), compare=False)

    @property
    def ok(self) -> bool:
        """Whether the question is accepted."""
        return self.reason == "ok"


@dataclass(frozen=True, slots=True)
class Round:
    """One unit of self-play: a proposal, its validation, and the solves of the task in its slot.

    ``origin`` tells where the slot's task came from: the proposal itself, the pool, a content-free dummy, or none.
    ``success_rate`` is the share of scored solves that are correct, None when none was scored.
    ``proposer_reward`` is None when our side failed. ``corpus`` and ``task_corpus`` are the fingerprints of the corpora
    that the question was proposed over and the task is solved over: a reused task may be of another one.
    """

    seed: Seed
    proposal: Trajectory
    validation: Validation
    origin: Literal["fresh", "reused", "dummy", "none"] = "none"
    task: Task | None = None
    solves: tuple[Trajectory, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    success_rate: float | None = None
    proposer_reward: float | None = None
    corpus: str = ""
    task_corpus: str = ""
