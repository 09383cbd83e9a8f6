"""A game: the parts that all episodes over one corpus share; one episode of one role; and the step that moves many.

A game is built from plain JSON by ``ssp_env.registry.build_game``. It holds no episode state, so one game serves any
number of environments, vector environments and self-play rounds in a process.

Environments, vector environments and self-play rounds all move episodes with ``advance``: parse every completion,
answer all calls of one tool in a single batch, and only then write. A failure of ours therefore leaves an episode as it
was. Scoring is not done here. Turn logic after SSP section 3 and appendix D.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ssp_env.errors import SSPError
from ssp_env.game.batching import in_groups
from ssp_env.game.roles import ROLES, Role
from ssp_env.game.rules import GameRules
from ssp_env.protocols import Corpus, Judge, Reader, Retriever, Tool, ToolRequest, check_completions
from ssp_env.tags import closing_tags, explain_invalid, neutralise_output, parse_action
from ssp_env.types import (
    Action,
    Answer,
    Completion,
    Conversation,
    Final,
    Invalid,
    Item,
    Message,
    RoleName,
    Status,
    Task,
    ToolCall,
    ToolOutput,
    Trajectory,
    Turn,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """What ends an episode that the model does not end.

    Attributes:
        max_turns: Completions per episode; a tool call in the last one is not executed.
        max_action_chars: Longest completion that is read, in characters.
        end_on_invalid: Whether a completion without an action ends the episode (as in the SSP code) or is answered.
    """

    max_turns: int = 10
    max_action_chars: int = 32_768
    end_on_invalid: bool = False

    def __post_init__(self) -> None:
        """Check the limits."""
        if self.max_turns < 1 or self.max_action_chars < 1:
            raise ValueError(f"expected positive limits, got {self!r}")


class Episode:
    """The state of one role's episode: prompt, turns so far and status."""

    def __init__(self, role: Role, item: Item, *, prompt_set: str, tools: Mapping[str, Tool], limits: Limits) -> None:
        """Open an episode; the prompt is written at once."""
        self.role = role
        self.item = item
        self.tools: dict[str, Tool] = dict(tools) if role.uses_tools else {}
        self.limits = limits if role.uses_tools else replace(limits, max_turns=1)
        self.status: Status = "running"
        self.truncation = ""
        self.error = ""
        self._prompt: tuple[Message, ...] = role.prompt(item, prompt_set=prompt_set, tools=self.tools)
        self._turns: tuple[Turn, ...] = ()

    @property
    def running(self) -> bool:
        """Whether the episode awaits a completion."""
        return self.status == "running"

    @property
    def conversation(self) -> Conversation:
        """All that the agent may see."""
        return Conversation(self._prompt, self._turns)

    @property
    def stop(self) -> tuple[str, ...]:
        """The strings at which a sampler should stop."""
        return closing_tags(self.tools, self.role.final_tag)

    @property
    def turns_left(self) -> int:
        """Completions that may still follow."""
        return self.limits.max_turns - len(self._turns)

    def parse(self, completion: Completion) -> Turn:
        """Return the turn that a completion opens: without token ids, text after the action is dropped from it."""
        text = completion.text
        action, end = parse_action(
            text, tools=self.tools, final=self.role.final_tag, max_chars=self.limits.max_action_chars
        )
        if completion.token_ids or end == len(text):
            return Turn(completion, action)
        return Turn(replace(completion, text=text[:end]), action, dropped=text[end:])

    def executes(self, action: Action) -> bool:
        """Whether this action would run a tool now (never in the last turn)."""
        return isinstance(action, ToolCall) and self.turns_left > 1

    def push(self, turn: Turn, output: ToolOutput | None) -> None:
        """Append a turn with what its action found, and settle the status."""
        action = turn.action
        last = self.turns_left <= 1
        observation = neutralise_output(output.text, (*self.tools, self.role.final_tag)) if output else ""
        if turn.completion.finish == "context":
            self.status, self.truncation = "truncated", "context_full"
        elif isinstance(action, Final):
            self.status = "finished"
        elif isinstance(action, Invalid) and self.limits.end_on_invalid:
            self.status, self.truncation = "truncated", "invalid_action"
        elif last:
            self.status, self.truncation = "truncated", "turn_limit"
        elif isinstance(action, Invalid):
            observation = explain_invalid(action, tools=self.tools, final=self.role.final_tag)
        self._turns += (replace(turn, results=output.results if output else (), observation=observation),)

    def fail(self, error: str) -> None:
        """Mark the episode as failed on our side; it will never be scored."""
        self.status, self.error = "failed", error

    def record(self, *, reward: float | None = None) -> Trajectory:
        """Return the frozen record of the episode so far."""
        if reward is not None and self.status not in ("finished", "truncated"):
            raise ValueError(f"expected an ended episode to be scored, got status {self.status!r}")
        return Trajectory(
            self.role.name, self.item, self.conversation, self.status, self.truncation, reward, self.error
        )


