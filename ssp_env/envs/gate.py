"""From an ended proposal to its validation, and from solves to the proposer's reward, for the environments.

The rules, the gate and the rewards themselves are elsewhere (``validator``, ``scoring``). What an environment adds is
that a failure of ours is raised instead of recorded: its step can then be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ssp_env.envs.state import Play
from ssp_env.errors import JudgeError, ReaderError, RetrievalError, SSPError
from ssp_env.game import scoring
from ssp_env.game.probes import after_probes, probe
from ssp_env.game.proposal import proposed_task
from ssp_env.game.validator import close_gate, open_gate
from ssp_env.protocols import Reader
from ssp_env.types import Reading, ReadingCase, Seed, Trajectory, Validation

_ERRORS: dict[str, type[SSPError]] = {"judge": JudgeError, "retriever": RetrievalError}


def enter_gate(play: Play) -> Validation | ReadingCase:
    """Return the validation if the rules alone decide it, else the case to be read; noise comes from the corpus.

    Raises:
        RetrievalError: If the search for noise failed.
    """
    step = open_gate(play.game, play.episode.record(), others=(), rng=play.rng())
    return step if isinstance(step, ReadingCase) else _checked([step])[0]


def leave_gate(
    proposals: Sequence[tuple[Play, Trajectory]], cases: Sequence[ReadingCase], readings: Sequence[Reading]
) -> list[Validation]:
    """Judge the readings of the cases of proposals.

    Raises:
        ReaderError: If a reading failed.
        JudgeError: If the judge gave no verdict.
    """
    return _checked(close_gate([(play.game, trajectory) for play, trajectory in proposals], cases, readings))


def _checked(validations: list[Validation]) -> list[Validation]:
    for validation in validations:
        if validation.reason == "failed":
            kind = _ERRORS.get(validation.error.partition(":")[0], ReaderError)
            raise kind(f"expected a validation, got a failure ({validation.error}); repeat the step")
    return validations


def read_all(reader: Reader, plays: Sequence[Play], cases: Sequence[ReadingCase]) -> list[Validation]:
    """Let a reader answer the cases of plays whose proposer episode has just ended, judge it, and probe what passed.

    Raises:
        ReaderError: If a reading failed.
        RetrievalError: If the search that a probe needs failed.
        JudgeError: If the judge gave no verdict.
    """
    readings = reader.read(cases) if cases else []
    proposals = [(play, play.episode.record()) for play in plays]
    validations = leave_gate(proposals, cases, readings)
    passed = [i for i, play in enumerate(plays) if validations[i].ok and play.game.rules.probes]
    found = probe(
        [(plays[i].game, proposals[i][1]) for i in passed],
        others=[()] * len(passed),
        read=lambda asked: reader.read([case for _, case in asked]) if asked else [],
        rngs=[plays[i].rng().spawn(1)[0] for i in passed],
    )
    for i, validation in zip(passed, _checked(found), strict=True):
        validations[i] = after_probes(validations[i], validation)
    return validations


def accept(play: Play, validation: Validation) -> Play:
    """Return the play with its validation, and with the proposed task if it is accepted.

    The acting episode must be the proposer's, or the reader's that followed it.
    """
    ended = (*play.ended, play.episode.record())
    seed = play.item
    if not isinstance(seed, Seed):
        raise TypeError(f"expected a play that starts from a seed, got {type(seed).__name__}")
    task = proposed_task(seed, ended[0]) if validation.ok else None
    return replace(play, ended=ended, validation=validation, task=task)


def pay_proposer(play: Play) -> Play:
    """Return the play with the proposer's reward: by the rules of the game, from the solves that were played."""
    if play.validation is None:
        raise TypeError("expected a validated play, got one without a validation")
    rate = scoring.success_rate([trajectory for trajectory in play.ended if trajectory.role == "solver"])
    reward = scoring.pay_proposer(play.game.rules, play.validation, rate)
    return replace(play, ended=(replace(play.ended[0], reward=reward), *play.ended[1:]))
