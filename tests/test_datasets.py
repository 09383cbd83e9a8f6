"""Seeds and tasks from files: the published shapes are read, everything else is one error with file and line."""

from __future__ import annotations

import json

import pytest

from ssp_env.datasets import answer_from_row, read_answers, read_tasks, task_from_row
from ssp_env.errors import ConfigError
from ssp_env.types import Answer, Task


@pytest.mark.parametrize(
    ("row", "task"),
    [
        ({"question": "q?", "answers": ["a", "b"]}, Task("0", "q?", ("a", "b"))),
        ({"id": 7, "question": "q?", "golden_answers": ["a"]}, Task("7", "q?", ("a",))),
        ({"qid": "x", "question": "q?", "answer": "a", "kind": "2-hop"}, Task("x", "q?", ("a",), "2-hop")),
    ],
)
def test_task_shapes(row, task):
    assert task_from_row(row) == task


@pytest.mark.parametrize(
    ("row", "seed"),
    [
        ({"answer": "a"}, Answer("0", "a")),
        ({"id": "s", "ground_truth": ["a", "A."], "search_turns": 3}, Answer("s", "a", ("A.",), 3)),
        ({"answer": "a", "aliases": ["b"], "n_searches": 1}, Answer("0", "a", ("b",), 1)),
        ({"answer": "a", "aliases": []}, Answer("0", "a")),
    ],
)
def test_seed_shapes(row, seed):
    assert answer_from_row(row) == seed


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"question": "q?"},
        {"question": "", "answer": "a"},
        {"question": ["q?"], "answer": "a"},
        {"question": "q?", "answers": []},
        {"question": "q?", "answers": ["a", 3]},
        {"question": "q?", "answers": [" "]},
        {"question": "q?", "answer": "a", "kind": 2},
        {"question": "q?", "answer": "a", "id": True},
        {"question": "q? \ud800", "answer": "a"},
        {"question": "q?", "answers": ["a", "\ud800"]},
        {"question": "q?", "answer": "a", "id": "\ud800"},
        {"question": "q?", "answer": "a", "kind": "\ud800"},
        {"question": "q?", "answer": "a", "id": 10**5000},
        {"question": "q?", "answer": [10**5000]},
    ],
)
def test_bad_tasks_are_refused(row):
    with pytest.raises(ConfigError, match="expected"):
        task_from_row(row)


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"answer": None},
        {"answer": "a", "n_searches": 0},
        {"answer": "a", "n_searches": 10**5000},
        {"answer": "a", "n_searches": -(10**5000)},
        {"answer": "a", "aliases": "  "},
    ],
)
def test_bad_seeds_are_refused(row):
    with pytest.raises(ConfigError, match="expected"):
        answer_from_row(row)


def test_files_are_read_in_order(tmp_path):
    path = tmp_path / "tasks.jsonl"
    rows = [{"question": f"q{i}?", "answer": "ä"} for i in range(3)]
    text = "\n\n".join(json.dumps(row, ensure_ascii=False) for row in rows)
    path.write_text(f"\ufeff{text}\n", encoding="utf-8")
    assert [task.question for task in read_tasks(path)] == ["q0?", "q1?", "q2?"]


@pytest.mark.parametrize(
    ("content", "where"),
    [
        (b'{"answer": "a"}\n{broken\n', "seeds.jsonl:2"),
        (b'{"answer": "a"}\n[1]\n', "seeds.jsonl:2"),
        (b'{"answer": "a"}\n\n{"answer": ""}\n', "seeds.jsonl:3"),
        (b'{"answer": "\xff"}\n', "seeds.jsonl:1"),
        (b"", "at least one row"),
        (b'{"id": "x", "answer": "a"}\n{"id": "x", "answer": "b"}\n', "twice"),
    ],
)
def test_a_bad_file_is_one_error_that_says_where(tmp_path, content, where):
    path = tmp_path / "seeds.jsonl"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=where):
        read_answers(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ConfigError, match="nowhere.jsonl"):
        read_tasks(tmp_path / "nowhere.jsonl")
