"""The records that flow between the parts of the library: those of an episode, then those of a round.

All are frozen and slotted and hold tuples, never lists, so that a record can be shared, hashed and logged. Only the
standard library is used here. The game is Search Self-Play (arXiv 2510.18821, section 3).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypedDict

RoleName = str
Status = Literal["running", "finished", "truncated", "failed"]
Finish = Literal["stop", "eos", "length", "context"]
InvalidReason = Literal["no_action", "unclosed", "empty_argument", "not_allowed", "too_long"]


class Message(TypedDict):
    """One chat message in the wire format that chat templates and endpoints share."""

    role: str
    content: str


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrievable unit of text."""

    id: str
    title: str
    text: str


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page; the lead has an empty heading and level 1, headings below it count from 2."""

    heading: str
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page; ``links`` are the titles of other pages, each once."""

    id: str
    title: str
    sections: tuple[Section, ...]
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SearchResult:
    """A passage found for a query; ``rank`` counts from 0 and a higher ``score`` is always better."""

    passage: Passage
    score: float
    rank: int


@dataclass(frozen=True, slots=True)
class Answer:
    """What a proposer starts from: a known answer and the number of searches demanded of the question."""

    id: str
    text: str
    aliases: tuple[str, ...] = ()
    n_searches: int = 2

    @property
    def accepted(self) -> tuple[str, ...]:
        """The answer followed by its aliases."""
        return (self.text, *self.aliases)


@dataclass(frozen=True, slots=True)
class Task:
    """A question for a solver with every accepted answer; ``kind`` groups tasks in reports (``"2-hop"``)."""

    id: str
    question: str
    answers: tuple[str, ...]
    kind: str = ""


@dataclass(frozen=True, slots=True)
class ReadingCase:
    """A question for the given passages alone; ``ask_for_all`` wants every answer, separated by semicolons."""

    question: str
    passages: tuple[Passage, ...]
    ask_for_all: bool = False


@dataclass(frozen=True, slots=True)
class Sampling:
    """How a completion is to be sampled.

    ``temperature`` 0 is greedy. ``stop`` strings end the completion and stay in its text. ``seed`` None leaves the
    choice to the agent; the same seed on the same conversations gives the same completions.
    """

    max_tokens: int = 512
    temperature: float = 1.0
    stop: tuple[str, ...] = ()
    seed: int | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """What an agent returned for one conversation.

    ``prompt_ids`` are the ids of the whole context it was sampled from, ``token_ids`` the sampled ids and
    ``logprobs`` their log-probabilities (same length, nats). All three are empty for agents without token access.
    ``finish`` tells why it ended: a stop string, the end-of-sequence token, ``max_tokens``, or a context that left
    no room for a single token (then the text is empty).
    """

    text: str
    finish: Finish = "stop"
    prompt_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    logprobs: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ToolCall:
    """The model asks for a tool."""

    tool: str
    argument: str


@dataclass(frozen=True, slots=True)
class Final:
    """The model ends its episode with this text (a question or an answer, whitespace stripped)."""

    text: str


@dataclass(frozen=True, slots=True)
class Invalid:
    """The model wrote nothing that counts as an action."""

    reason: InvalidReason


Action = ToolCall | Final | Invalid
Item = Answer | Task | ReadingCase


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """What a tool gives back: the text shown to the model, and the passages it revealed (the evidence log)."""

    text: str
    results: tuple[SearchResult, ...] = ()


@dataclass(frozen=True, slots=True)
class Turn:
    """One completion, its parsed action, what the action found, and the text shown in reply ("" when final).

    ``dropped`` is what the model wrote after the action and is not shown again; with token ids nothing is dropped.
    """

    completion: Completion
    action: Action
    results: tuple[SearchResult, ...] = ()
    observation: str = ""
    dropped: str = ""

    @property
    def written(self) -> str:
        """All that the model wrote."""
        return self.completion.text + self.dropped


@dataclass(frozen=True, slots=True)
class Conversation:
    """A prompt and the turns so far: all that an agent gets to see."""

    prompt: tuple[Message, ...]
    turns: tuple[Turn, ...] = ()

    def messages(self) -> list[Message]:
        """Return the chat wire format: prompt, then assistant and user (observation) messages in turn."""
        out = [Message(role=m["role"], content=m["content"]) for m in self.prompt]
        for turn in self.turns:
            out.append(Message(role="assistant", content=turn.completion.text))
            if turn.observation:
                out.append(Message(role="user", content=turn.observation))
        return out

    def text(self) -> str:
        """Return the contents of all messages, with empty lines between, for what knows no chat."""
        return "\n\n".join(message["content"] for message in self.messages())


