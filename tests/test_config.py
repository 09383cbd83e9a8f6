"""Configurations are completed, checked and made comparable."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import pytest

from ssp_env.config import GameConfig, complete, game_rules
from ssp_env.errors import ConfigError, SSPError
from ssp_env.game.rules import PRESETS
from ssp_env.schema import canonical
from ssp_env.world import WorldConfig

ROW = '{"id": "1", "title": "T", "text": "Some text."}\n'


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "passages.jsonl"
    path.write_text(ROW)
    return str(path)


def test_the_empty_configuration_is_the_generated_world():
    full = complete({})
    assert set(full) == set(GameConfig.__annotations__)
    assert full["corpus"] == {"world": asdict(WorldConfig())}
    assert full["reader"] == {"name": "oracle", "error": 0.0, "seed": 0}
    assert full["judge"] == {"name": "exact", "mode": "both"}
    assert game_rules(full["rules"]) == PRESETS["world"]


def test_a_real_corpus_gets_the_paper_rules_and_the_policy_as_reader(corpus):
    full = complete({"corpus": corpus})
    assert game_rules(full["rules"]) == PRESETS["paper"]
    assert full["reader"] == {"name": "policy"}


MODEL = {"name": "model", "agent": "module:factory"}


@pytest.mark.parametrize("named", ["code", {"preset": "code", "n_solves": 2}])
def test_the_rules_of_the_code_let_the_judges_model_read_over_a_real_corpus(corpus, named):
    assert complete({"corpus": corpus, "rules": named, "judge": MODEL})["reader"] == {"name": "judge"}
    assert complete({"rules": named})["reader"]["name"] == "oracle"
    assert complete({"corpus": corpus, "rules": named, "reader": "policy"})["reader"] == {"name": "policy"}
    with pytest.raises(ConfigError, match="judge={'name': 'model'.*reader='policy' or reader={'agent'"):
        complete({"corpus": corpus, "rules": named})


def test_other_rules_do_not_ask_the_judges_model(corpus):
    assert complete({"corpus": corpus, "judge": MODEL})["reader"] == {"name": "policy"}


def test_the_agent_of_a_reader_may_be_named_with_and_without_the_readers_kind():
    assert complete({"reader": {"agent": "x"}}) == complete({"reader": {"name": "agent", "agent": "x"}})


def test_a_complete_configuration_is_plain_json(corpus):
    full = complete({"corpus": [corpus], "rules": {"preset": "code", "n_solves": 2}, "reader": {"agent": "x"}})
    assert json.loads(canonical(full)) == full


def test_different_spellings_of_one_game_are_equal(corpus, monkeypatch):
    monkeypatch.chdir(os.path.dirname(corpus))
    spellings = [
        {"corpus": corpus},
        {"corpus": "passages.jsonl", "tasks": None},
        {"corpus": ["passages.jsonl"], "rules": {"preset": "paper"}, "judge": {"name": "exact"}, "reader": None},
    ]
    assert len({canonical(complete(config)) for config in spellings}) == 1


@pytest.mark.parametrize(
    "config",
    [
        {"corpus": {"world": {"seed": 0}}},
        {"corpus": {"world": {"n_entities": 200, "aliases": 0.1}}},
        {"judge": {"name": "exact", "mode": "both"}},
        {"reader": {"name": "oracle", "error": 0.0}},
        {"reader": {"name": "oracle", "error": 0, "seed": 0}},
        {"tools": ("search",)},
    ],
)
def test_a_default_that_is_spelled_out_changes_nothing(config):
    assert canonical(complete(config)) == canonical(complete({}))


def test_what_differs_from_a_default_is_kept():
    full = complete({"corpus": {"world": {"one_to_one": 1}}, "reader": {"name": "oracle", "error": 0.2}})
    assert full["corpus"]["world"] == {**asdict(WorldConfig()), "one_to_one": 1.0}
    assert full["reader"] == {"name": "oracle", "error": 0.2, "seed": 0}


def test_wrapped_retrievers_are_completed_at_every_depth():
    short = {"name": "cache", "base": {"name": "hybrid", "retrievers": ["bm25", "rank-bm25"]}}
    full = complete({"retriever": short})["retriever"]
    assert full["base"]["retrievers"] == [{"name": "bm25"}, {"name": "rank-bm25"}]
    assert complete({"retriever": full})["retriever"] == full


def test_whole_numbers_may_stand_for_floats():
    assert complete({"rules": {"preset": "paper", "invalid_reward": -1}})["rules"]["invalid_reward"] == -1.0


def nested(n_levels):
    spec = {"name": "bm25"}
    for _ in range(n_levels):
        spec = {"name": "cache", "base": spec}
    return spec


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"corpsu": "x"}, "did you mean 'corpus'"),
        ({"corpus": "nowhere.jsonl"}, "existing file"),
        ({"corpus": []}, "list of paths"),
        ({"corpus": 3}, "list of paths"),
        ({"corpus": {"world": 3}}, "'world'"),
        ({"corpus": {"wrold": {}}}, "'world'"),
        ({"retriever": "bm52"}, "did you mean 'bm25'"),
        ({"retriever": {"k": 1}}, "the name of a retriever or {'name'"),
        ({"retriever": 5}, "a name or"),
        ({"retriever": {"name": "cache", "base": {"name": "bm52"}}}, "did you mean 'bm25'"),
        (
            {"retriever": {"name": "cache", "base": {"name": "hybrid", "retrievers": ["bm25", 5]}}},
            "the name of a retriever",
        ),
        ({"tools": "search"}, "list of tools"),
        ({"tools": []}, "list of tools"),
        ({"tools": ["saerch"]}, "did you mean 'search'"),
        ({"tools": ["search", 3]}, "a string for 'tools[1]'"),
        ({"tools": ["search", "search"]}, "name each once"),
        ({"reader": {"name": "oracle", "error": 10**400}}, "a number from 0 to 1 for 'error' of reader 'oracle'"),
        ({"rules": "papre"}, "preset"),
        ({"rules": {"n_solves": 3}}, "the name of a preset or {'preset': ..., setting: ...}"),
        ({"rules": {"n_solve": 3}}, "did you mean 'n_solves'?"),
        ({"rules": {"preset": "paper", "n_slves": 3}}, "got 'n_slves'; did you mean 'n_solves'"),
        ({"rules": {"preset": "paper", "n_solves": "3"}}, "whole number"),
        ({"rules": {"preset": "paper", "n_solves": True}}, "whole number"),
        ({"rules": {"preset": "paper", "n_solves": 0}}, "whole number of at least 1"),
        ({"rules": {"preset": "paper", "gate": 1}}, "true or false"),
        ({"rules": {"preset": "paper", "leak": []}}, "one of ['normalized', 'substring'] for 'leak'"),
        ({"rules": {"preset": "paper", "leak": "substrng"}}, "did you mean 'substring'"),
        ({"rules": {"preset": "paper", "solver_reward": "binry"}}, "binary"),
        ({"rules": {"preset": "paper", "proposer_reward": "zero_sm"}}, "zero_sum"),
        ({"prompt_set": "papers"}, "did you mean 'paper'"),
        ({"judge": "exakt"}, "did you mean 'exact'"),
        ({"judge": {"name": "model"}}, "'agent'"),
        (
            {"judge": {"name": "exact", "mode": "loose"}},
            "'unicode'] for 'mode' of judge 'exact', got 'loose'",
        ),
        ({"reader": "judge"}, "a judge with an agent"),
        ({"reader": "agent"}, "'agent'"),
        ({"reader": {"name": "oracle", "seed": "x"}}, "a whole number"),
        ({"reader": "orcale"}, "did you mean 'oracle'"),
        ({"reader": {"name": "oracle", "x": 1}}, "a setting of reader 'oracle', got 'x'"),
        ({"reader": {"name": "oracle", "error": 1.5}}, "a number from 0 to 1 for 'error' of reader 'oracle', got 1.5"),
        ({"tasks": "nowhere.jsonl"}, "existing file"),
        ({"answers": 7}, "path as text"),
        ({"tasks": "x" * 5000}, "existing file"),
        ({"index_dir": "a\0b"}, "path as text"),
        ({"index_dir": __file__}, "a folder"),
        ({"index_dir": "\ud800"}, "UTF-8"),
        ({"index_dir": "\udc80dir"}, "UTF-8"),
        ({"index_dir": "a/" * 1500}, "folders deep"),
        ({"retriever": nested(3000)}, "levels deep"),
        ({"judge": nested(3000)}, "levels deep"),
        ({"rules": [nested(40)]}, "levels deep"),
        ({"index_dir": "x" * 5000}, "a folder"),
        ({"answers": "~nobody-of-this-name/x"}, "existing file"),
        ({"corpus": Path("passages.jsonl")}, "str(path)"),
        ({"reader": ""}, "a reader"),
        ({"reader": {}}, "the name of a reader or {'name'"),
        ({"rules": {"preset": "paper", "top_k": 101}}, "from 1 to 100"),
        ({"rules": {"preset": "paper", "invalid_reward": 10**400}}, "finite number for 'invalid_reward'"),
        ({"rules": {"preset": "paper", "invalid_reward": True}}, "finite number for 'invalid_reward'"),
        ({"judge": {"name": "model", "agent": object()}}, "plain JSON"),
        ({"corpus": {"world": {"seed": float("nan")}}}, "plain JSON"),
    ],
)
def test_mistakes_are_one_clear_error(config, message):
    with pytest.raises(ConfigError, match="expected") as caught:
        complete(config)
    assert message in str(caught.value)
    assert isinstance(caught.value, SSPError)


def test_the_oracle_is_refused_over_a_real_corpus(corpus):
    with pytest.raises(ConfigError, match="only knows generated worlds"):
        complete({"corpus": corpus, "reader": "oracle"})
