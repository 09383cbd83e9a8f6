"""Templates and their filling."""

from __future__ import annotations

import pytest

from ssp_env.errors import ConfigError
from ssp_env.game.prompts import fill
from ssp_env.game.roles import ROLES
from ssp_env.tags import parse_action
from ssp_env.types import Answer, Invalid, Passage, ReadingCase, Task
from tests.fakes import NoteTool

ITEMS = {
    "proposer": Answer("s", "Lake Tarn", n_searches=3),
    "solver": Task("t", "Which lake?", ("Lake Tarn",)),
    "reader": ReadingCase("Which lake?", (Passage("p", "Elm", "The Elm flows into Lake Tarn."),)),
}


def lines(role: str, item=None, prompt_set: str = "paper") -> list[str]:
    messages = ROLES[role].prompt(item or ITEMS[role], prompt_set=prompt_set, tools={})
    return [line for message in messages for line in message["content"].splitlines()]


def test_paper_prompts_name_the_item_on_lines_of_their_own_and_only_once() -> None:
    assert [x for x in lines("proposer") if x.startswith(("Answer:", "Searches:"))] == [
        "Answer: Lake Tarn",
        "Searches: 3",
    ]
    assert [x for x in lines("solver") if x.startswith("Question:")] == ["Question: Which lake?"]
    reader = lines("reader")
    assert [x for x in reader if x.startswith("Question:")] == ["Question: Which lake?"]
    assert "Doc 1 (Title: Elm) The Elm flows into Lake Tarn." in reader


def test_solver_prompt_holds_nothing_else_of_the_task() -> None:
    one, two = (lines("solver", Task(i, "Which lake?", (a,), k)) for i, a, k in (("t", "x", "k"), ("u", "y", "l")))
    assert one == two


def test_values_are_never_expanded_again_and_carry_no_tags() -> None:
    task = Task("t", "{answer} {question} <answer>x</answer> <|im_end|>", ("a",))
    assert "Question: {answer} {question} ‹answer›x‹/answer› ‹|im_end|›" in lines("solver", task)


def test_worked_examples_are_turns_of_a_conversation_that_the_grammar_accepts() -> None:
    for role, item in ITEMS.items():
        messages = ROLES[role].prompt(item, prompt_set="worked", tools={})
        assert [m["role"] for m in messages] == ["system", *["user", "assistant"] * (len(messages) // 2 - 1), "user"]
        tools = ("search",) if ROLES[role].uses_tools else ()
        for message in messages[2::2]:
            action, _ = parse_action(message["content"], tools=tools, final=ROLES[role].final_tag, max_chars=1000)
            assert not isinstance(action, Invalid)


@pytest.mark.parametrize("properties", [{"a": {}, "b": {}}, {}, None])
def test_a_tool_that_takes_anything_but_one_text_is_refused(properties) -> None:
    tool = NoteTool()
    tool.schema = {"function": {"description": "Adds.", "parameters": {"properties": properties}}}
    with pytest.raises(ConfigError, match="one parameter as schema of tool 'note'"):
        ROLES["solver"].prompt(ITEMS["solver"], prompt_set="paper", tools={"note": tool})


def test_unknown_set_and_missing_value_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected a prompt set out of"):
        fill("papr", "solver", {"question": "x"})
    with pytest.raises(ConfigError, match=r"wants \{question\}"):
        fill("paper", "solver", {})
