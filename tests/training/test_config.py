import json
import re
import shutil
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import get_args

import pytest

from ssp_env.errors import ConfigError
from training import config, settings
from training.advantages import ESTIMATORS, Estimator
from training.command_line import Command, from_json, read_command
from training.config import MAY_CHANGE, PRESETS, SHIPPED_MODEL, RunConfig, resolved, to_json
from training.games import game_settings
from training.run_folder import flat
from training.settings import (
    EvalSettings,
    GameSettings,
    OptimizerSettings,
    RoleSettings,
    SamplingSettings,
    WorldSettings,
)
from training.trainer import updates_of_round


def test_every_field_of_the_configuration_is_documented():
    source = "".join(Path(module.__file__).read_text() for module in (config, settings))
    for name in flat(to_json(RunConfig())):
        field = name.rpartition(".")[2]
        assert re.search(rf'    {field}: .*\n    """', source), name
    groups = [type(value) for f in fields(RunConfig) if is_dataclass(value := getattr(RunConfig(), f.name))]
    assert len(groups) == 8 and not [kind for kind in groups if kind.__doc__.startswith(f"{kind.__name__}(")]


def test_estimators_may_be_named_and_what_may_change_exists():
    assert set(get_args(Estimator)) == set(ESTIMATORS)
    assert set(MAY_CHANGE) <= set(flat(to_json(RunConfig())))


@pytest.mark.parametrize("name", sorted(PRESETS))
def test_a_preset_is_where_flags_start_and_single_flags_change_it(name):
    full = read_command(["--preset", name, "--optimizer.lr", "0.5"]).run
    assert (full.solver, full.proposer) == (PRESETS[name].solver, PRESETS[name].proposer)
    assert full.optimizer == replace(PRESETS[name].optimizer, lr=0.5)
    assert resolved(full) == full


def test_passages_from_files_are_played_by_the_papers_rules_with_the_policy_as_reader_or_by_those_of_the_code(tmp_path):
    full = resolved(RunConfig(corpus=(str(tmp_path / "a.jsonl"),), model=str(tmp_path)))
    assert (full.game.rules, full.game.reader, full.game.prompt_set) == ("paper", "policy", "paper")
    game = GameSettings(rules="code", judge="module:factory")
    code = resolved(RunConfig(corpus=(str(tmp_path / "a.jsonl"),), game=game))
    assert code.game.reader == "judge" and game_settings(code)["judge"] == {"name": "model", "agent": "module:factory"}
    worlds = resolved(RunConfig()).game
    assert (worlds.rules, worlds.reader, worlds.prompt_set) == ("world", "oracle", "compact")


def test_the_configuration_survives_json_and_other_fields_are_refused():
    full = resolved(RunConfig(game=GameSettings(rule=("n_distractors=2",))))
    assert from_json(to_json(full)) == full
    with pytest.raises(ConfigError, match="surprise"):
        from_json({**to_json(full), "surprise": 1})
    older = {**to_json(full), "solver_beta": 0.0}
    del older["solver"]
    with pytest.raises(ConfigError, match="'solver_beta'; restore its config.json, or use the version that made it"):
        from_json(older)
    fewer = {**to_json(full), "solver": {"beta": 0.0}}
    with pytest.raises(ConfigError, match="'advantage'.*; restore its config.json, or use the version that made it"):
        from_json(fewer)


def test_a_file_changes_the_defaults_and_flags_change_the_file(tmp_path):
    file = tmp_path / "run.toml"
    file.write_text(
        'preset = "paper"\nn_rounds = 9\nsolver.beta = 0.5\n[game]\nreader = {name = "oracle", error = 0.2}\n'
        '[game.rule]\ngate = false\nfilling = "reuse"\n'
    )
    full = read_command(["--config", str(file), "--solver.clip-low", "0.1", "--n-rounds", "8"]).run
    assert (full.n_rounds, full.optimizer.lr) == (8, 1e-6)
    assert full.solver == replace(PRESETS["paper"].solver, beta=0.5, clip_low=0.1)
    assert full.game.rule == ("gate=false", "filling=reuse")
    assert game_settings(full, world=0)["reader"] == {"name": "oracle", "error": 0.2}
    saved = tmp_path / "config.json"
    saved.write_text(json.dumps(to_json(full)))
    assert read_command(["--config", str(saved), "--seed", "3"]) == Command(replace(full, seed=3), config=str(saved))
    assert read_command(["--config", str(file), "--preset", "code"]).run.solver.advantage == "grpo"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.toml", "solvr.beta = 0.5", "got 'solvr'; did you mean 'solver'?"),
        ("a.toml", "solver.bta = 0.5", "got 'bta'; did you mean 'beta'?"),
        ("a.toml", "solver = 0.5", "expected an object .*for 'solver' of the training in .*a.toml, got 0.5"),
        ("a.toml", 'seed = "x"', "'seed' of the training in .*a.toml, got 'x'"),
        ("a.toml", 'preset = "papr"', "did you mean 'paper'?"),
        ("a.toml", "seed = ", r"a.toml \(Invalid value"),
        ("a.json", "[1]", r"a.json \(list and no object\)"),
        ("a.json", '{"seed": 1', "a.json"),
        (None, "", "No such file"),
    ],
)
def test_a_file_that_cannot_be_used_is_one_error(tmp_path, name, text, message):
    if name:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=message):
        read_command(["--config", str(tmp_path / (name or "none.toml"))])


