"""``SearchSelfPlay-v0``: one agent plays a whole round, role after role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from gymnasium.vector import AutoresetMode

from ssp_env.envs.base import TextEnv
from ssp_env.envs.gate import accept, enter_gate, leave_gate, pay_proposer, read_all
from ssp_env.envs.state import Play, judge_solves
from ssp_env.envs.vector import TextVectorEnv
from ssp_env.errors import ConfigError
from ssp_env.game.game import Game
from ssp_env.game.readers import reading
from ssp_env.registry import GameConfig, build_game
from ssp_env.types import ReadingCase, RoleName, Validation


class SelfPlayScenario:
    """Proposer, then reader where the game names none, then the solves one after the other."""

    role: RoleName = "proposer"

    def settle(self, plays: Sequence[Play]) -> list[Play]:
        """Open the next role's episode, or pay and end."""
        settled: dict[int, Play] = {}
        for role, handle in (("proposer", self._proposed), ("reader", self._read), ("solver", self._solved)):
            members = [i for i, play in enumerate(plays) if play.episode.role.name == role]
            settled.update(zip(members, handle([plays[i] for i in members]), strict=True))
        return [settled[i] for i in range(len(plays))]

    def _proposed(self, plays: Sequence[Play]) -> list[Play]:
        entered = [enter_gate(play) for play in plays]
        validations = {i: step for i, step in enumerate(entered) if isinstance(step, Validation)}
        cases = {i: step for i, step in enumerate(entered) if isinstance(step, ReadingCase)}
        asked = [i for i in cases if plays[i].game.reader is not None]
        if asked and (reader := plays[asked[0]].game.reader) is not None:
            read = read_all(reader, [plays[i] for i in asked], [cases[i] for i in asked])
            validations.update(zip(asked, read, strict=True))
        return [
            _go_on(play, validations[i]) if i in validations else _open_reader(play, cases[i])
            for i, play in enumerate(plays)
        ]

    def _read(self, plays: Sequence[Play]) -> list[Play]:
        readings = [reading(play.episode.record()) for play in plays]
        cases = [case for play in plays if isinstance(case := play.episode.item, ReadingCase)]
        validations = leave_gate([(play, play.ended[0]) for play in plays], cases, readings)
        return [_go_on(play, validation) for play, validation in zip(plays, validations, strict=True)]

    def _solved(self, plays: Sequence[Play]) -> list[Play]:
        return [_solve_or_end(play) for play in judge_solves(plays)]


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
    A seed drawn from `seeds` with the environment's generator, or the one in `options={"seed": ...}`: its index, a
    `Seed`, or a row like `{"answer": "...", "n_searches": 2}`.

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


def _open_reader(play: Play, case: ReadingCase) -> Play:
    proposal = play.episode.record()
    return replace(play, ended=(proposal,)).opens(play.game.episode("reader", case))


def _go_on(play: Play, validation: Validation) -> Play:
    play = accept(play, validation)
    if play.ended[-1].role == "reader":
        read = replace(play.ended[-1], reward=float(validation.ok))
        play = replace(play, ended=(*play.ended[:-1], read))
    return _solve_or_end(play)


def _solve_or_end(play: Play) -> Play:
    if play.task is None or len(play.verdicts) == play.game.rules.n_solves:
        return pay_proposer(play).closes()
    return play.opens(play.game.episode("solver", play.task))
