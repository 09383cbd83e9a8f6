"""``docs/agents.md``: its examples run and print what it shows; it names all that an agent gets and returns."""

from __future__ import annotations

import re
from dataclasses import fields
from pathlib import Path

import pytest

from ssp_env.types import Completion, Conversation, Sampling
from tests.docs.pages import blocks_of, missing_links, run_block
from tests.endpoint import chat, serve


@pytest.fixture(scope="module")
def page(repository: Path) -> str:
    return (repository / "docs" / "agents.md").read_text(encoding="utf-8")


def block(page: str, part: str) -> str:
    """Return the only block of code that holds this text."""
    (found,) = [block for block in blocks_of(page) if part in block]
    return found


def test_the_function_plays_as_shown(page: str, folder: Path) -> None:
    assert run_block(block(page, "FunctionAgent"), folder) == blocks_of(page, "text")[0]


def test_the_examination_gives_the_interval_shown(page: str, folder: Path) -> None:
    assert run_block(block(page, "interval("), folder) == blocks_of(page, "text")[1]


def test_the_code_for_a_served_model_plays(page: str, folder: Path) -> None:
    with serve(lambda _: chat("<answer>Lake Tarn")) as endpoint:
        shown = run_block(block(page, "OpenAIAgent").replace("http://127.0.0.1:8000/v1", endpoint.url), folder)
    assert shown == "Into which lake does the river of Oxley flow? -> Lake Tarn\n"


def test_the_proposer_with_an_own_model_as_reader_and_opponent_plays(page: str, folder: Path) -> None:
    ask = "<question>Into which lake does the river of Oxley flow?</question>"
    code = block(page, "register_agent")
    code += f"env.reset(seed=0)\nenv.step('<search>Elm</search>')\n_, reward, *_, info = env.step({ask!r})\n"
    shown = run_block(f"{code}print(reward, info['validation'])", folder)
    assert shown == "0.0 ok\n"  # the opponent always knows the answer


def test_all_that_an_agent_gets_and_returns_is_described(page: str) -> None:
    (part,) = re.findall(r"^## What an agent gets and returns\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
    named = re.findall(r"`(\w+)", "".join(re.findall(r"^\|([^|]+)\|", part, re.MULTILINE)))
    known = {field.name for kind in (Conversation, Sampling, Completion) for field in fields(kind)}
    assert set(named) == known | {"messages", "text"}


def test_the_classes_named_exist(page: str, folder: Path) -> None:
    names = re.findall(r"^\| `((?:ssp_agents|ssp_env)\.[\w.]+)` \|", page, re.MULTILINE)
    code = "".join(f"from {name.rpartition('.')[0]} import {name.rpartition('.')[2]}\n" for name in names)
    assert len(names) == 5
    run_block(code, folder)


def test_every_linked_file_and_heading_exists(repository: Path) -> None:
    assert missing_links(repository / "docs" / "agents.md") == []
