"""Small deterministic stand-ins for models, retrievers and games."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ssp_env.errors import AgentError, RetrievalError
from ssp_env.game.game import Game
from ssp_env.game.judges import ExactJudge
from ssp_env.game.rules import GameRules
from ssp_env.game.tools import SearchTool
from ssp_env.protocols import Judge, Reader, Tool, ToolRequest
from ssp_env.tags import information, neutralise
from ssp_env.types import (
    Answer,
    Completion,
    Conversation,
    JudgeCase,
    Passage,
    Reading,
    ReadingCase,
    Sampling,
    SearchResult,
    Task,
    ToolCall,
    ToolOutput,
    Verdict,
)

PASSAGES = (
    Passage("p0", "Ada Finch", "The poet Ada Finch was born in Oxley."),
    Passage("p1", "Oxley", "Oxley is a town on the river Elm."),
    Passage("p2", "Elm", "The river Elm flows into Lake Tarn."),
    Passage("p3", "Bo Reed", "The painter Bo Reed was born in Marlow."),
    Passage("p4", "Marlow", "Marlow is a town on the river Ash."),
    Passage("p5", "Ash", "The river Ash flows into Lake Mere."),
    Passage("p6", "Zinc", "Zinc is a metal with the symbol Zn."),
    Passage("p7", "Chess", "Chess is a board game for two players."),
)
QUESTION = "Into which lake flows the river that passes through the birthplace of Ada Finch?"
SEED = Answer("s0", "Lake Tarn", aliases=("Tarn Lake",), n_searches=2)


def last_user(conversation: Conversation) -> str:
    """The text that the model reacts to: the last observation, or the prompt."""
    return conversation.messages()[-1]["content"]


class ScriptedAgent:
    """Says the n-th reply in the n-th turn of every conversation (the last one for ever)."""

    def __init__(self, replies: Sequence[str]) -> None:
        self.replies = tuple(replies)
        self.calls: list[tuple[list[Conversation], Sampling]] = []

    def complete(self, conversations: Sequence[Conversation], *, sampling: Sampling) -> list[Completion]:
        self.calls.append((list(conversations), sampling))
        last = len(self.replies) - 1
        return [Completion(self.replies[min(len(c.turns), last)]) for c in conversations]


class FunctionAgent:
    """Says what a function makes of the conversation."""

    def __init__(self, reply: Callable[[Conversation], str]) -> None:
        self.reply = reply
        self.calls: list[tuple[list[Conversation], Sampling]] = []

    def complete(self, conversations: Sequence[Conversation], *, sampling: Sampling) -> list[Completion]:
        self.calls.append((list(conversations), sampling))
        return [Completion(self.reply(c)) for c in conversations]


class BrokenAgent:
    """Is down."""

    def complete(self, conversations: Sequence[Conversation], *, sampling: Sampling) -> list[Completion]:
        raise AgentError("the agent is down")


class FakeCorpus:
    """Holds passages in a tuple."""

    def __init__(self, passages: Sequence[Passage] = PASSAGES, fingerprint: str = "fake") -> None:
        self.passages = tuple(passages)
        self._fingerprint = fingerprint

    @property
    def fingerprint(self) -> str:
        return self._fingerprint

    def __len__(self) -> int:
        return len(self.passages)

    def at(self, position: int) -> Passage:
        if not 0 <= position < len(self.passages):
            raise IndexError(position)
        return self.passages[position]

    def get(self, passage_id: str) -> Passage:
        return {p.id: p for p in self.passages}[passage_id]


class FakeRetriever:
    """Ranks passages by the number of query words in title and text; ties by id."""

    def __init__(self, passages: Sequence[Passage] = PASSAGES) -> None:
        self.passages = tuple(passages)
        self.batches: list[list[str]] = []

    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        self.batches.append(list(queries))
        return [self._best(query, k) for query in queries]

    def _best(self, query: str, k: int) -> list[SearchResult]:
        words = set(query.lower().split())
        scored = [(len(words & set(f"{p.title} {p.text}".lower().replace(".", "").split())), p) for p in self.passages]
        best = sorted((item for item in scored if item[0]), key=lambda item: (-item[0], item[1].id))[:k]
        return [SearchResult(passage, float(score), rank) for rank, (score, passage) in enumerate(best)]


class BrokenRetriever:
    """Is down for queries that contain a word (for all when the word is empty)."""

    def __init__(self, word: str = "") -> None:
        self.word = word

    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        if any(self.word in query for query in queries):
            raise RetrievalError("the retriever is down")
        return FakeRetriever().search(queries, k)


class NoteTool:
    """Shows all notes of the episode so far; a tool with a memory."""

    name = "note"
    schema: dict[str, object] = {
        "type": "function",
        "function": {
            "name": "note",
            "description": "Write something down.",
            "parameters": {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
        },
    }

    def __init__(self) -> None:
        self.n_batches = 0

    def run(self, requests: Sequence[ToolRequest]) -> list[ToolOutput]:
        self.n_batches += 1
        return [ToolOutput(information(neutralise(" | ".join(self._notes(request))))) for request in requests]

    def _notes(self, request: ToolRequest) -> list[str]:
        made = [turn.action for turn in request.conversation.turns if turn.observation]
        return [a.argument for a in made if isinstance(a, ToolCall) and a.tool == self.name] + [request.argument]


def ask(tool: Tool, *arguments: str) -> list[ToolOutput]:
    """Call a tool in new episodes, once for each argument, in one batch."""
    return tool.run([ToolRequest(argument, Conversation(())) for argument in arguments])


class BrokenJudge:
    """Never reaches a verdict."""

    def judge(self, cases: Sequence[JudgeCase]) -> list[Verdict]:
        return [Verdict("error", "model", "the judge is down") for _ in cases]


@dataclass
class FixedReader:
    """Gives one response, or one error, to every case."""

    response: str = "Lake Tarn"
    error: str = ""

    def read(self, cases: Sequence[ReadingCase]) -> list[Reading]:
        return [Reading(self.response, self.error) for _ in cases]


def tiny_game(
    rules: GameRules | None = None,
    *,
    judge: Judge | None = None,
    reader: Reader | None = None,
    retriever: FakeRetriever | BrokenRetriever | None = None,
    fingerprint: str = "fake",
    passages: Sequence[Passage] = PASSAGES,
) -> Game:
    """A game over a handful of passages with the paper's prompts; ``reader`` None lets the policy read."""
    rules = rules or GameRules()
    retriever = retriever or FakeRetriever(passages)
    tools: Mapping[str, SearchTool] = {"search": SearchTool(retriever, top_k=rules.top_k)}
    return Game(
        corpus=FakeCorpus(passages, fingerprint),
        tools=tools,
        judge=judge or ExactJudge(),
        reader=reader,
        rules=rules,
        prompt_set="paper",
        answers=(SEED,),
        tasks=(Task("t0", QUESTION, ("Lake Tarn",)),),
        retriever=retriever,
    )


PROPOSAL = (
    "<search>river Elm Lake Tarn</search>",
    "<search>town Oxley poet Finch</search>",
    f"<question>{QUESTION}</question>",
)
