"""Agents without a model: a list of replies, or a function from conversation to reply.

For tests, demonstrations and scripted baselines. They know no tokens: ``max_tokens``, ``temperature`` and ``seed`` are
ignored, and no token ids are returned. Stop strings do end a reply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ssp_agents.stopping import cut_at_stop
from ssp_env.errors import AgentError
from ssp_env.types import Completion, Conversation, Sampling


class FunctionAgent:
    """Replies with what a function makes of the conversation.

    It makes any program an agent, also as a decorator; a configuration then names it by ``"module:reply"``::

        @FunctionAgent
        def reply(conversation):
            return my_program(conversation.text())
    """

    def __init__(self, function: Callable[[Conversation], str]) -> None:
        """Take the function; what it raises is not caught."""
        self._function = function

    def complete(self, conversations: Sequence[Conversation], *, sampling: Sampling) -> list[Completion]:
        """Return one completion per conversation, in order."""
        return [_completion(self._function(conversation), sampling) for conversation in conversations]


class ReplayAgent:
    """Hands out given replies in order, one per conversation, whatever is asked."""

    def __init__(self, replies: Iterable[str]) -> None:
        """Take the replies; each is used once."""
        self._replies = list(replies)
        self._used = 0

    def complete(self, conversations: Sequence[Conversation], *, sampling: Sampling) -> list[Completion]:
        """Return the next replies.

        Raises:
            AgentError: If fewer replies are left than conversations are given; then none is used up.
        """
        end = self._used + len(conversations)
        if end > len(self._replies):
            raise AgentError(
                f"expected at most {len(self._replies) - self._used} conversations, which is the number of replies "
                f"left, got {len(conversations)}; give more replies"
            )
        replies, self._used = self._replies[self._used : end], end
        return [_completion(reply, sampling) for reply in replies]


def _completion(reply: str, sampling: Sampling) -> Completion:
    text, stopped = cut_at_stop(reply, sampling.stop)
    return Completion(text, finish="stop" if stopped else "eos")
