"""``SearchSelfPlay-v0``: one agent plays a whole round, role after role."""

from __future__ import annotations

from functools import partial
from typing import Unpack

from ssp_env.envs.base import TextEnv
from ssp_env.envs.settle import SelfPlayScenario, playable
from ssp_env.envs.vector import make_text_vector
from ssp_env.game.game import Game
from ssp_env.registry import GameConfig, build_game


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
        super().__init__(*_parts(**config), render_mode=render_mode)


def _parts(**config: Unpack[GameConfig]) -> tuple[SelfPlayScenario, Game]:
    return SelfPlayScenario(), playable(build_game(config))


make_vector = partial(make_text_vector, _parts)
