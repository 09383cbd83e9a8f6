"""What follows when a role's episode has ended in an environment: validate, judge, pay, and the next role's episode.

The gate, the judging and the rewards are those of the trainer (``validator``, ``scoring``). What an environment adds is
that a failure of ours is raised instead of recorded: its step can then be repeated.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from ssp_env.envs.state import State
from ssp_env.errors import ConfigError, JudgeError, ReaderError, RetrievalError, SSPError
from ssp_env.game import scoring
from ssp_env.game.batching import in_groups
from ssp_env.game.game import Game
from ssp_env.game.probes import Check, Proposal
from ssp_env.game.proposal import proposed_task
from ssp_env.game.readers import reading
from ssp_env.game.validator import decide, gate_check, open_gate, validate
from ssp_env.types import ReadingCase, RoleName, Trajectory, Validation, Verdict

Solve = tuple[Trajectory, Verdict]
_ERRORS: dict[str, type[SSPError]] = {"judge": JudgeError, "retriever": RetrievalError}


def proposal(state: State) -> Proposal:
    """Return the proposal of a state whose proposer has just ended; distractors come from the corpus alone."""
    rng = state.rng()
    return Proposal(state.game, state.episode.record(), rng, probe_rng=rng.spawn(1)[0])


def checked(validations: Iterable[Validation]) -> list[Validation]:
    """Return the validations.

    Raises:
        ReaderError: If a reading failed.
        RetrievalError: If a search for distractors or rivals failed.
        JudgeError: If the judge gave no verdict.
    """
    for validation in (validations := list(validations)):
        if validation.reason == "failed":
            kind = _ERRORS.get(validation.error.partition(":")[0], ReaderError)
            raise kind(f"expected a validation, got a failure ({validation.error}); repeat the step")
    return validations


def accept(state: State, validation: Validation) -> State:
    """Return the state with its validation, and with the proposed task if it is accepted.

    The acting episode must be the proposer's, or the reader's that followed it.
    """
    ended = (*state.ended, state.episode.record())
    task = proposed_task(ended[0]) if validation.ok else None
    return replace(state, ended=ended, validation=validation, task=task)


def judged(solves: Sequence[tuple[Game, Trajectory]]) -> list[Solve]:
    """Return ended solver episodes, paid, with their verdicts; raises ``JudgeError`` where the judge gave none."""
    scored = scoring.score_solves(solves)
    for solve, verdict in scored:
        if solve.reward is None:
            raise JudgeError(f"expected a verdict, got none ({verdict.method}: {solve.error}); repeat the step")
    return scored


def with_solves(state: State, solves: Sequence[Solve], *, reward: float = 0.0) -> State:
    """Return the state with further solves, and what the step pays the acting agent."""
    ended = (*state.ended, *(solve for solve, _ in solves))
    verdicts = (*state.verdicts, *(verdict for _, verdict in solves))
    return replace(state, ended=ended, verdicts=verdicts, reward=reward)


def judge_solves(states: Sequence[State]) -> list[State]:
    """Return the states with their ended solver episode judged and paid."""
    solves = judged([(state.game, state.episode.record()) for state in states])
    return [
        with_solves(state, [solve], reward=solve[0].reward or 0.0) for state, solve in zip(states, solves, strict=True)
    ]


def pay_proposer(state: State) -> State:
    """Return the state with the proposer's reward: by the rules of the game, from the solves that were played."""
    if state.validation is None:
        raise TypeError("expected a validated state, got one without a validation")
    rate = scoring.success_rate([trajectory for trajectory in state.ended if trajectory.role == "solver"])
    reward = scoring.pay_proposer(state.game.rules, state.validation, rate)
    return replace(state, ended=(replace(state.ended[0], reward=reward), *state.ended[1:]))


class SelfPlayScenario:
    """Proposer, then reader where the game names none, then the solves one after the other."""

    role: RoleName = "proposer"

    def settle(self, states: Sequence[State]) -> list[State]:
        """Open the next role's episode, or pay and end."""
        handle = {"proposer": self._proposed, "reader": self._read, "solver": self._solved}
        return in_groups(
            states, lambda state: state.episode.role.name, lambda group: handle[group[0].episode.role.name](group)
        )

    def _proposed(self, states: Sequence[State]) -> list[State]:
        reader = states[0].game.reader
        proposals = [proposal(state) for state in states]
        if reader is not None:
            return _go_on(states, validate(proposals, lambda checks: reader.read([check.case for check in checks])))
        opened = [open_gate(made) for made in proposals]
        decided = iter(checked(step for step in opened if isinstance(step, Validation)))
        return [
            _open_reader(state, step.case) if isinstance(step, Check) else _gone_on(state, next(decided))
            for state, step in zip(states, opened, strict=True)
        ]

    def _read(self, states: Sequence[State]) -> list[State]:
        """The acting policy was the reader: close the gate with what it answered."""
        read = [state.episode.record() for state in states]
        checks = [
            gate_check(state.game, state.ended[0], trajectory.item)
            for state, trajectory in zip(states, read, strict=True)
            if isinstance(trajectory.item, ReadingCase)
        ]
        return _go_on(states, decide(checks, [reading(trajectory) for trajectory in read]))

    def _solved(self, states: Sequence[State]) -> list[State]:
        return [_solve_or_end(state) for state in judge_solves(states)]


def playable(game: Game) -> Game:
    """Return the game; raises ``ConfigError`` if its rules want the policy to read a question more than once."""
    if game.reader is None and game.rules.probes:
        raise ConfigError(
            "expected a reader for the rules that read a question again, got reader='policy', which acts once here; "
            "name a reader or switch these rules off"
        )
    return game


def _open_reader(state: State, case: ReadingCase) -> State:
    return replace(state, ended=(state.episode.record(),)).opens(state.game.episode("reader", case))


def _go_on(states: Sequence[State], validations: Sequence[Validation]) -> list[State]:
    return [_gone_on(*parts) for parts in zip(states, checked(validations), strict=True)]


def _gone_on(state: State, validation: Validation) -> State:
    state = accept(state, validation)
    if state.ended[-1].role == "reader":
        read = replace(state.ended[-1], reward=float(validation.ok))
        state = replace(state, ended=(*state.ended[:-1], read))
    return _solve_or_end(state)


def _solve_or_end(state: State) -> State:
    if state.task is None or len(state.verdicts) == state.game.rules.n_solves:
        return pay_proposer(state).closes()
    return state.opens(state.game.episode("solver", state.task))
