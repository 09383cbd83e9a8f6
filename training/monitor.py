"""Signs that self-play has collapsed, read from the figures of the rounds so far; and what is true of its questions.

============= ====================================================================================== =====
alarm         holds for each of the last rounds                                                      stops
============= ====================================================================================== =====
valid_rate    fewer than 5 % of the proposals are valid (5 rounds)                                   yes
runaway       proposer reward above 0.95 with solver accuracy below 0.05 (3 rounds)                  yes
decline       solver accuracy below half of its best, proposer reward above what it was then         no
              (means of 5 rounds; 5 rounds)
zero_variance more than 90 % of the groups of solves give no signal (5 rounds)                       no
repeat_calls  more than 30 % of the searches repeat one of the same episode (5 rounds)               no
entropy       a role's entropy is below a tenth or above the fourfold of its first three rounds (5)  no
============= ====================================================================================== =====

The first two are fatal in every report of collapse that we know (SSP figure 5; minissp); the others may also mean
that a task is mastered. So every alarm is noted, and a person is told of one only when there is something to do: of
``decline`` and ``entropy`` unless the held-out accuracy is near its best, of ``zero_variance`` after 20 rounds. A
figure that is missing raises no alarm. A resumed run sees the same alarms: nothing else is remembered.

What is true of questions is exact in generated worlds; nothing here is learned from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Literal

import numpy as np

from ssp_env.game.readers import read_with
from ssp_env.protocols import Agent
from ssp_env.types import JudgeCase, ReadingCase, Round, Sampling
from ssp_env.world.quality import Quality, quality_statistics, round_quality
from training.evaluate import mean_accuracy
from training.games import Games
from training.update import ScoredRow

Line = Mapping[str, object]
WINDOW = 5
PATIENCE = 20
"""Rounds without a signal after which a person is told: at the start of self-play they come and go."""
NEAR_BEST = 0.05
AGAIN = "start again from a checkpoint before that (--model CHECKPOINT --out ANOTHER) with a lower learning rate"
ROLES = ("proposer", "solver")


@dataclass(frozen=True, slots=True)
class Alarm:
    """A detector that holds; ``since`` is the first round of the unbroken series in which it does.

    ``remedy``: what a person can do; empty where there is nothing to do yet.
    """

    name: str
    since: int
    text: str
    stops: bool
    remedy: str


@dataclass(frozen=True, slots=True)
class Detector:
    """A condition on the lines of ``metrics.jsonl`` up to a round, and for how many rounds it must hold.

    ``stops``: whether a run may be ended by it. ``spoils``: whether the policy is worse than before it held.
    """

    text: str
    holds: Callable[[Sequence[Line]], bool]
    remedy: Callable[[Sequence[Line]], str]
    n_rounds: int = WINDOW
    stops: bool = False
    spoils: bool = True


def alarms(lines: Sequence[Line]) -> list[Alarm]:
    """Return the alarms after the last of the given lines of ``metrics.jsonl``, in the order of the table."""
    return [
        Alarm(name, held[-1], detector.text, detector.stops, detector.remedy(lines))
        for name, held in _held(lines).items()
        if len(held) >= (detector := DETECTORS[name]).n_rounds
    ]


def good_before(lines: Sequence[Line]) -> int | None:
    """Return the first round of the longest series in which a detector holds now, however short; None without one.

    A checkpoint made before it is good whatever the alarm that may come of the series. Detectors that do not spoil a
    policy are left out.
    """
    return min((held[-1] for name, held in _held(lines).items() if DETECTORS[name].spoils), default=None)


def _held(lines: Sequence[Line]) -> dict[str, list[int]]:
    """Return the last rounds in which a detector holds without a break, latest first, for those that hold now."""
    rounds = [line for line in lines if line["round"]]
    found = {}
    for name, detector in DETECTORS.items():
        held: list[int] = []
        while len(held) < len(rounds) and detector.holds(rounds[: len(rounds) - len(held)]):
            held.append(int(str(rounds[-1 - len(held)]["round"])))
        if held:
            found[name] = held
    return found


def role_entropy(rows: Sequence[ScoredRow]) -> dict[str, float | None]:
    """Return the entropy in nats per sampled token of each trained role, estimated by the sampled log-probabilities."""
    figures: dict[str, float | None] = {}
    for role in ROLES:
        own = [scored.row for scored in rows if scored.row.role == role]
        n_tokens = sum(row.n_sampled for row in own)
        figures[f"entropy/{role}"] = -sum(sum(row.logprobs) for row in own) / n_tokens if n_tokens else None
    return figures


def _number(line: Line, name: str) -> float | None:
    value = line.get(name)
    return float(value) if isinstance(value, int | float) else None


def _below(name: str, limit: float) -> Callable[[Sequence[Line]], bool]:
    return lambda lines: (value := _number(lines[-1], name)) is not None and value < limit


def _above(name: str, limit: float) -> Callable[[Sequence[Line]], bool]:
    return lambda lines: (value := _number(lines[-1], name)) is not None and value > limit


def _runaway(lines: Sequence[Line]) -> bool:
    return _above("proposer_reward", 0.95)(lines) and _below("solver_accuracy", 0.05)(lines)


def _decline(lines: Sequence[Line]) -> bool:
    pairs = [(_number(line, "solver_accuracy"), _number(line, "proposer_reward")) for line in lines]
    known = [(accuracy, reward) for accuracy, reward in pairs if accuracy is not None and reward is not None]
    means = [
        (fmean(a for a, _ in known[i - WINDOW : i]), fmean(r for _, r in known[i - WINDOW : i]))
        for i in range(WINDOW, len(known) + 1)
    ]
    if not means:
        return False
    (best, paid_then), (accuracy, paid) = max(means), means[-1]
    return accuracy < best / 2 and paid > paid_then


def _entropy(lines: Sequence[Line]) -> bool:
    for role in ROLES:
        values = [value for line in lines if (value := _number(line, f"entropy/{role}")) is not None]
        if len(values) > 3 and not fmean(values[:3]) / 10 <= values[-1] <= fmean(values[:3]) * 4:
            return True
    return False


def _always(remedy: str) -> Callable[[Sequence[Line]], str]:
    return lambda _: remedy


def _unless_near_best(remedy: str) -> Callable[[Sequence[Line]], str]:
    """Say nothing while held-out questions are answered as well as ever: then the game has only become harder."""

    def told(lines: Sequence[Line]) -> str:
        means = [mean for line in lines if (mean := mean_accuracy(line)) is not None]
        return "" if len(means) > 1 and means[-1] >= max(means) - NEAR_BEST else remedy

    return told


def _when_lasting(lines: Sequence[Line]) -> str:
    recent = lines[-PATIENCE:]
    if len(recent) < PATIENCE or not all(_no_signal([line]) for line in recent):
        return ""
    if (_number(lines[-1], "solver_accuracy") or 0.0) > 0.5:
        return "the questions have become too easy: demand more searches (--demanded-searches), or end the run here"
    return (
        "the questions are too hard: demand fewer searches (--demanded-searches) or solve more often (--game.n-solves)"
    )


_no_signal = _above("zero_variance_share", 0.9)

DETECTORS = {
    "valid_rate": Detector(
        "fewer than 5 % of the proposals are valid; each line says why",
        _below("valid_rate", 0.05),
        _always(f"if more were valid before, {AGAIN}; else start from a model that knows the format"),
        stops=True,
    ),
    "runaway": Detector(
        "questions that nobody solves pay the proposer",
        _runaway,
        _always(
            f"pay only for questions that somebody solves (--game.rule proposer_reward=zero_sum_solved), or {AGAIN}"
        ),
        n_rounds=3,
        stops=True,
    ),
    "decline": Detector(
        "the solver has lost half of its accuracy while the proposer earns more",
        _decline,
        _unless_near_best(f"if held-out accuracy falls as well, {AGAIN}; else the questions have only become harder"),
    ),
    "zero_variance": Detector(
        "over 90 % of the groups give no signal: all solves of a question end alike",
        _no_signal,
        _when_lasting,
        spoils=False,
    ),
    "repeat_calls": Detector(
        "over 30 % of the searches repeat one of the same episode and find nothing new",
        _above("repeat_call_rate", 0.3),
        _always(
            "refuse questions found that way (--game.rule distinct_queries=true), or allow fewer turns (max_turns=4)"
        ),
        spoils=False,
    ),
    "entropy": Detector(
        "a role's entropy left the range of 0.1 to 4 times its start: it has stopped to vary, or become random",
        _entropy,
        _unless_near_best(f"if entropy/ROLE in metrics.jsonl fell, raise --sampling.temperature; if it rose, {AGAIN}"),
    ),
}


ClosedBook = dict[int, Literal["correct", "wrong", "error"]]


def measure(played: Sequence[Round], games: Games) -> list[Quality | None]:
    """Return the truth about each question that a reader has read; None for the others and outside of worlds."""
    worlds = {
        answer.id: world
        for game, world in zip(games.training, games.worlds, strict=bool(games.worlds))
        for answer in game.answers
    }
    return [round_quality(worlds[r.answer.id], r) if r.answer.id in worlds else None for r in played]


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
        JudgeCase(question=questions[k], answers=played[asked[k]].answer.accepted, response=readings[k].response)
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