@dataclass(frozen=True, slots=True)
class Trajectory:
    """The record of one episode.

    ``reward`` is a number when ``status`` is finished or truncated and has been scored, and None while unscored or
    when our side failed (``error`` then says how). ``truncation`` names the limit that ended a truncated episode.
    """

    role: RoleName
    item: Item
    conversation: Conversation
    status: Status
    truncation: str = ""
    reward: float | None = None
    error: str = ""

    @property
    def final(self) -> str | None:
        """The text of the closing action, or None when there was none."""
        turns = self.conversation.turns
        if turns and isinstance(turns[-1].action, Final):
            return turns[-1].action.text
        return None

    @property
    def queries(self) -> tuple[str, ...]:
        """The arguments of all executed ``search`` calls, in order."""
        return tuple(
            turn.action.argument
            for turn in self.conversation.turns
            if isinstance(turn.action, ToolCall) and turn.action.tool == "search" and turn.observation
        )

    @property
    def evidence(self) -> tuple[Passage, ...]:
        """The distinct passages that tools revealed, in order of first sight; from the log, never from text."""
        seen: dict[str, Passage] = {}
        for turn in self.conversation.turns:
            for result in turn.results:
                seen.setdefault(result.passage.id, result.passage)
        return tuple(seen.values())


@dataclass(frozen=True, slots=True)
class JudgeCase:
    """One response to be compared with the accepted answers; build it with keywords only."""

    question: str
    answers: tuple[str, ...]
    response: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the judge said. ``error`` means that the judge failed: nobody may be paid on it.

    ``method`` names what decided (``"exact"``, ``"unicode"``, ``"model"``, ``"empty"``, ...).
    """

    label: Literal["correct", "wrong", "error"]
    method: str
    detail: str = ""

    @property
    def correct(self) -> bool:
        """Whether the label is ``correct``."""
        return self.label == "correct"


@dataclass(frozen=True, slots=True)
class Reading:
    """What a reader answered; a non-empty ``error`` means that the reader failed on our side."""

    response: str
    error: str = ""


Reason = Literal[
    "ok", "no_question", "too_short", "too_long", "answer_leak", "no_evidence", "too_few_searches", "repeated_search",
    "answer_in_query", "wrong_search_count", "not_answerable", "closed_book", "not_multi_hop", "not_unique", "failed",
]  # fmt: skip
ReadingKind = Literal["gate", "closed_book", "chain", "unique", "ask_for_all"]


@dataclass(frozen=True, slots=True)
class JudgedReading:
    """A reading of a proposed question by the gate or a probe: what the reader saw, in order, and what came of it.

    There is one verdict per answer that the response names (several under ``ask_for_all`` only), none if the reader
    failed.
    """

    kind: ReadingKind
    case: ReadingCase
    reading: Reading
    verdicts: tuple[Verdict, ...] = ()


@dataclass(frozen=True, slots=True)
class Validation:
    """Whether a proposed question may be used, and the first reason why not.

    ``failed`` is our own failure (reader or judge outage): the question is not used and its proposer is not paid.
    ``response`` and ``error`` are of the reading that decided, the gate's if it is accepted. ``readings`` are all that
    were made, the gate's first; two validations are equal if they decide alike.
    """

    reason: Reason
    response: str = ""
    error: str = ""
    readings: tuple[JudgedReading, ...] = field(default=(), compare=False)

    @property
    def ok(self) -> bool:
        """Whether the question is accepted."""
        return self.reason == "ok"


@dataclass(frozen=True, slots=True)
class Round:
    """One unit of self-play: a proposal, its validation, and the solves of the task in its slot.

    ``origin`` tells where the slot's task came from: the proposal itself, the pool, a content-free dummy, or none.
    ``success_rate`` is the share of scored solves that are correct, None when none was scored.
    ``proposer_reward`` is None when our side failed. ``corpus`` and ``task_corpus`` are the fingerprints of the corpora
    that the question was proposed over and the task is solved over: a reused task may be of another one.
    """

    answer: Answer
    proposal: Trajectory
    validation: Validation
    origin: Literal["fresh", "reused", "dummy", "none"] = "none"
    task: Task | None = None
    solves: tuple[Trajectory, ...] = ()
    verdicts: tuple[Verdict, ...] = ()
    success_rate: float | None = None
    proposer_reward: float | None = None
    corpus: str = ""
    task_corpus: str = ""
