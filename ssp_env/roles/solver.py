"""The solver: gets a question only, searches, and answers (SSP section 3; prompt in the manner of Search-R1)."""

from __future__ import annotations

from collections.abc import Mapping

from ssp_env.prompts import fill
from ssp_env.protocols import Tool
from ssp_env.types import Item, Message, RoleName, Task


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
