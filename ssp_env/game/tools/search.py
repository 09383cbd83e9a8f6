"""The search tool: one query in, the best passages out (SSP appendix D: top 3)."""

from __future__ import annotations

from collections.abc import Sequence

from ssp_env.protocols import Retriever, ToolRequest
from ssp_env.tags import information, render_results
from ssp_env.types import ToolOutput


class SearchTool:
    """Shows the ``top_k`` best passages; each is cut, visibly, at ``max_passage_chars`` characters."""

    name = "search"

    def __init__(self, retriever: Retriever, *, top_k: int = 3, max_passage_chars: int = 4000) -> None:
        """Wrap a retriever.

        Raises:
            ValueError: If ``top_k`` is not between 1 and 100.
        """
        if not 1 <= top_k <= 100:
            raise ValueError(f"expected top_k between 1 and 100, got {top_k!r}")
        self._retriever = retriever
        self._top_k = top_k
        self._max_passage_chars = max_passage_chars

    @property
    def schema(self) -> dict[str, object]:
        """The JSON schema of a call."""
        parameters = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
        function = {"name": self.name, "description": "Search the encyclopedia.", "parameters": parameters}
        return {"type": "function", "function": function}

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolOutput]:
        """Answer all queries with one retrieval call; nothing found is said in words."""
        found = self._retriever.search([request.argument for request in requests], self._top_k)
        return [
            ToolOutput(
                information(render_results(results, self._max_passage_chars) or "No passage was found."), tuple(results)
            )
            for results in found
        ]
