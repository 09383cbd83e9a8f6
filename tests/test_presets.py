"""Presets and the checks of rules."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from ssp_env.errors import ConfigError
from ssp_env.presets import PRESETS, GameRules, rules


def test_paper_and_code_differ_where_the_sources_do() -> None:
    paper, code = PRESETS["paper"], PRESETS["code"]
    changed = {f.name for f in fields(GameRules) if getattr(paper, f.name) != getattr(code, f.name)}
    assert changed == {"min_searches", "leak", "noise_unit", "end_on_invalid", "solver_reward", "update_order"}
    assert (paper.n_solves, paper.n_noise, paper.top_k, paper.max_turns, paper.filling) == (5, 4, 3, 10, "reset")
    assert (paper.invalid_reward, code.invalid_reward) == (0.0, 0.0)


def test_rules_change_single_fields() -> None:
    assert rules("code", n_solves=2) == replace(PRESETS["code"], n_solves=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fillin": "none"}, "did you mean 'filling'"),
        ({"filling": "rest"}, "expected filling out of .*, got 'rest'; did you mean 'reset'"),
        ({"proposer_reward": "zero_sums"}, "did you mean 'zero_sum'"),
        ({"solver_reward": "xyz"}, "name one of these"),
        ({"leak": None}, "got None"),
        ({"n_solves": 0}, "expected n_solves to be a whole number from 1, got 0"),
        ({"n_solves": 2.5}, "got 2.5"),
        ({"n_noise": -1}, "from 0, got -1"),
        ({"n_noise": True}, "got True"),
        ({"gate": "yes"}, "expected gate to be true or false, got 'yes'"),
        ({"invalid_reward": float("nan")}, "finite invalid_reward"),
        ({"invalid_reward": "0"}, "finite invalid_reward"),
        ({"max_chars": 5}, "expected max_chars of at least min_chars"),
    ],
)
def test_wrong_rules_are_refused_with_a_remedy(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rules("paper", **changes)


def test_unknown_preset_is_refused_with_the_closest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'paper'"):
        rules("papr")