@dataclass(frozen=True, slots=True)
class Game:
    """What it takes to play.

    Attributes:
        corpus: Where the passages are.
        tools: The tools of proposer and solver by name.
        judge: Compares responses with answers.
        reader: Answers the validator's question; None when the policy itself is the reader.
        rules: The rules.
        prompt_set: Which prompts are shown.
        answers: The answers that proposers start from.
        tasks: The questions of stand-alone solver episodes.
        retriever: Finds passages for rules that look for second answers or mix in bundles; other rules do without.
    """

    corpus: Corpus
    tools: Mapping[str, Tool]
    judge: Judge
    reader: Reader | None
    rules: GameRules
    prompt_set: str
    answers: Sequence[Answer]
    tasks: Sequence[Task]
    retriever: Retriever | None = None

    def episode(self, role: RoleName, item: Item) -> Episode:
        """Open an episode of a role."""
        limits = Limits(max_turns=self.rules.max_turns, end_on_invalid=self.rules.end_on_invalid)
        return Episode(ROLES[role], item, prompt_set=self.prompt_set, tools=self.tools, limits=limits)


def advance(episodes: Sequence[Episode], completions: Sequence[Completion], *, isolate: bool = False) -> None:
    """Move running episodes by one completion each, running each tool once for all its calls.

    Args:
        episodes: Distinct running episodes.
        completions: One per episode.
        isolate: False: a tool's failure is raised and no episode has changed, so the step can be repeated.
            True: only the episodes that called the broken tool are marked failed.

    Raises:
        ValueError: If an episode is not running, or the counts differ.
        SSPError: If a tool broke and ``isolate`` is False.
    """
    check_completions(completions, len(episodes))
    for episode in episodes:
        if not episode.running:
            raise ValueError(f"expected running episodes, got status {episode.status!r}; reset it first")
    parsed = [episode.parse(completion) for episode, completion in zip(episodes, completions, strict=True)]
    calls = {
        i: (episode.tools[turn.action.tool], ToolRequest(turn.action.argument, episode.conversation))
        for i, (episode, turn) in enumerate(zip(episodes, parsed, strict=True))
        if isinstance(turn.action, ToolCall) and episode.executes(turn.action)
    }
    found = dict(zip(calls, _run_tools(list(calls.values()), isolate=isolate), strict=True))
    for i, (episode, turn) in enumerate(zip(episodes, parsed, strict=True)):
        output = found.get(i)
        if isinstance(output, str):
            episode.fail(output)
        else:
            episode.push(turn, output)


def _run_tools(calls: Sequence[tuple[Tool, ToolRequest]], *, isolate: bool) -> list[ToolOutput | str]:
    """Return what each call gave, or how its tool broke."""

    def run(members: list[tuple[Tool, ToolRequest]]) -> Sequence[ToolOutput | str]:
        try:
            return members[0][0].run([request for _, request in members])
        except SSPError as error:
            if not isolate:
                raise
            return [f"{type(error).__name__}: {error}"] * len(members)

    return in_groups(calls, lambda call: id(call[0]), run)
