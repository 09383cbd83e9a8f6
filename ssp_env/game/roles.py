"""The parts that a policy can play: proposer, solver and reader (SSP section 3, appendix D).

A role is one record in ``ROLES``: its name, the tag that ends its episode, and what its prompt shows of an item.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from ssp_env.game.prompts import fill
from ssp_env.protocols import Tool
from ssp_env.tags import render_results
from ssp_env.types import Answer, Item, Message, ReadingCase, RoleName, SearchResult, Task

MAX_PASSAGE_CHARS = 4000


@dataclass(frozen=True, slots=True)
class Role:
    """One part in the game.

    Attributes:
        name: The role's name, also that of its prompt template.
        final_tag: The tag whose block ends the episode.
        opens_with: What an episode starts from.
        shows: What the prompt shows of it, by placeholder.
        uses_tools: Whether tools may be called; a role without tools has a single turn.
    """

    name: RoleName
    final_tag: str
    opens_with: type[Item]
    shows: Callable[..., Mapping[str, str]]
    uses_tools: bool = True

    def prompt(self, item: Item, *, prompt_set: str, tools: Mapping[str, Tool]) -> tuple[Message, ...]:
        """Return the opening messages for an item, which tell of the tools.

        Raises:
            TypeError: If the item is not of this role's kind.
            ConfigError: If the prompt set cannot tell of the tools.
        """
        if not isinstance(item, self.opens_with):
            wanted = self.opens_with.__name__
            article = "an" if wanted[0] in "AEIOU" else "a"
            raise TypeError(f"expected {article} {wanted} for the {self.name}, got {type(item).__name__}")
        template = "reader_all" if isinstance(item, ReadingCase) and item.ask_for_all else self.name
        return fill(prompt_set, template, self.shows(item), tools=tools, final=self.final_tag)


def _of_answer(answer: Answer) -> dict[str, str]:
    return {"answer": answer.text, "n_searches": str(answer.n_searches)}


def _of_case(case: ReadingCase) -> dict[str, str]:
    results = [SearchResult(passage, 0.0, rank) for rank, passage in enumerate(case.passages)]
    return {"question": case.question, "passages": render_results(results, MAX_PASSAGE_CHARS)}


def _of_task(task: Task) -> dict[str, str]:
    return {"question": task.question}


ROLES: dict[str, Role] = {
    "proposer": Role("proposer", "question", Answer, _of_answer),
    "reader": Role("reader", "answer", ReadingCase, _of_case, uses_tools=False),
    "solver": Role("solver", "answer", Task, _of_task),
}
