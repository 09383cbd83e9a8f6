"""The proposer: gets an answer and a number of searches, writes a question (SSP section 3, appendix D)."""

from __future__ import annotations

from collections.abc import Mapping

from ssp_env.prompts import fill
from ssp_env.protocols import Tool
from ssp_env.types import Item, Message, RoleName, Seed


class Proposer:
    """Searches from a known answer and ends with ``<question>``."""

    name: RoleName = "proposer"
    final_tag = "question"
    uses_tools = True

    def prompt(self, item: Item, *, prompt_set: str, tools: Mapping[str, Tool]) -> tuple[Message, ...]:
        """Return the messages that give answer and demanded number of searches."""
        if not isinstance(item, Seed):
            raise TypeError(f"expected a Seed for the proposer, got {type(item).__name__}")
        return fill(
            prompt_set,
            self.name,
            {"answer": item.answer, "n_searches": str(item.n_searches)},
            tools=tools,
            final=self.final_tag,
        )
