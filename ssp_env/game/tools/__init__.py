"""What a model may call. A new tool is one file here, one line in ``TOOLS`` and one in its contract test."""

from __future__ import annotations

from collections.abc import Callable

from ssp_env.game.tools.search import SearchTool
from ssp_env.protocols import Corpus, Retriever, Tool

ToolFactory = Callable[[Corpus, Retriever, int], Tool]

TOOLS: dict[str, ToolFactory] = {"search": lambda corpus, retriever, top_k: SearchTool(retriever, top_k=top_k)}

__all__ = ["TOOLS", "SearchTool", "ToolFactory"]
