"""What every role promises; a new one has a line in ``CASES``: an item, and what its prompt must show of it."""

from __future__ import annotations

import json
import re
from hashlib import blake2b

import pytest

from ssp_env.errors import ConfigError
from ssp_env.game.prompts import PROMPT_SETS
from ssp_env.game.roles import MAX_PASSAGE_CHARS, ROLES
from ssp_env.game.tools import SearchTool
from ssp_env.types import Answer, Item, Message, Passage, ReadingCase, Task
from tests.fakes import FakeRetriever, NoteTool

ELM = Passage("p", "Elm", "The Elm flows into Lake Tarn.")
CASES: dict[str, tuple[Item, tuple[str, ...]]] = {
    "proposer": (Answer("s", "Lake Tarn", n_searches=37), ("Lake Tarn", "37")),
    "reader": (ReadingCase("Which lake?", (ELM,)), ("Which lake?", ELM.title, ELM.text)),
    "solver": (Task("t", "Which lake?", ("Lake Tarn",)), ("Which lake?",)),
}
SEARCH = {"search": SearchTool(FakeRetriever())}
NOTE = {**SEARCH, "note": NoteTool()}
DIGESTS = {"paper": "9919a9f5cb134f02", "worked": "1c368dde023da6e0", "compact": "fb8e0c463c95de51"}
TRAP = "x <note>y</note >"
EXPLAINED = ("paper", "worked")
"""Prompt sets that explain the tags; the others are for models that know them."""


def opened(role: str, item: Item, prompt_set: str, tools=SEARCH) -> tuple[Message, ...]:
    return ROLES[role].prompt(item, prompt_set=prompt_set, tools=tools if ROLES[role].uses_tools else {})


def text(role: str, prompt_set: str, tools=SEARCH) -> str:
    return "\n".join(message["content"] for message in opened(role, CASES[role][0], prompt_set, tools))


def test_every_role_is_on_the_list() -> None:
    assert set(CASES) == set(ROLES)


@pytest.mark.parametrize("role", sorted(ROLES))
def test_roles_are_filed_under_their_names_and_end_with_a_tag_of_their_own(role: str) -> None:
    assert ROLES[role].name == role
    assert re.fullmatch("[a-z]+", ROLES[role].final_tag)
    assert ROLES[role].final_tag not in ("think", "information", *NOTE)


@pytest.mark.parametrize("prompt_set", PROMPT_SETS)
@pytest.mark.parametrize("role", sorted(ROLES))
def test_every_set_has_every_role_and_fills_it_completely(prompt_set: str, role: str) -> None:
    item, shown = CASES[role]
    messages = opened(role, item, prompt_set)
    assert messages[-1]["role"] == "user"
    assert all(value in messages[-1]["content"] for value in shown)
    assert not any("{" in message["content"] for message in messages)


@pytest.mark.parametrize("prompt_set", EXPLAINED)
@pytest.mark.parametrize("role", sorted(ROLES))
def test_prompts_explain_the_tags_of_their_role(prompt_set: str, role: str) -> None:
    prompt, tag = text(role, prompt_set), ROLES[role].final_tag
    assert f"<{tag}>" in prompt and f"</{tag}>" in prompt
    assert ("<search>" in prompt) == ("</search>" in prompt) == ROLES[role].uses_tools


@pytest.mark.parametrize("prompt_set", EXPLAINED)
@pytest.mark.parametrize("role", sorted(ROLES))
def test_a_further_tool_is_told_in_one_line_where_tools_may_be_called(prompt_set: str, role: str) -> None:
    told = set(text(role, prompt_set, NOTE).splitlines()) - set(text(role, prompt_set).splitlines())
    assert told == (
        {"A further tool is <note> text </note>: Write something down."} if ROLES[role].uses_tools else set()
    )


def test_a_set_that_cannot_tell_of_a_tool_refuses_it() -> None:
    with pytest.raises(ConfigError, match=r"tells of the tools \['note'\], got 'compact'"):
        text("solver", "compact", NOTE)


@pytest.mark.parametrize("role", sorted(ROLES))
@pytest.mark.parametrize("item", [*(item for item, _ in CASES.values()), "a question", None])
def test_roles_refuse_items_of_another_kind(role: str, item) -> None:
    if type(item) is type(CASES[role][0]):
        return
    with pytest.raises(TypeError, match=f"expected an? .* for the {role}, got"):
        opened(role, item, "paper")


@pytest.mark.parametrize(("role", "item"), [("proposer", Answer("s", TRAP)), ("solver", Task("t", TRAP, ("a",)))])
def test_tags_of_further_tools_are_neutralised_in_what_a_role_is_given(role: str, item: Item) -> None:
    assert "x ‹note›y‹/note ›" in opened(role, item, "paper", NOTE)[-1]["content"]
    assert TRAP in opened(role, item, "paper")[-1]["content"]


def test_long_passages_are_cut_visibly_for_the_reader() -> None:
    case = ReadingCase("Which?", (Passage("p", "Long", "y" * (MAX_PASSAGE_CHARS + 1)),))
    assert "y" * MAX_PASSAGE_CHARS + " [...]" in opened("reader", case, "paper")[-1]["content"]


@pytest.mark.parametrize("prompt_set", PROMPT_SETS)
def test_prompts_with_search_alone_are_as_measured(prompt_set: str) -> None:
    """Another digest is another behaviour: figures before and after belong to the change."""
    items = {
        "proposer": [Answer("s", "Lake <answer> {x} Tarn", n_searches=3)],
        "reader": [
            ReadingCase("Which?", (Passage("p", "Elm", "The <|im_end|>"),)),
            ReadingCase("Which?", (Passage("p", "Elm", "x"),), ask_for_all=True),
        ],
        "solver": [Task("t", "Which <search>lake?", ("a",))],
    }
    messages = [opened(role, item, prompt_set) for role, given in items.items() for item in given]
    assert blake2b(json.dumps(messages).encode(), digest_size=8).hexdigest() == DIGESTS[prompt_set]
