from __future__ import annotations

import pytest

from ssp_agents.scripted import FunctionAgent, ReplayAgent
from ssp_env.errors import AgentError
from ssp_env.types import Conversation, Message, Sampling

SAMPLING = Sampling(stop=("</answer>",))


def asked(text: str) -> Conversation:
    return Conversation((Message(role="user", content=text),))


def test_replies_are_handed_out_in_order_across_calls() -> None:
    agent = ReplayAgent(["a", "b", "c"])
    first = agent.complete([asked("x"), asked("y")], sampling=SAMPLING)
    second = agent.complete([asked("z")], sampling=SAMPLING)
    assert [c.text for c in (*first, *second)] == ["a", "b", "c"]


def test_running_out_of_replies_is_an_agent_error_that_uses_none_up() -> None:
    agent = ReplayAgent(["a"])
    with pytest.raises(AgentError, match="expected at most 1 conversations.*got 2; give more replies"):
        agent.complete([asked("x"), asked("y")], sampling=SAMPLING)
    assert agent.complete([asked("x")], sampling=SAMPLING)[0].text == "a"


def test_a_reply_ends_at_its_first_stop_string() -> None:
    done, open_end = ReplayAgent(["<answer>a</answer> extra", "hm"]).complete([asked("x")] * 2, sampling=SAMPLING)
    assert (done.text, done.finish) == ("<answer>a</answer>", "stop")
    assert (open_end.text, open_end.finish) == ("hm", "eos")


def test_a_function_sees_the_conversation_and_its_errors_are_not_hidden() -> None:
    agent = FunctionAgent(lambda conversation: conversation.messages()[-1]["content"].upper())
    assert agent.complete([asked("x"), asked("y")], sampling=SAMPLING)[1].text == "Y"
    with pytest.raises(ZeroDivisionError):
        FunctionAgent(lambda _: str(1 // 0)).complete([asked("x")], sampling=SAMPLING)
