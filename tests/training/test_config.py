import shutil
from dataclasses import fields
from math import inf
from pathlib import Path

import pytest

from ssp_env.errors import ConfigError
from training.config import (
    OPTIMIZERS,
    SHIPPED_MODEL,
    RunConfig,
    resolved,
)
from training.config_json import from_json, to_json
from training.settings import game_settings, update_settings
from training.update import RoleLoss


def test_every_field_of_the_configuration_is_documented():
    source = Path(__file__).parents[2].joinpath("training/config.py").read_text()
    for f in fields(RunConfig):
        assert f"    {f.name}: " in source
        after = source.split(f"    {f.name}: ", 1)[1].split("\n", 2)
        assert after[1].lstrip().startswith('"""'), f.name


@pytest.mark.parametrize("name", sorted(OPTIMIZERS))
def test_resolving_leaves_no_training_setting_open_and_keeps_what_was_given(name):
    full = resolved(RunConfig(optimizer=name, lr=0.5))
    for f in fields(OPTIMIZERS[name]):
        assert getattr(full, f.name) == (0.5 if f.name == "lr" else getattr(OPTIMIZERS[name], f.name))
    assert resolved(full) == full


def test_passages_from_files_are_played_by_the_papers_rules_with_the_policy_as_reader_or_by_those_of_the_code(tmp_path):
    full = resolved(RunConfig(corpus=(str(tmp_path / "a.jsonl"),), model=str(tmp_path)))
    assert (full.rules, full.reader, full.prompt_set) == ("paper", "policy", "paper")
    code = resolved(RunConfig(corpus=(str(tmp_path / "a.jsonl"),), rules="code", judge="module:factory"))
    assert code.reader == "judge" and game_settings(code)["judge"] == {"name": "model", "agent": "module:factory"}
    worlds = resolved(RunConfig())
    assert (worlds.rules, worlds.reader, worlds.prompt_set) == ("world", "oracle", "compact")


def test_the_configuration_survives_json_and_other_fields_are_refused():
    full = resolved(RunConfig(rule=("n_distractors=2",)))
    assert from_json(to_json(full)) == full
    with pytest.raises(ConfigError, match="surprise"):
        from_json({**to_json(full), "surprise": 1})
    older = {**to_json(full), "beta": 0.0}
    del older["solver_beta"]
    with pytest.raises(ConfigError, match=r"\['beta', 'solver_beta'\]; it was made by another version: use that one"):
        from_json(older)


def test_rules_are_read_as_json_or_text():
    settings = game_settings(
        resolved(RunConfig(rule=("n_distractors=2", "filling=reuse", "gate=false"), n_solves=3)), world=7
    )
    assert settings["rules"] == {
        "preset": "world",
        "n_distractors": 2,
        "filling": "reuse",
        "gate": False,
        "n_solves": 3,
    }
    assert settings["corpus"] == {"world": {"seed": 7, "n_entities": 200}}
    with pytest.raises(ConfigError, match="name=value"):
        game_settings(resolved(RunConfig(rule=("n_distractors",))))


@pytest.mark.parametrize(
    ("judge", "expected"),
    [
        ("exact", "exact"),
        ("judges:make", {"name": "model", "agent": "judges:make"}),
        (
            '{"name": "model", "agent": {"name": "judges:make", "kwargs": {"url": "u"}}}',
            {"name": "model", "agent": {"name": "judges:make", "kwargs": {"url": "u"}}},
        ),
    ],
)
def test_a_judge_is_a_name_a_factory_or_json_with_arguments(judge, expected):
    assert game_settings(resolved(RunConfig(judge=judge)), world=0)["judge"] == expected


@pytest.mark.parametrize(
    ("rules", "updates", "expected"),
    [("paper", "sequential", "solver_first"), ("code", "sequential", "proposer_first"), ("code", "joint", "joint")],
)
def test_sequential_updates_follow_the_order_of_the_rules(rules, updates, expected):
    full = resolved(RunConfig(rules=rules, updates=updates))
    assert update_settings(full, Path("x")).updates == expected


def test_kl_and_clipping_are_of_each_role_and_a_clip_of_0_is_none():
    full = resolved(RunConfig(optimizer="paper", solver_clip_low=0.0, proposer_clip_high=0.3))
    settings = update_settings(full, Path("x"))
    assert settings.solver == settings.loss("solver") == RoleLoss(0.01, (inf, 0.285))
    assert settings.proposer == settings.loss("proposer") == RoleLoss(0.0, (inf, 0.3))


@pytest.mark.parametrize(
    "wrong",
    [
        {"n_rounds": 0},
        {"temperature": 0.0},
        {"answers_per_round": 9, "proposals_per_answer": 2},
        {"solver_advantage": "ppo"},
        {"train_proposer": False, "train_solver": False},
        {"pool_tasks": "x.jsonl"},
        {"pool_tasks": "x.jsonl", "corpus": ("x",), "rule": ("filling=dummy",)},
        {"seed": -1},
        {"temperature": float("nan")},
        {"temperature": float("inf")},
        {"lr": -1.0},
        {"solver_beta": float("nan")},
        {"proposer_clip_low": -0.1},
        {"weight_decay": -0.1},
        {"warmup_steps": -1},
        {"lora_rank": -1},
        {"warm_up_rounds": -1},
        {"threads": -1},
        {"max_context": 0},
        {"proposer_weight": float("nan")},
        {"retriever": '{"name": '},
        {"reader": "{oracle}"},
        {"judge": "{exact}"},
        {"eval_questions": -1},
        {"seed": 2**32},
        {"rule": ("preset=code",)},
        {"eval_world": 7},
        {"eval_world": 998, "first_world": 996, "train_worlds": 3},
    ],
)
def test_values_that_cannot_work_are_refused(wrong):
    with pytest.raises(ConfigError, match=next(iter(wrong)).split("_")[0]):
        resolved(RunConfig(**wrong))


def test_a_world_may_be_trained_in_that_is_not_examined():
    for changes in ({"eval_world": 8}, {"eval_world": 0, "eval_questions": 0}, {"eval_world": 0, "eval_tasks": "x"}):
        assert resolved(RunConfig(**changes)).eval_world == changes["eval_world"]


def test_prompts_follow_the_vocabulary_of_the_model(tmp_path):
    shutil.copytree(SHIPPED_MODEL, tmp_path / "checkpoint")
    odd = f"{Path(SHIPPED_MODEL).parent}/../tiny/reluctant_02"
    for model in (str(tmp_path / "checkpoint"), odd):
        assert (resolved(RunConfig(model=model)).prompt_set, resolved(RunConfig(model=model)).max_new_tokens) == (
            "compact",
            48,
        )
    for text in ("{", "[]", '{"model": {"vocab": {"a": 0}}}', None):
        (tmp_path / "checkpoint" / "tokenizer.json").write_text(text) if text else None
        other = str(tmp_path / ("checkpoint" if text else "none"))
        assert (resolved(RunConfig(model=other)).prompt_set, resolved(RunConfig(model=other)).max_new_tokens) == (
            "paper",
            512,
        )


@pytest.mark.parametrize(
    "damage", [None, 5, [], {"seed": "x"}, {"optimizer": "adam"}, {"n_rounds": None}, {"corpus": 5}, {"rule": "gate"}]
)
def test_a_damaged_configuration_is_refused(damage):
    saved = to_json(resolved(RunConfig()))
    with pytest.raises(ConfigError, match="expected"):
        from_json({**saved, **damage} if isinstance(damage, dict) else damage)