def test_rules_are_read_as_json_or_text():
    game = GameSettings(rule=("n_distractors=2", "filling=reuse", "gate=false"), n_solves=3)
    settings = game_settings(resolved(RunConfig(game=game)), world=7)
    assert settings["rules"] == {
        "preset": "world",
        "n_distractors": 2,
        "filling": "reuse",
        "gate": False,
        "n_solves": 3,
    }
    assert settings["corpus"] == {"world": {"seed": 7, "n_entities": 200}}
    with pytest.raises(ConfigError, match="name=value"):
        game_settings(resolved(RunConfig(game=GameSettings(rule=("n_distractors",)))))


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
    assert game_settings(resolved(RunConfig(game=GameSettings(judge=judge))), world=0)["judge"] == expected


@pytest.mark.parametrize(
    ("rules", "updates", "expected"),
    [
        ("paper", "sequential", (("solver",), ("proposer",))),
        ("code", "sequential", (("proposer",), ("solver",))),
        ("code", "joint", (("proposer", "solver"),)),
    ],
)
def test_sequential_updates_follow_the_order_of_the_rules(rules, updates, expected):
    full = resolved(RunConfig(game=GameSettings(rules=rules), optimizer=OptimizerSettings(updates=updates)))
    assert updates_of_round(full) == expected


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"n_rounds": 0}, "n_rounds"),
        ({"sampling": SamplingSettings(temperature=0.0)}, "sampling.temperature"),
        ({"answers_per_round": 9, "proposals_per_answer": 2}, "answers_per_round"),
        ({"solver": RoleSettings(advantage="ppo")}, "solver.advantage"),
        ({"proposer": RoleSettings(train=False), "solver": RoleSettings(train=False)}, "train"),
        ({"game": GameSettings(pool_tasks="x.jsonl")}, "pool_tasks"),
        ({"game": GameSettings(pool_tasks="x.jsonl", rule=("filling=dummy",)), "corpus": ("x",)}, "pool_tasks"),
        ({"seed": -1}, "seed"),
        ({"sampling": SamplingSettings(temperature=float("nan"))}, "sampling.temperature"),
        ({"sampling": SamplingSettings(temperature=float("inf"))}, "sampling.temperature"),
        ({"optimizer": OptimizerSettings(lr=-1.0)}, "optimizer.lr"),
        ({"solver": RoleSettings(beta=float("nan"))}, "solver.beta"),
        ({"proposer": RoleSettings(clip_low=-0.1)}, "proposer.clip_low"),
        ({"optimizer": OptimizerSettings(weight_decay=-0.1)}, "optimizer.weight_decay"),
        ({"optimizer": OptimizerSettings(warmup_steps=-1)}, "optimizer.warmup_steps"),
        ({"optimizer": OptimizerSettings(lora_rank=-1)}, "optimizer.lora_rank"),
        ({"warm_up_rounds": -1}, "warm_up_rounds"),
        ({"optimizer": OptimizerSettings(threads=-1)}, "optimizer.threads"),
        ({"sampling": SamplingSettings(max_context=0)}, "sampling.max_context"),
        ({"sampling": SamplingSettings(max_new_tokens=0)}, "sampling.max_new_tokens"),
        ({"proposer": RoleSettings(weight=float("nan"))}, "proposer.weight"),
        ({"game": GameSettings(retriever='{"name": ')}, "retriever"),
        ({"game": GameSettings(reader="{oracle}")}, "reader"),
        ({"game": GameSettings(judge="{exact}")}, "judge"),
        ({"eval": EvalSettings(questions=-1)}, "eval.questions"),
        ({"seed": 2**32}, "seed"),
        ({"game": GameSettings(rule=("preset=code",))}, "rule"),
        ({"eval": EvalSettings(world=7)}, "eval.world"),
        ({"eval": EvalSettings(world=998), "world": WorldSettings(3, first=996)}, "eval.world"),
    ],
)
def test_values_that_cannot_work_are_refused(wrong, named):
    with pytest.raises(ConfigError, match=named):
        resolved(RunConfig(**wrong))


def test_a_world_may_be_trained_in_that_is_not_examined():
    for asked in (EvalSettings(world=8), EvalSettings(world=0, questions=0), EvalSettings(world=0, tasks="x")):
        assert resolved(RunConfig(eval=asked)).eval.world == asked.world


def test_prompts_follow_the_vocabulary_of_the_model(tmp_path):
    shutil.copytree(SHIPPED_MODEL, tmp_path / "checkpoint")
    odd = f"{Path(SHIPPED_MODEL).parent}/../tiny/reluctant_02"

    def chosen(model):
        full = resolved(RunConfig(model=model))
        return full.game.prompt_set, full.sampling.max_new_tokens

    for model in (str(tmp_path / "checkpoint"), odd):
        assert chosen(model) == ("compact", 48)
    for text in ("{", "[]", '{"model": {"vocab": {"a": 0}}}', None):
        (tmp_path / "checkpoint" / "tokenizer.json").write_text(text) if text else None
        assert chosen(str(tmp_path / ("checkpoint" if text else "none"))) == ("paper", 512)


@pytest.mark.parametrize(
    "damage",
    [
        None,
        5,
        [],
        {"seed": "x"},
        {"optimizer": "adam"},
        {"n_rounds": None},
        {"corpus": 5},
        {"game": {**to_json(RunConfig())["game"], "rule": "gate"}},
    ],
)
def test_a_damaged_configuration_is_refused(damage):
    saved = to_json(resolved(RunConfig()))
    with pytest.raises(ConfigError, match="expected"):
        from_json({**saved, **damage} if isinstance(damage, dict) else damage)
