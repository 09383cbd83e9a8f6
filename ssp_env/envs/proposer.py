"""``SearchProposer-v0``: an answer in, a question out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain, islice
from typing import Unpack

from ssp_env.envs.base import TextEnv
from ssp_env.envs.settle import Solve, accept, checked, judged, pay_proposer, proposal, with_solves
from ssp_env.envs.state import State
from ssp_env.envs.vector import make_text_vector
from ssp_env.errors import AgentError, ConfigError
from ssp_env.game.game import Game
from ssp_env.game.probes import Check
from ssp_env.game.readers import AgentReader
from ssp_env.game.rollout import rollout_apart
from ssp_env.game.validator import validate
from ssp_env.protocols import Agent, Reader
from ssp_env.registry import GameConfig, build_agent, build_game
from ssp_env.types import Reading, RoleName, Sampling

AgentSpec = str | Mapping[str, object]


class ProposerScenario:
    """One proposer episode, validated, and paid for its form or by what an opponent makes of it."""

    role: RoleName = "proposer"

    def __init__(self, game: Game, opponent: Agent | None, *, sampling: Sampling) -> None:
        """Choose who solves and, where the game names no reader, reads.

        Raises:
            ConfigError: If the gate needs a reader and there is nobody to read.
        """
        self._opponent = opponent
        self._sampling = sampling
        self._reader: Reader | None = game.reader
        if game.reader is None and opponent is not None:
            self._reader = AgentReader(opponent, prompt_set=game.prompt_set)
        if self._reader is None and game.rules.gate:
            raise ConfigError(
                "expected a reader for the gate, got reader='policy', which never acts here; name a reader or an "
                "opponent, switch the rule 'gate' off, or use SearchSelfPlay-v0"
            )

    def settle(self, states: Sequence[State]) -> list[State]:
        """Validate the proposals, let the opponent solve the accepted ones, pay and end."""
        validations = checked(validate([proposal(state) for state in states], self._read))
        accepted = [accept(*parts) for parts in zip(states, validations, strict=True)]
        return [
            replace(state, episode=proposed.episode, reward=state.ended[0].reward or 0.0).closes()
            for proposed, state in zip(states, self._paid(accepted), strict=True)
        ]

    def _read(self, checks: Sequence[Check]) -> list[Reading]:
        return self._reader.read([check.case for check in checks]) if self._reader else []

    def _paid(self, states: Sequence[State]) -> list[State]:
        if self._opponent is None:
            rewards = [state.game.rules.invalid_reward if state.task is None else 1.0 for state in states]
            return [
                replace(state, ended=(replace(state.ended[0], reward=reward),))
                for state, reward in zip(states, rewards, strict=True)
            ]
        solves = iter(self._solves([state for state in states if state.task is not None], self._opponent))
        return [
            pay_proposer(with_solves(state, list(islice(solves, state.game.rules.n_solves if state.task else 0))))
            for state in states
        ]

    def _solves(self, states: Sequence[State], opponent: Agent) -> list[Solve]:
        """Let the opponent solve: all searches of a turn and all verdicts in one call each."""
        parties = [
            ([state.game.episode("solver", state.task) for _ in range(state.game.rules.n_solves)], state.rng())
            for state in states
            if state.task is not None
        ]
        played = rollout_apart(parties, opponent, sampling=self._sampling)
        for solve in chain.from_iterable(played):
            if solve.status == "failed":
                raise AgentError(f"expected the opponent's solves, got a failure ({solve.error}); repeat the step")
        return judged([(state.game, solve) for state, solves in zip(states, played, strict=True) for solve in solves])


class SearchProposerEnv(TextEnv):
    """Ask a question that has a given answer, by searching a corpus.

    ## Description
    The proposer of Search Self-Play (arXiv 2510.18821). It sees an answer and a number of searches, looks for facts
    about the answer, and ends with a question. The question must pass the rule filter and the gate: a reader has to
    find the answer in what the proposer found, with distractors mixed in.

    ## Action Space
    `FreeText(32768)`: the text of one completion. The first completed block counts: `<search>query</search>` (or
    another enabled tool) asks, `<question>text</question>` ends the episode; `<think>` is free.

    ## Observation Space
    `FreeText(10000000)`: after a reset the prompt as one text; after a tool call or an invalid action an
    `<information>` block; at the end "".

    ## Starting State
    An answer drawn from `answers` with the environment's generator, or the one in `options={"answer": ...}`: its
    index, an `Answer`, or a row like `{"answer": "...", "n_searches": 2}`.

    ## Rewards
    At the end. Without `opponent`: 1 for an accepted question. With one: the rule `proposer_reward` of the share of
    the opponent's `n_solves` solves that are correct (`zero_sum`: 1 - share; the default over a generated world,
    `zero_sum_solved`: 0 where the share is 0). A rejected question pays the rule
    `invalid_reward`. Every other step pays 0.

    ## Episode End
    Termination: a question, or an invalid action under the rule `end_on_invalid`. Truncation: `max_turns` completions
    without a question.

    ## Information
    See `ssp_env.envs.info.Info`; at the end also `validation`, the reason, and with an opponent its verdicts and
    rewards. A failure on our side is raised; the same step may then be repeated.

    ## Arguments
    `opponent`: an agent's name, `"module:factory"` or `{"name": either, "kwargs": {...}}`; it also reads where the
    game names no reader. Otherwise the keys of `ssp_env.config.GameConfig`, all optional.

    ```python
    gymnasium.make("SearchProposer-v0", opponent="world-expert")
    ```

    ## Version History
    * v0: first version.
    """

    def __init__(
        self, *, opponent: AgentSpec | None = None, render_mode: str | None = None, **config: Unpack[GameConfig]
    ) -> None:
        """Build game and opponent, or take them from the process-wide cache."""
        super().__init__(*_parts(opponent=opponent, **config), render_mode=render_mode)


def _parts(*, opponent: AgentSpec | None = None, **config: Unpack[GameConfig]) -> tuple[ProposerScenario, Game]:
    game = build_game(config)
    return ProposerScenario(game, None if opponent is None else build_agent(opponent), sampling=Sampling()), game


make_vector = partial(make_text_vector, _parts)
