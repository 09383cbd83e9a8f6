"""A game: the constructed parts that all episodes over one corpus share.

Built from plain JSON by ``ssp_env.registry.build_game``; holds no episode state, so one game serves any number of
environments, vector environments and self-play rounds in a process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ssp_env.game.episode import Episode, Limits
from ssp_env.game.roles import ROLES
from ssp_env.game.rules import GameRules
from ssp_env.protocols import Corpus, Judge, Reader, Retriever, Tool
from ssp_env.types import Answer, Item, RoleName, Task


@dataclass(frozen=True, slots=True)
class Game:
    """What it takes to play.

    Attributes:
        corpus: Where the passages are.
        tools: The tools of proposer and solver by name.
        judge: Compares responses with answers.
        reader: Answers the validator's question; None when the policy itself is the reader.
        rules: The rules.
        prompt_set: Which prompts are shown.
        answers: The answers that proposers start from.
        tasks: The questions of stand-alone solver episodes.
        retriever: Finds passages for rules that look for second answers or mix in bundles; other rules do without.
    """

    corpus: Corpus
    tools: Mapping[str, Tool]
    judge: Judge
    reader: Reader | None
    rules: GameRules
    prompt_set: str
    answers: Sequence[Answer]
    tasks: Sequence[Task]
    retriever: Retriever | None = None

    def episode(self, role: RoleName, item: Item) -> Episode:
        """Open an episode of a role."""
        limits = Limits(max_turns=self.rules.max_turns, end_on_invalid=self.rules.end_on_invalid)
        return Episode(ROLES[role], item, prompt_set=self.prompt_set, tools=self.tools, limits=limits)
