"""Recorded episodes: whole lines with everything that counts, a spec that can be rebuilt, clear refusals."""

from __future__ import annotations

import json
import resource
import signal
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import gymnasium as gym
import pytest
from gymnasium.envs.registration import EnvSpec
from gymnasium.utils.env_checker import check_env

from ssp_env import RecordEpisodes
from ssp_env.envs import ENV_IDS
from ssp_env.envs.base import TextEnv
from ssp_env.envs.settle import SelfPlayScenario
from ssp_env.errors import ConfigError
from ssp_env.game.records import SCHEMA
from ssp_env.game.rules import GameRules
from tests.fakes import PROPOSAL, QUESTION, SEED, FixedReader, tiny_game

SOLVES = ("<search>Elm</search>", "<answer>Lake Tarn</answer>", "<answer>Lake Mere</answer>")


def lines(path):
    return [json.loads(line) for line in Path(path).read_text("utf-8").splitlines()]


def play_round(path, actions=(*PROPOSAL, *SOLVES), **options):
    inner = TextEnv(SelfPlayScenario(), tiny_game(GameRules(n_solves=2), reader=FixedReader()))
    env = RecordEpisodes(inner, path, **options)
    env.reset(seed=0)
    for action in actions:
        env.step(action)
    return env


def solve(path, n=1, answer="é"):
    env = RecordEpisodes(gym.make("SearchSolver-v0"), str(path))
    for seed in range(n):
        env.reset(seed=seed)
        env.step(f"<answer>{answer}</answer>")
    return env


def test_a_round_is_written_whole(tmp_path):
    play_round(tmp_path / "e.jsonl")
    (row,) = lines(tmp_path / "e.jsonl")
    assert (row["schema"], row["env"], row["terminated"], row["truncated"]) == (SCHEMA, None, True, False)
    assert (row["item"]["answer"], row["task"]["question"]) == (SEED.text, QUESTION)
    (made,) = row["validation"].pop("readings")
    assert row["validation"] == {"reason": "ok", "response": "Lake Tarn", "error": ""}
    assert (made["kind"], made["response"], made["verdicts"][0]["label"]) == ("gate", "Lake Tarn", "correct")
    told = [(e["role"], e["reward"], e.get("verdict", {}).get("label")) for e in row["episodes"]]
    assert told == [("proposer", 0.5, None), ("solver", 1.0, "correct"), ("solver", 0.0, "wrong")]
    assert row["episodes"][1]["turns"][0]["action"] == {"kind": "tool", "tool": "search", "argument": "Elm"}
    assert "p2" in row["episodes"][1]["turns"][0]["passages"] and "prompt" not in row["episodes"][0]


def test_prompts_and_rejections_are_written_where_asked_for(tmp_path):
    play_round(tmp_path / "e.jsonl", ["<question>Why?</question>"], with_prompts=True)
    (row,) = lines(tmp_path / "e.jsonl")
    assert (row["validation"]["reason"], row["task"]) == ("too_short", None)
    assert SEED.text in row["episodes"][0]["prompt"][-1]["content"]


def test_episodes_follow_one_another_and_unfinished_ones_are_left_out(tmp_path):
    env = solve(tmp_path / "e.jsonl", n=2)
    env.reset(seed=5)
    env.step("<search>town</search>")
    env.reset(seed=6)
    solve(tmp_path / "e.jsonl")
    rows = lines(tmp_path / "e.jsonl")
    assert [row["env"] for row in rows] == ["SearchSolver-v0"] * 3
    assert rows[0] == rows[2] != rows[1] and rows[0]["episodes"][0]["final"] == "é"


def test_an_episode_cut_by_a_step_limit_is_written_as_it_was(tmp_path):
    env = RecordEpisodes(gym.make("SearchSolver-v0", max_episode_steps=1), tmp_path / "e.jsonl")
    env.reset(seed=0)
    env.step("<search>town</search>")
    (row,) = lines(tmp_path / "e.jsonl")
    assert (row["truncated"], row["episodes"][0]["status"], row["episodes"][0]["reward"]) == (True, "running", None)


@pytest.mark.parametrize("env_id", sorted(ENV_IDS))
@pytest.mark.filterwarnings("ignore:.*different from the unwrapped version")
def test_the_spec_can_be_rebuilt_and_the_checker_passes(env_id, tmp_path):
    path = tmp_path / "e.jsonl"
    env = RecordEpisodes(gym.make(env_id, rules={"preset": "world", "max_turns": 2}), str(path), with_prompts=True)
    again = gym.make(EnvSpec.from_json(env.spec.to_json()))
    assert isinstance(again, RecordEpisodes) and again.spec == env.spec
    again.reset(seed=0)
    again.step("hello")
    again.step("hello")
    assert [row["env"] for row in lines(path)] == [env_id]
    check_env(env)


def test_a_file_cut_anywhere_is_taken_up_at_its_last_whole_line(tmp_path):
    path = tmp_path / "e.jsonl"
    env = solve(path, n=2, answer="é" * 20_000)
    whole = path.read_bytes()
    first = whole.index(b"\n") + 1
    for size in (0, 1, 2, 20, 1000, first - 1, first, first + 1, first + 70_000, len(whole) - 1, len(whole)):
        path.write_bytes(whole[:size])
        RecordEpisodes(gym.make("SearchSolver-v0"), path)
        kept = {0: b"", 1: whole[:first], 2: whole}[(whole[:size] + b"\n").count(b"}\n")]
        assert path.read_bytes() == kept
    path.write_bytes(whole[:-5])
    env.reset(seed=1)
    env.step(f"<answer>{'é' * 20_000}</answer>")
    assert path.read_bytes() == whole


def test_a_line_that_finds_no_room_leaves_no_part_of_itself(tmp_path):
    path = tmp_path / "e.jsonl"
    env = solve(path)
    first = path.read_bytes()
    path.write_bytes(first[:-1])
    env.reset(seed=1)
    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(first) + 5000, limit[1]))
    try:
        with pytest.raises(ConfigError, match="make room"):
            env.step(f"<answer>{'x' * 20_000}</answer>")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)
    assert path.read_bytes() == first[:-1]
    env.reset(seed=0)
    env.step("<answer>é</answer>")
    assert path.read_bytes() == first * 2


def test_environments_share_a_file(tmp_path):
    path = tmp_path / "e.jsonl"
    with ThreadPoolExecutor(4) as pool:  # a lock holds for a file that was opened, be it here or in another process
        list(pool.map(partial(solve, path), [20] * 4))
    env = gym.make_vec(
        "SearchSolver-v0", num_envs=2, vectorization_mode="sync", wrappers=[partial(RecordEpisodes, path=str(path))]
    )
    env.reset(seed=0)
    env.step(("<answer>x</answer>",) * 2)
    assert len(lines(path)) == 82


@pytest.mark.parametrize("path", [None, 3, b"e.jsonl", "", "missing/e.jsonl", ".", "a\0b"])
def test_a_path_that_cannot_be_used_is_refused(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError, match="expected a (path|file)"):
        RecordEpisodes(gym.make("SearchSolver-v0"), path)


def test_other_files_and_other_environments_are_left_alone(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("dear diary")
    with pytest.raises(ConfigError, match="unfinished line of something else"):
        solve(path)
    assert path.read_text() == "dear diary"
    with pytest.raises(ConfigError, match="environment of this library"):
        RecordEpisodes(gym.make("CartPole-v1"), tmp_path / "e.jsonl")
