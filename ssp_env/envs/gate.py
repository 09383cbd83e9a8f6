"""From an ended proposal to its validation, and from solves to the proposer's reward, for the environments.

The rules, the gate and the rewards themselves are elsewhere (``validator``, ``scoring``). What an environment adds is
that a failure of ours is raised instead of recorded: its step can then be repeated.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ssp_env.envs.state import State
from ssp_env.errors import JudgeError, ReaderError, RetrievalError, SSPError
from ssp_env.game import scoring
from ssp_env.game.probes import after_probes, probe
from ssp_env.game.proposal import proposed_task
from ssp_env.game.validator import close_gate, open_gate
from ssp_env.protocols import Reader
from ssp_env.types import Answer, Reading, ReadingCase, Trajectory, Validation

_ERRORS: dict[str, type[SSPError]] = {"judge": JudgeError, "retriever": RetrievalError}


def enter_gate(state: State) -> Validation | ReadingCase:
    """Return the validation if the rules alone decide it, else the case to be read; distractors come from the corpus.

    Raises:
        RetrievalError: If the search for distractors failed.
    """
    step = open_gate(state.game, state.episode.record(), others=(), rng=state.rng())
    return step if isinstance(step, ReadingCase) else _checked([step])[0]


def leave_gate(
    proposals: Sequence[tuple[State, Trajectory]], cases: Sequence[ReadingCase], readings: Sequence[Reading]
) -> list[Validation]:
    """Judge the readings of the cases of proposals.

    Raises:
        ReaderError: If a reading failed.
        JudgeError: If the judge gave no verdict.
    """
    return _checked(close_gate([(state.game, trajectory) for state, trajectory in proposals], cases, readings))


def _checked(validations: list[Validation]) -> list[Validation]:
    for validation in validations:
        if validation.reason == "failed":
            kind = _ERRORS.get(validation.error.partition(":")[0], ReaderError)
            raise kind(f"expected a validation, got a failure ({validation.error}); repeat the step")
    return validations


def read_all(reader: Reader, states: Sequence[State], cases: Sequence[ReadingCase]) -> list[Validation]:
    """Let a reader answer the cases of states whose proposer episode has just ended, judge it, and probe what passed.

    Raises:
        ReaderError: If a reading failed.
        RetrievalError: If the search that a probe needs failed.
        JudgeError: If the judge gave no verdict.
    """
    readings = reader.read(cases) if cases else []
    proposals = [(state, state.episode.record()) for state in states]
    validations = leave_gate(proposals, cases, readings)
    passed = [i for i, state in enumerate(states) if validations[i].ok and state.game.rules.probes]
    found = probe(
        [(states[i].game, proposals[i][1]) for i in passed],
        others=[()] * len(passed),
        read=lambda asked: reader.read([case for _, case in asked]) if asked else [],
        rngs=[states[i].rng().spawn(1)[0] for i in passed],
    )
    for i, validation in zip(passed, _checked(found), strict=True):
        validations[i] = after_probes(validations[i], validation)
    return validations


def accept(state: State, validation: Validation) -> State:
    """Return the state with its validation, and with the proposed task if it is accepted.

    The acting episode must be the proposer's, or the reader's that followed it.
    """
    ended = (*state.ended, state.episode.record())
    answer = state.item
    if not isinstance(answer, Answer):
        raise TypeError(f"expected a state that starts from an answer, got {type(answer).__name__}")
    task = proposed_task(answer, ended[0]) if validation.ok else None
    return replace(state, ended=ended, validation=validation, task=task)


def pay_proposer(state: State) -> State:
    """Return the state with the proposer's reward: by the rules of the game, from the solves that were played."""
    if state.validation is None:
        raise TypeError("expected a validated state, got one without a validation")
    rate = scoring.success_rate([trajectory for trajectory in state.ended if trajectory.role == "solver"])
    reward = scoring.pay_proposer(state.game.rules, state.validation, rate)
    return replace(state, ended=(replace(state.ended[0], reward=reward), *state.ended[1:]))
