"""``SearchSolver-v0``: a question in, an answer out."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Unpack

from ssp_env.envs.base import TextEnv
from ssp_env.envs.settle import judge_solves
from ssp_env.envs.state import State
from ssp_env.envs.vector import make_text_vector
from ssp_env.game.game import Game
from ssp_env.registry import GameConfig, build_game
from ssp_env.types import RoleName


class SolverScenario:
    """One solver episode, paid by the judge."""

    role: RoleName = "solver"

    def settle(self, states: Sequence[State]) -> list[State]:
        """Judge the answers and end."""
        return [state.closes() for state in judge_solves(states)]


class SearchSolverEnv(TextEnv):
    """Answer a question by searching a corpus.

    ## Description
    The solver of Search Self-Play (arXiv 2510.18821). It sees a question, searches for passages in as many turns as it
    likes, and gives one answer, which is compared with the accepted ones. Nothing it is shown contains them on purpose.

    ## Action Space
    `FreeText(32768)`: the text of one completion. The first completed block counts: `<search>query</search>` (or
    another enabled tool) asks, `<answer>text</answer>` ends the episode; `<think>` is free. Longer text is answered as
    invalid, lone surrogates are replaced.

    ## Observation Space
    `FreeText(10000000)`: after a reset the prompt as one text; after a tool call or an invalid action an
    `<information>` block; at the end "". `info["messages"]` holds the same as chat messages.

    ## Starting State
    A task drawn from `tasks` with the environment's generator, or the one in `options={"task": ...}`: its index, a
    `Task`, or a row like `{"question": "...", "answers": ["..."]}`.

    ## Rewards
    At the end what the rule `solver_reward` gives: 1 for a correct and 0 for a wrong answer. Every other step pays 0,
    and so does an episode that a limit ends.

    ## Episode End
    Termination: an answer, or an invalid action under the rule `end_on_invalid`. Truncation: `max_turns` completions
    without an answer (a tool call in the last one is not executed).

    ## Information
    See `ssp_env.envs.info.Info`: role, messages, stop strings, searches and turns left, whether the action was valid;
    at the end verdict and rewards. A failure on our side is raised; the same step may then be repeated.

    ## Arguments
    The keys of `ssp_env.config.GameConfig`, all optional: corpus, retriever, index_dir, tools, rules, prompt_set,
    judge, reader, tasks, answers. The default is a generated world.

    ```python
    gymnasium.make("SearchSolver-v0", corpus="passages.jsonl", tasks="questions.jsonl", rules={"preset": "paper"})
    ```

    ## Version History
    * v0: first version.
    """

    def __init__(self, *, render_mode: str | None = None, **config: Unpack[GameConfig]) -> None:
        """Build the game, or take it from the process-wide cache."""
        super().__init__(*_parts(**config), render_mode=render_mode)


def _parts(**config: Unpack[GameConfig]) -> tuple[SolverScenario, Game]:
    return SolverScenario(), build_game(config)


make_vector = partial(make_text_vector, _parts)
