"""Presets and the checks of rules.

``DISAGREEMENTS`` has one row for each point in which the text of the paper (arXiv 2510.18821) and its released code
disagree, over the presets of rules and of the optimiser.
"""

from __future__ import annotations

from dataclasses import asdict, fields, replace

import pytest

from ssp_env.errors import ConfigError
from ssp_env.game.rules import PRESETS, GameRules, rules
from training.config import PRESETS as LEARNING
from training.config import resolved, to_json
from training.run_folder import flat

Values = dict[str, object]
DISAGREEMENTS: dict[str, tuple[Values, Values]] = {
    "noise unit": (
        {"distractor_unit": "passage", "n_distractors": 4},
        {"distractor_unit": "bundle", "n_distractors": 4},
    ),
    "minimum searches": (
        {"min_searches": 1, "distinct_queries": False},
        {"min_searches": 2, "distinct_queries": True},
    ),
    "length rule": (
        {"min_chars": 10, "max_chars": 10_000, "min_words": 3},
        {"min_chars": 10, "max_chars": 1000, "min_words": 10},
    ),
    "update order": (
        {"update_order": "solver_first", "optimizer.updates": "sequential"},
        {"update_order": "proposer_first", "optimizer.updates": "sequential"},
    ),
    "solver advantage": (
        {"solver.advantage": "mean", "solver.aggregation": "row_mean", "n_solves": 5},
        {"solver.advantage": "grpo", "solver.aggregation": "row_mean", "n_solves": 5},
    ),
    "proposer loss": (
        {
            "proposer.advantage": "raw",
            "proposer.aggregation": "token_sum",
            "proposer.beta": 0.0,
            "proposer.clip_low": 0.0,
            "proposer.clip_high": 0.0,
            "proposer.weight": 1.0,
        },
        {
            "proposer.advantage": "raw",
            "proposer.aggregation": "row_mean",
            "proposer.beta": pytest.approx(0.4 * 0.01),
            "proposer.clip_low": 0.2,
            "proposer.clip_high": 0.285,
            "proposer.weight": 0.4,
        },
    ),
    "solver format": ({"solver_reward": "strict"}, {"solver_reward": "overlisting"}),
    "solver reward": ({"solver_reward": "strict"}, {"solver_reward": "overlisting"}),
    "temperature": ({"sampling.temperature": 1.0}, {"sampling.temperature": 1.0}),
    "batch filling": ({"filling": "reset", "reset_every": 10}, {"filling": "reset", "reset_every": 10}),
    "RAG answerer": ({"game.reader": "policy"}, {"game.reader": "judge"}),
    # On the following the paper is silent.
    "leakage": ({"leak": "normalized"}, {"leak": "substring"}),
    "a completion without an action": ({"end_on_invalid": False}, {"end_on_invalid": True}),
}


def settings_of(preset: str) -> Values:
    """Everything that the presets of a name decide, together with the defaults that no preset changes."""
    learning = LEARNING[preset]
    run = resolved(replace(learning, corpus=("x",), game=replace(learning.game, rules=preset)))
    return {**flat(to_json(run)), **asdict(PRESETS[preset])}


@pytest.mark.parametrize("topic", DISAGREEMENTS)
def test_presets_follow_the_paper_and_the_code(topic: str) -> None:
    for preset, expected in zip(("paper", "code"), DISAGREEMENTS[topic], strict=True):
        found = settings_of(preset)
        assert {name: found[name] for name in expected} == expected, preset


def test_every_difference_of_the_presets_is_a_disagreement_of_the_sources() -> None:
    paper, code = ({**asdict(PRESETS[name]), **flat(to_json(LEARNING[name]))} for name in ("paper", "code"))
    listed = {name for row in DISAGREEMENTS.values() for values in row for name in values}
    assert {name for name in paper if paper[name] != code[name]} <= listed


def test_both_presets_pay_an_invalid_question_nothing() -> None:
    assert {(PRESETS[name].invalid_reward, PRESETS[name].proposer_reward) for name in ("paper", "code")} == {
        (0.0, "zero_sum")
    }


def test_the_world_has_rules_of_its_own() -> None:
    changed = {f.name: value for f in fields(GameRules) if (value := getattr(PRESETS["world"], f.name)) != f.default}
    assert changed == {
        "max_chars": 1000,
        "min_words": 4,
        "distinct_queries": True,
        "n_distractors": 6,
        "n_solves": 6,
        "max_turns": 6,
        "top_k": 2,
        "solver_reward": "binary",
        "proposer_reward": "zero_sum_solved",
    }


def test_rules_change_single_fields() -> None:
    assert rules("code", n_solves=2) == replace(PRESETS["code"], n_solves=2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fillin": "none"}, "did you mean 'filling'"),
        ({"filling": "rest"}, "expected one of .* for 'filling' of the rules, got 'rest'; did you mean 'reset'"),
        ({"proposer_reward": "zero_sums"}, "did you mean 'zero_sum'"),
        ({"solver_reward": "xyz"}, "choose one of .*'strict'"),
        ({"leak": None}, "got None"),
        ({"n_solves": 0}, "expected a whole number of at least 1 for 'n_solves' of the rules, got 0"),
        ({"n_solves": 2.5}, "got 2.5"),
        ({"n_distractors": -1}, "at least 0 for .*, got -1"),
        ({"n_distractors": True}, "got True"),
        ({"gate": "yes"}, "expected true or false for 'gate' of the rules, got 'yes'"),
        ({"invalid_reward": float("nan")}, "finite number for 'invalid_reward'"),
        ({"invalid_reward": "0"}, "finite number for 'invalid_reward'"),
        ({"max_chars": 5}, "expected max_chars of at least min_chars"),
    ],
)
def test_wrong_rules_are_refused_with_a_remedy(changes: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rules("paper", **changes)


def test_unknown_preset_is_refused_with_the_closest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'paper'"):
        rules("papr")
