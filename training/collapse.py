"""Signs that self-play has collapsed, read from the figures of the rounds so far.

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
that a task is mastered. A figure that is missing raises no alarm. Nothing is remembered besides the figures, so a
resumed run sees the same alarms.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from training.update import ScoredRow

Line = Mapping[str, object]
WINDOW = 5
ROLES = ("proposer", "solver")


@dataclass(frozen=True, slots=True)
class Alarm:
    """A detector that holds; ``since`` is the first round of the unbroken series in which it does."""

    name: str
    since: int
    text: str
    stops: bool


@dataclass(frozen=True, slots=True)
class Detector:
    """A condition on the lines of ``metrics.jsonl`` up to a round, and for how many rounds it must hold.

    ``stops``: whether a run may be ended by it. ``spoils``: whether the policy is worse than before it held.
    """

    text: str
    holds: Callable[[Sequence[Line]], bool]
    n_rounds: int = WINDOW
    stops: bool = False
    spoils: bool = True


def alarms(lines: Sequence[Line]) -> list[Alarm]:
    """Return the alarms after the last of the given lines of ``metrics.jsonl``, in the order of the table."""
    return [
        Alarm(name, held[-1], DETECTORS[name].text, DETECTORS[name].stops)
        for name, held in _held(lines).items()
        if len(held) >= DETECTORS[name].n_rounds
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


DETECTORS = {
    "valid_rate": Detector("fewer than 5 % of the proposals are valid", _below("valid_rate", 0.05), stops=True),
    "runaway": Detector("questions that nobody solves pay the proposer", _runaway, n_rounds=3, stops=True),
    "decline": Detector("the solver has lost half of its accuracy while the proposer earns more", _decline),
    "zero_variance": Detector(
        "over 90 % of the groups give no signal", _above("zero_variance_share", 0.9), spoils=False
    ),
    "repeat_calls": Detector("over 30 % of the searches are repeats", _above("repeat_call_rate", 0.3), spoils=False),
    "entropy": Detector("a role's entropy left the range of 0.1 to 4 times its start", _entropy),
}
