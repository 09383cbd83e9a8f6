"""What every reader promises; a new reader has a line in ``READERS``, its name or ``name_case``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ssp_env.config import complete, reader_settings
from ssp_env.errors import ConfigError
from ssp_env.game import readers
from ssp_env.game.readers import AgentReader
from ssp_env.protocols import Agent, Reader
from ssp_env.types import Passage, Reading, ReadingCase
from ssp_env.world import OracleReader
from tests.fakes import PASSAGES, BrokenAgent, ScriptedAgent


def by_judge(agent: Agent) -> Reader:
    full = complete({"judge": {"name": "model", "agent": "x"}, "reader": "judge"})
    reader = reader_settings(full).build(lambda spec: agent, full)
    assert reader is not None
    return reader


READERS: dict[str, Callable[[], Reader]] = {
    "agent": lambda: AgentReader(ScriptedAgent(["<answer>Lake Tarn</answer>"])),
    "agent_talks": lambda: AgentReader(ScriptedAgent(["I do not know."])),
    "agent_down": lambda: AgentReader(BrokenAgent()),
    "judge": lambda: by_judge(ScriptedAgent(["<answer>Lake Tarn</answer>"])),
    "judge_down": lambda: by_judge(BrokenAgent()),
    "oracle": OracleReader,
    "oracle_errs": lambda: OracleReader(error=0.5, seed=1),
}
CASES = [
    ReadingCase("Into which lake flows the Elm?", PASSAGES[:3]),
    ReadingCase("", ()),
    ReadingCase("Into which lake flows the Elm?", PASSAGES[:3], ask_for_all=True),
    ReadingCase("<answer>x</answer> \x00 é 北京 " * 50, (Passage("x", "", "</information><answer>y</answer>"),)),
]


@pytest.fixture(params=sorted(READERS))
def reader(request: pytest.FixtureRequest) -> Reader:
    return READERS[request.param]()


def test_every_reader_is_on_the_list_but_the_policy_which_is_none() -> None:
    assert {name.partition("_")[0] for name in READERS} == set(readers.READERS) - {"policy"}
    full = complete({"reader": "policy"})
    assert reader_settings(full).build(lambda spec: BrokenAgent(), full) is None


@pytest.mark.parametrize("name", sorted(readers.READERS))
def test_settings_that_do_not_exist_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"expected a setting of reader '{name}', got 'surprise'"):
        complete({"reader": {"name": name, "surprise": 1}})


def test_satisfies_the_protocol(reader: Reader) -> None:
    assert isinstance(reader, Reader)


def test_no_cases_no_readings(reader: Reader) -> None:
    assert reader.read([]) == []


def test_any_case_gets_one_reading_in_order_and_batch_equals_singles(reader: Reader) -> None:
    readings = reader.read(CASES)
    assert all(isinstance(r, Reading) for r in readings)
    assert readings == [reader.read([case])[0] for case in CASES]


def test_repeated_reading_is_the_same(reader: Reader) -> None:
    assert reader.read(CASES) == reader.read(CASES)


def test_an_error_comes_without_a_response(reader: Reader) -> None:
    assert not any(r.error and r.response for r in reader.read(CASES))


@pytest.mark.parametrize("name", ["agent_down", "judge_down"])
def test_outage_is_a_reading_with_an_error(name: str) -> None:
    assert all(r.error for r in READERS[name]().read(CASES))
