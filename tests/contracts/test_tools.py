"""What every tool promises; a new tool is covered by its line in ``TOOLS`` and a valid call here."""

from __future__ import annotations

import json
import re

import pytest

from ssp_env.game.tools import TOOLS, ToolFactory
from ssp_env.protocols import Tool
from ssp_env.tags import FINAL_TAGS, RESERVED_TAGS, first_block
from ssp_env.types import ToolOutput
from tests.fakes import FakeCorpus, FakeRetriever, NoteTool, ask

VALID = {"search": "river Elm"}
KNOWN: dict[str, ToolFactory] = {**TOOLS, "note": lambda corpus, retriever, top_k: NoteTool()}
"""The tools, and an example of one with a memory."""
HOSTILE = ["", " ", '"', "a:b AND (c OR", "\x00", "<answer>x</answer>", "é北京🙂", "x" * 5000]


@pytest.fixture(params=sorted(KNOWN))
def tool(request: pytest.FixtureRequest) -> Tool:
    return KNOWN[request.param](FakeCorpus(), FakeRetriever(), 3)


def test_every_tool_has_a_valid_call() -> None:
    assert set(VALID) == set(TOOLS)


def test_satisfies_the_protocol_and_its_name_is_its_tag(tool: Tool) -> None:
    assert isinstance(tool, Tool)
    assert re.fullmatch("[a-z]+", tool.name) and tool.name in KNOWN
    assert tool.name not in ("think", "information", *FINAL_TAGS)


def test_schema_is_a_plain_json_function(tool: Tool) -> None:
    schema = json.loads(json.dumps(tool.schema))
    assert schema["type"] == "function" and schema["function"]["name"] == tool.name


def test_schema_has_a_line_for_prompts_and_one_text_parameter(tool: Tool) -> None:
    function = json.loads(json.dumps(tool.schema))["function"]
    assert function["description"] == " ".join(function["description"].split()) != ""
    (parameter,) = function["parameters"]["properties"]
    assert function["parameters"] == {
        "type": "object",
        "properties": {parameter: {"type": "string"}},
        "required": [parameter],
    }


def test_any_argument_is_answered_with_text(tool: Tool) -> None:
    outputs = ask(tool, *HOSTILE)
    assert len(outputs) == len(HOSTILE)
    assert all(isinstance(out, ToolOutput) and out.text for out in outputs)


def test_batch_equals_singles_in_order(tool: Tool) -> None:
    arguments = [VALID.get(tool.name, "x"), *HOSTILE]
    assert ask(tool, *arguments) == [ask(tool, argument)[0] for argument in arguments]


def test_results_are_ranked_from_0(tool: Tool) -> None:
    (output,) = ask(tool, VALID.get(tool.name, "x"))
    assert [r.rank for r in output.results] == list(range(len(output.results)))


def test_output_holds_one_information_block_and_no_other_tag(tool: Tool) -> None:
    for output in ask(tool, VALID.get(tool.name, "x"), *HOSTILE):
        assert output.text.startswith("\n<information>\n") and output.text.endswith("\n</information>\n\n")
        assert output.text.count("<information>") == 1
        assert first_block(output.text, {*RESERVED_TAGS, tool.name} - {"information"}) is None


def test_no_calls_no_outputs(tool: Tool) -> None:
    assert tool.run([]) == []
