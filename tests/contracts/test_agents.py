"""What every agent has to do. A new agent is one more line in ``AGENTS``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from ssp_agents.openai_api import OpenAIAgent
from ssp_agents.scripted import FunctionAgent, ReplayAgent
from ssp_env.errors import AgentError
from ssp_env.protocols import Agent
from ssp_env.types import Conversation, Message, Sampling
from tests.endpoint import Reply, Request, chat, serve

WORDS = ("alpha", "beta", "gamma", "delta", "epsilon")
STOP = ("</search>", "</answer>")
GREEDY = Sampling(max_tokens=16, temperature=0.0, stop=STOP)


def asked(word: str) -> Conversation:
    return Conversation((Message(role="user", content=word),))


def reply_to(word: str) -> str:
    return f"<answer>{word}</answer> and more"


def function_agent(_: ExitStack) -> Agent:
    return FunctionAgent(lambda conversation: reply_to(conversation.prompt[-1]["content"]))


def replay_agent(_: ExitStack) -> Agent:
    return ReplayAgent(reply_to(word) for word in WORDS)


def openai_agent(stack: ExitStack) -> Agent:
    def answer(request: Request) -> Reply:
        messages = json.loads(json.dumps(request.body["messages"]))
        return chat(f"<answer>{messages[-1]['content']}")

    return OpenAIAgent(stack.enter_context(serve(answer)).url, "m")


def broken_replay(_: ExitStack) -> Agent:
    return ReplayAgent([])


def broken_endpoint(stack: ExitStack) -> Agent:
    return OpenAIAgent(stack.enter_context(serve(lambda _: Reply("no", 500))).url, "m", max_retries=0)


AGENTS: list[Callable[[ExitStack], Agent]] = [function_agent, replay_agent, openai_agent]
BROKEN: list[Callable[[ExitStack], Agent]] = [broken_replay, broken_endpoint]


@pytest.fixture(params=AGENTS, ids=lambda make: make.__name__)
def make(request: pytest.FixtureRequest) -> Iterator[Callable[[], Agent]]:
    with ExitStack() as stack:
        yield lambda: request.param(stack)


def test_it_follows_the_protocol(make: Callable[[], Agent]) -> None:
    assert isinstance(make(), Agent)


def test_there_is_one_completion_per_conversation_in_order(make: Callable[[], Agent]) -> None:
    completions = make().complete([asked(word) for word in WORDS], sampling=GREEDY)
    assert [word in c.text for word, c in zip(WORDS, completions, strict=True)] == [True] * len(WORDS)


def test_a_batch_equals_single_calls(make: Callable[[], Agent]) -> None:
    batch = make().complete([asked(word) for word in WORDS], sampling=GREEDY)
    agent = make()
    assert batch == [agent.complete([asked(word)], sampling=GREEDY)[0] for word in WORDS]


def test_an_empty_batch_gives_an_empty_list(make: Callable[[], Agent]) -> None:
    assert make().complete([], sampling=GREEDY) == []


def test_a_stop_string_ends_the_text_and_stays_in_it(make: Callable[[], Agent]) -> None:
    for completion in make().complete([asked(word) for word in WORDS], sampling=GREEDY):
        assert completion.text.endswith("</answer>")
        assert completion.text.count("</answer>") == 1
        assert completion.finish == "stop"


def test_token_ids_and_log_probabilities_align(make: Callable[[], Agent]) -> None:
    for completion in make().complete([asked(word) for word in WORDS], sampling=GREEDY):
        assert len(completion.token_ids) == len(completion.logprobs)


@pytest.mark.parametrize("make_broken", BROKEN, ids=lambda make: make.__name__)
def test_an_outage_is_an_agent_error(make_broken: Callable[[ExitStack], Agent]) -> None:
    with ExitStack() as stack, pytest.raises(AgentError):
        make_broken(stack).complete([asked("alpha")], sampling=GREEDY)
