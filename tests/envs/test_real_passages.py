"""The environments over real passages and questions; skipped where there are none."""

from __future__ import annotations

import json

import gymnasium as gym
import pytest

from ssp_env.errors import ConfigError
from ssp_env.registry import clear


@pytest.fixture(scope="module")
def real(data_dir, tmp_path_factory):
    folder = tmp_path_factory.mktemp("real")
    rows = [json.loads(line) for line in (data_dir / "questions_multihop.jsonl").read_text("utf-8").splitlines()]
    rows = [row for row in rows if row["dataset"] == "hotpotqa" and row["answers"]]
    (folder / "tasks.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    answers = [{"id": row["qid"], "answer": row["answers"][0], "aliases": row["answers"][1:]} for row in rows]
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in answers), "utf-8")
    yield {
        "corpus": str(data_dir / "passages_hotpotqa_gold.jsonl"),
        "index_dir": str(folder / "index"),
        "tasks": str(folder / "tasks.jsonl"),
        "answers": str(folder / "answers.jsonl"),
    }
    clear()


def test_searching_for_a_question_shows_passages_that_name_its_subject(real):
    env = gym.make_vec("SearchSolver-v0", num_envs=16, **real)
    env.reset(seed=0)
    questions = [state.task.question for state in env.states]
    observations, *_ = env.step([f"<search>{question}</search>" for question in questions])
    assert all(text.count("Doc ") >= 3 for text in observations)
    answers = [f"<answer>{state.task.answers[0]}</answer>" for state in env.states]
    assert env.step(answers)[1].tolist() == [1.0] * 16


def test_a_round_over_real_passages(real):
    env = gym.make("SearchSelfPlay-v0", rules={"preset": "paper", "n_solves": 1, "answer_in_query": True}, **real)
    _, info = env.reset(seed=1)
    answer = env.unwrapped.state.item.text
    env.step(f"<search>{answer}</search>")
    passage = env.unwrapped.state.turn.results[0].passage
    env.step(f"<search>{passage.title} history</search>")
    question = "Which name is the one that all of these passages have been collected for in the end?"
    _, _, _, _, info = env.step(f"<question>{question}</question>")
    assert info["role"] == "reader"
    _, _, _, _, info = env.step(f"<answer>{answer}</answer>")
    assert info["role"] == "solver" and answer not in info["messages"][-1]["content"]
    _, reward, terminated, _, info = env.step(f"<answer>{answer}</answer>")
    assert (reward, terminated, info["rewards"]["proposer"]) == (1.0, True, [0.0])


def test_the_world_only_oracle_is_refused(real):
    with pytest.raises(ConfigError, match="oracle"):
        gym.make("SearchSelfPlay-v0", **{**real, "reader": "oracle"})


def test_the_proposer_alone_needs_a_reader_over_real_passages(real):
    with pytest.raises(ConfigError, match="reader"):
        gym.make("SearchProposer-v0", **real)
