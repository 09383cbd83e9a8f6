"""The parts that a policy can play: proposer, solver and reader (SSP section 3, appendix D).

A role has a name, the tag that ends its episode, and a prompt. A new role is one class here and one line in ``ROLES``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from ssp_env.game.prompts import fill
from ssp_env.protocols import Tool
from ssp_env.tags import render_results
from ssp_env.types import Answer, Item, Message, ReadingCase, RoleName, SearchResult, Task


class Role(Protocol):
    """One part in the game; stateless."""

    @property
    def name(self) -> RoleName:
        """The role's name, also that of its prompt template."""
        ...

    @property
    def final_tag(self) -> str:
        """The tag whose block ends the episode."""
        ...

    @property
    def uses_tools(self) -> bool:
        """Whether tools may be called; a role without tools has a single turn."""
        ...

    def prompt(self, item: Item, *, prompt_set: str, tools: Mapping[str, Tool]) -> tuple[Message, ...]:
        """Return the opening messages for an answer, a task or a reading case, and tell of the tools.

        Raises:
            TypeError: If the item is not of this role's kind.
            ConfigError: If the prompt set cannot tell of the tools.
        """
        ...


class Proposer:
    """Searches from a known answer and ends with ``<question>``."""

    name: RoleName = "proposer"
    final_tag = "question"
    uses_tools = True

    def prompt(self, item: Item, *, prompt_set: str, tools: Mapping[str, Tool]) -> tuple[Message, ...]:
        """Return the messages that give answer and demanded number of searches."""
        if not isinstance(item, Answer):
            raise TypeError(f"expected an Answer for the proposer, got {type(item).__name__}")
        return fill(
            prompt_set,
            self.name,
            {"answer": item.text, "n_searches": str(item.n_searches)},
            tools=tools,
            final=self.final_tag,
        )


MAX_PASSAGE_CHARS = 4000


class ReaderRole:
    """Reads passages, may not search, and ends with ``<answer>`` in its single turn."""

    name: RoleName = "reader"
    final_tag = "answer"
    uses_tools = False

    def prompt(self, item: Item, *, prompt_set: str, tools: Mapping[str, Tool]) -> tuple[Message, ...]:
        """Return the messages that show the passages, in the given order, and ask the question."""
        if not isinstance(item, ReadingCase):
            raise TypeError(f"expected a ReadingCase for the reader, got {type(item).__name__}")
        results = [SearchResult(passage, 0.0, rank) for rank, passage in enumerate(item.passages)]
        passages = render_results(results, MAX_PASSAGE_CHARS)
        template = "reader_all" if item.ask_for_all else self.name
        return fill(
            prompt_set, template, {"question": item.question, "passages": passages}, tools=tools, final=self.final_tag
        )


class Solver:
    """Searches for a question and ends with ``<answer>``."""

    name: RoleName = "solver"
    final_tag = "answer"
    uses_tools = True

    def prompt(self, item: Item, *, prompt_set: str, tools: Mapping[str, Tool]) -> tuple[Message, ...]:
        """Return the messages that give the question and nothing else of the task."""
        if not isinstance(item, Task):
            raise TypeError(f"expected a Task for the solver, got {type(item).__name__}")
        return fill(prompt_set, self.name, {"question": item.question}, tools=tools, final=self.final_tag)


ROLES: dict[str, Role] = {"proposer": Proposer(), "reader": ReaderRole(), "solver": Solver()}
