"""The seams of the library: one or two methods each, batched only (a single call is a batch of one)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from ssp_env.types import (
    Completion,
    Conversation,
    JudgeCase,
    Passage,
    Reading,
    ReadingCase,
    Sampling,
    SearchResult,
    ToolOutput,
    Verdict,
)


@runtime_checkable
class Agent(Protocol):
    """Anything that completes text: a policy, a judge model, a reader, a script."""

    def complete(self, conversations: Sequence[Conversation], *, sampling: Sampling) -> list[Completion]:
        """Return one completion per conversation, in order.

        Raises:
            AgentError: If the batch could not be completed; then no completion of it exists.
        """
        ...


def check_completions(completions: Sequence[Completion], n_conversations: int) -> None:
    """Refuse what breaks the promise of ``Agent.complete``; raises ``ValueError`` when the counts differ."""
    if len(completions) != n_conversations:
        got = f"{len(completions)} for {n_conversations}"
        raise ValueError(f"expected one completion for each conversation, got {got}; correct the agent")


AgentOf = Callable[[object], Agent]
"""Makes the agent that a configuration describes."""


@runtime_checkable
class Corpus(Protocol):
    """A read-only set of passages with random access that need not fit in memory.

    Positions ``0 .. len - 1`` follow the order of the source files.
    """

    @property
    def fingerprint(self) -> str:
        """Hex digest of ids, titles and texts in order; two corpora with one fingerprint are the same."""
        ...

    @property
    def index_dir(self) -> Path | None:
        """Folder for what is derived from this corpus, such as indexes; None keeps all of it in memory."""
        ...

    def __len__(self) -> int:
        """Return the number of passages."""
        ...

    def at(self, position: int) -> Passage:
        """Return the passage at a position.

        Raises:
            IndexError: If the position is outside the range.
            CorpusError: If it lies in a file that was changed after it was opened.
        """
        ...

    def get(self, passage_id: str) -> Passage:
        """Return the passage with this id; raises ``KeyError`` when there is none."""
        ...


@runtime_checkable
class Retriever(Protocol):
    """Finds passages for queries."""

    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        """Return the best passages for each query, best first.

        A list may be shorter than ``k`` or empty and is never padded. Equal scores are ordered by passage id. Any
        string is a valid query.

        Raises:
            TypeError: If ``queries`` is a single string.
            ValueError: If ``k`` is not positive.
            RetrievalError: If the retriever cannot answer: an outage, an index that cannot be read, vectors or scores
                that are no finite numbers of the expected shape.
        """
        ...


@runtime_checkable
class Embedder(Protocol):
    """Turns texts into vectors."""

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return unit-length vectors, float32, shape ``(len(texts), d)``."""
        ...


@dataclass(frozen=True, slots=True)
class ToolRequest:
    """One call of a tool: its argument, and all that its episode held before the completion that made the call."""

    argument: str
    conversation: Conversation


@runtime_checkable
class Tool(Protocol):
    """What a model may call by writing ``<name>argument</name>``.

    One tool serves all episodes of a process, so it keeps nothing of an episode itself. What it needs to remember it
    reads from the request: earlier calls, their answers and passages are turns of the conversation. A tool with live
    state, such as an interpreter, may keep it under ``conversation.turns``, which is hashable, and rebuilds it from
    there when it is missing: a step may be repeated after a failure, and its process may be another one.
    """

    @property
    def name(self) -> str:
        """The tag and name, lower-case letters only."""
        ...

    @property
    def schema(self) -> dict[str, object]:
        """The JSON schema of the call in the chat function-calling format: a description and one text parameter.

        Prompts describe the tool with it; see ``ssp_env.game.prompts``.
        """
        ...

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolOutput]:
        """Answer all calls of one step at once, in order. A bad argument is answered with text, not raised.

        The answer depends on the request alone. Its text is an ``<information>`` block.

        Raises:
            SSPError: If the tool breaks on our side; then no call of the batch took effect.
        """
        ...


@runtime_checkable
class Judge(Protocol):
    """Compares responses with accepted answers."""

    def judge(self, cases: Sequence[JudgeCase]) -> list[Verdict]:
        """Return one verdict per case, in order. An outage is the verdict ``error``, never an exception."""
        ...


@runtime_checkable
class Reader(Protocol):
    """Answers questions from given passages alone (the RAG answerer of the validator)."""

    def read(self, cases: Sequence[ReadingCase]) -> list[Reading]:
        """Return one reading per case, in order. An outage is a reading with ``error`` set."""
        ...
