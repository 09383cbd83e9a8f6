"""``SearchSelfPlay-v0``: one agent plays a whole round, role after role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from gymnasium.vector import AutoresetMode

from ssp_env.envs.base import TextEnv
from ssp_env.envs.gate import accept, enter_gate, leave_gate, pay_proposer, read_all
from ssp_env.envs.state import State, judge_solves
from ssp_env.envs.vector import TextVectorEnv
from ssp_env.errors import ConfigError
from ssp_env.game.game import Game
from ssp_env.game.readers import reading
from ssp_env.registry import GameConfig, build_game
from ssp_env.types import ReadingCase, RoleName, Validation


class SelfPlayScenario:
    """Proposer, then reader where the game names none, then the solves one after the other."""

    role: RoleName = "proposer"

    def settle(self, states: Sequence[State]) -> list[State]:
        """Open the next role's episode, or pay and end."""
        settled: dict[int, State] = {}
        for role, handle in (("proposer", self._proposed), ("reader", self._read), ("solver", self._solved)):
            members = [i for i, state in enumerate(states) if state.episode.role.name == role]
            settled.update(zip(members, handle([states[i] for i in members]), strict=True))
        return [settled[i] for i in range(len(states))]

    def _proposed(self, states: Sequence[State]) -> list[State]:
        entered = [enter_gate(state) for state in states]
        validations = {i: step for i, step in enumerate(entered) if isinstance(step, Validation)}
        cases = {i: step for i, step in enumerate(entered) if isinstance(step, ReadingCase)}
        asked = [i for i in cases if states[i].game.reader is not None]
        if asked and (reader := states[asked[0]].game.reader) is not None:
            read = read_all(reader, [states[i] for i in asked], [cases[i] for i in asked])
            validations.update(zip(asked, read, strict=True))
        return [
            _go_on(state, validations[i]) if i in validations else _open_reader(state, cases[i])
            for i, state in enumerate(states)
        ]

    def _read(self, states: Sequence[State]) -> list[State]:
        readings = [reading(state.episode.record()) for state in states]
        cases = [case for state in states if isinstance(case := state.episode.item, ReadingCase)]
        validations = leave_gate([(state, state.ended[0]) for state in states], cases, readings)
        return [_go_on(state, validation) for state, validation in zip(states, validations, strict=True)]

    def _solved(self, states: Sequence[State]) -> list[State]:
        return [_solve_or_end(state) for state in judge_solves(states)]


class SearchSelfPlayEnv(TextEnv):
    """Play a whole round of search self-play as one agent.

    ## Description
    Search Self-Play (arXiv 2510.18821), step by step: the agent proposes a question for an answer, reads if the game
    names no reader (`reader="policy"`), and solves its own question `n_solves` times. `info["role"]` says who acts
    next; each role sees its own prompt and nothing of the others.

    ## Action Space
    `FreeText(32768)`: the text of one completion. The first completed block counts: `<search>query</search>` (or
    another enabled tool) asks; `<question>` ends the proposer's, `<answer>` the reader's and the solver's part.

    ## Observation Space
    `FreeText(10000000)`: the prompt of the role that begins, or the reply to the last action, an `<information>`
    block; at the end "".

    ## Starting State
    An answer drawn from `answers` with the environment's generator, or the one in `options={"answer": ...}`: its
    index, an `Answer`, or a row like `{"answer": "...", "n_searches": 2}`.

    ## Rewards
    A step that ends a solve pays its verdict (the rule `solver_reward`: 1 or 0); every other step pays 0. The sum over
    an episode is thus what the solver earned. What each role earned stands in `info["rewards"]` at the end:
    `{"proposer": [r], "reader": [r], "solver": [r, ...]}`; the proposer's is the rule `proposer_reward` of the share of
    correct solves or, for a rejected question, `invalid_reward`; the reader's is 1 if the question was accepted.

    ## Episode End
    A rejected question or the last solve. It is a truncation when a limit ended the last role's part (no question or
    answer within `max_turns`), else a termination.

    ## Information
    See `ssp_env.envs.info.Info`; at the end also `validation`, verdicts and rewards. A failure on our side is raised;
    the same step may then be repeated.

    ## Arguments
    The keys of `ssp_env.config.GameConfig`, all optional. The default is a generated world with the oracle as reader.

    ```python
    gymnasium.make("SearchSelfPlay-v0", rules={"preset": "world", "n_solves": 3}, reader="policy")
    ```

    ## Version History
    * v0: first version.
    """

    def __init__(self, *, render_mode: str | None = None, **config: Unpack[GameConfig]) -> None:
        """Build the game, or take it from the process-wide cache."""
        super().__init__(SelfPlayScenario(), playable(build_game(config)), render_mode=render_mode)


def make_vector(
    num_envs: int = 1,
    *,
    render_mode: str | None = None,
    autoreset_mode: str | AutoresetMode = "NextStep",
    max_episode_steps: int | None = None,
    **config: Unpack[GameConfig],
) -> TextVectorEnv:
    """Return the vector environment, for ``gymnasium.make_vec``."""
    game = playable(build_game(config))
    return TextVectorEnv(
        SelfPlayScenario(),
        game,
        num_envs=num_envs,
        render_mode=render_mode,
        autoreset_mode=autoreset_mode,
        max_episode_steps=max_episode_steps,
    )


def playable(game: Game) -> Game:
    """Return the game; raises ``ConfigError`` if its rules want the policy to read a question more than once."""
    if game.reader is None and game.rules.probes:
        raise ConfigError(
            "expected a reader for the rules that read a question again, got reader='policy', which acts once here; "
            "name a reader or switch these rules off"
        )
    return game


def _open_reader(state: State, case: ReadingCase) -> State:
    proposal = state.episode.record()
    return replace(state, ended=(proposal,)).opens(state.game.episode("reader", case))


def _go_on(state: State, validation: Validation) -> State:
    state = accept(state, validation)
    if state.ended[-1].role == "reader":
        read = replace(state.ended[-1], reward=float(validation.ok))
        state = replace(state, ended=(*state.ended[:-1], read))
    return _solve_or_end(state)


def _solve_or_end(state: State) -> State:
    if state.task is None or len(state.verdicts) == state.game.rules.n_solves:
        return pay_proposer(state).closes()
    return state.opens(state.game.episode("solver", state.task))
