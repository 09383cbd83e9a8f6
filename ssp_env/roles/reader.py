"""The reader: answers a question from given passages alone (the RAG answerer of SSP section 3)."""

from __future__ import annotations

from collections.abc import Mapping

from ssp_env.grammar import render_results
from ssp_env.prompts import fill
from ssp_env.protocols import Tool
from ssp_env.types import Item, Message, ReadingCase, RoleName, SearchResult

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
