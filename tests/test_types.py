"""The records that flow between the parts."""

from __future__ import annotations

from dataclasses import is_dataclass

from ssp_env import types
from ssp_env.types import JudgedReading, Reading, ReadingCase, Validation


def test_all_records_are_frozen_and_slotted() -> None:
    own = {name: value for name, value in vars(types).items() if getattr(value, "__module__", "") == types.__name__}
    records = {name: value for name, value in own.items() if is_dataclass(value)}
    assert len(records) >= 15
    for name, record in records.items():
        assert record.__dataclass_params__.frozen and "__slots__" in vars(record), name  # type: ignore[attr-defined]


def test_validations_are_equal_if_they_decide_alike() -> None:
    made = JudgedReading("gate", ReadingCase("q", ()), Reading("x"))
    assert Validation("ok", "x", readings=(made,)) == Validation("ok", "x") != Validation("not_answerable", "x")
