"""What every judge promises; a new judge has a line in ``JUDGES``, its name or ``name_case``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ssp_env.config import complete
from ssp_env.errors import ConfigError
from ssp_env.game import judges
from ssp_env.game.judges import ExactJudge, ModelJudge
from ssp_env.protocols import Judge
from ssp_env.types import JudgeCase
from tests.fakes import BrokenAgent, ScriptedAgent

JUDGES: dict[str, Callable[[], Judge]] = {
    "exact": ExactJudge,
    "model_wrong": lambda: ModelJudge(ScriptedAgent(["Wrong"])),
    "model_correct": lambda: ModelJudge(ScriptedAgent(["Correct"])),
    "model_down": lambda: ModelJudge(BrokenAgent()),
}
EXACT = JudgeCase(question="Which lake?", answers=("Lake Mere", "Lake Tarn"), response="lake tarn.")
EMPTY = JudgeCase(question="Which lake?", answers=("",), response=" ")
OTHER = JudgeCase(question="Which lake?", answers=("Lake Tarn",), response="the Tarn")


@pytest.fixture(params=sorted(JUDGES))
def judge(request: pytest.FixtureRequest) -> Judge:
    return JUDGES[request.param]()


def test_every_judge_is_on_the_list() -> None:
    assert {name.partition("_")[0] for name in JUDGES} == set(judges.JUDGES)


@pytest.mark.parametrize("name", sorted(judges.JUDGES))
def test_settings_that_do_not_exist_are_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=f"expected a setting of judge '{name}', got 'surprise'"):
        complete({"judge": {"name": name, "surprise": 1}})


def test_satisfies_the_protocol(judge: Judge) -> None:
    assert isinstance(judge, Judge)


def test_no_cases_no_verdicts(judge: Judge) -> None:
    assert judge.judge([]) == []


def test_any_of_several_answers_counts(judge: Judge) -> None:
    assert judge.judge([EXACT])[0].correct


def test_empty_response_is_wrong(judge: Judge) -> None:
    assert judge.judge([EMPTY])[0].label == "wrong"


def test_batch_equals_singles_in_order(judge: Judge) -> None:
    cases = [OTHER, EXACT, EMPTY, OTHER]
    assert judge.judge(cases) == [judge.judge([case])[0] for case in cases]


def test_answers_in_one_string_are_refused(judge: Judge) -> None:
    with pytest.raises(TypeError):
        judge.judge([JudgeCase(question="q", answers="Paris", response="P")])  # type: ignore[arg-type]


def test_labels_are_of_the_closed_set(judge: Judge) -> None:
    assert {v.label for v in judge.judge([OTHER, EXACT, EMPTY])} <= {"correct", "wrong", "error"}
