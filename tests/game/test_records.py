"""Rounds as JSON and their figures."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ssp_env.errors import RunError
from ssp_env.game.pool import QuestionPool
from ssp_env.game.records import SCHEMA, read_records, round_record, round_statistics, trajectory_record
from ssp_env.game.rules import GameRules
from ssp_env.game.selfplay import Agents, run_rounds
from ssp_env.types import Conversation, Round, Sampling, Task, Validation
from tests.fakes import PASSAGES, PROPOSAL, QUESTION, SEED, BrokenAgent, FunctionAgent, ScriptedAgent, tiny_game

READ = "<answer>Lake Tarn</answer>"
SOLVE = ("<think>Elm?</think><search>river Elm</search>", "no tag", READ)


def rollout(proposer=PROPOSAL, solver=None, *, reader=None, n: int = 1, pool=None, **rules) -> list[Round]:
    players = Agents(ScriptedAgent(proposer), solver or ScriptedAgent(SOLVE), reader or ScriptedAgent([READ]))
    plan = [(tiny_game(GameRules(**rules)), SEED)] * n
    pool = QuestionPool() if pool is None else pool
    return run_rounds(plan, players, pool=pool, rng=np.random.default_rng(0), sampling=Sampling())


def test_record_holds_the_game_whole_and_is_plain_json() -> None:
    (played,) = rollout(n_solves=2, solver_reward="binary")
    record = round_record(played)
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["schema"] == SCHEMA
    assert record["answer"] == {"id": "s0", "answer": "Lake Tarn", "aliases": ["Tarn Lake"], "n_searches": 2}
    validation = record["validation"]
    (reading,) = validation.pop("readings")  # type: ignore[attr-defined]
    assert validation == {"reason": "ok", "response": "Lake Tarn", "error": ""}
    assert (reading["kind"], reading["response"], reading["error"]) == ("gate", "Lake Tarn", "")
    assert reading["verdicts"] == [{"label": "correct", "method": "exact", "detail": ""}]
    assert record["corpus"] == record["task_corpus"] == tiny_game().corpus.fingerprint
    assert record["task"] == {"id": "s0", "question": QUESTION, "answers": ["Lake Tarn", "Tarn Lake"], "kind": ""}
    assert (record["origin"], record["success_rate"], record["proposer_reward"]) == ("fresh", 1.0, 0.0)
    assert record["proposal"]["queries"] == ["river Elm Lake Tarn", "town Oxley poet Finch"]  # type: ignore[index]
    solve = record["solves"][0]  # type: ignore[index]
    assert solve["verdict"] == {"label": "correct", "method": "exact", "detail": ""}
    assert (solve["status"], solve["reward"], solve["final"]) == ("finished", 1.0, "Lake Tarn")
    assert [turn["action"]["kind"] for turn in solve["turns"]] == ["tool", "invalid", "final"]
    assert solve["turns"][0] == {
        "text": SOLVE[0],
        "dropped": "",
        "finish": "stop",
        "action": {"kind": "tool", "tool": "search", "argument": "river Elm"},
        "passages": ["p1", "p2", "p4"],
    }


def test_every_reading_behind_a_validation_is_recorded_with_its_passages_as_they_were_shown() -> None:
    prompts: list[str] = []

    def read(conversation: Conversation) -> str:
        prompts.append(conversation.prompt[-1]["content"])
        return READ if len(prompts) == 1 else "<answer>Lake Mere</answer>"

    (played,) = rollout(reader=FunctionAgent(read), n_distractors=1, closed_book_probe=True, chain="searches")
    assert played.validation.ok
    record = round_record(played)
    gate, closed_book, *chain = record["validation"]["readings"]  # type: ignore[index]
    assert [made["kind"] for made in (gate, closed_book, *chain)] == ["gate", "closed_book", "chain", "chain"]
    assert [made["verdicts"][0]["label"] for made in (gate, closed_book, *chain)] == ["correct"] + ["wrong"] * 3
    evidence = {id_ for turn in record["proposal"]["turns"] for id_ in turn["passages"]}  # type: ignore[index]
    assert len(gate["passages"]) == len(evidence) + 1 and evidence < set(gate["passages"])
    assert len(closed_book["passages"]) == 1 and not evidence & set(closed_book["passages"])
    for made, prompt in zip((gate, closed_book, *chain), prompts, strict=True):
        places = [prompt.index(passage.text) for id_ in made["passages"] for passage in PASSAGES if passage.id == id_]
        assert places == sorted(places) and len(places) == len(made["passages"])


def test_a_reading_that_failed_is_recorded_too() -> None:
    (played,) = rollout(reader=BrokenAgent())
    (reading,) = round_record(played)["validation"]["readings"]  # type: ignore[index]
    assert (reading["error"], reading["verdicts"]) == ("AgentError: the agent is down", [])


def test_a_reused_task_names_its_own_corpus() -> None:
    pool = QuestionPool()
    pool.add("other", Task("t", "What?", ("x",)), success_rate=0.0)
    players = Agents(ScriptedAgent(("talk",)), ScriptedAgent(SOLVE), ScriptedAgent([READ]))
    game = tiny_game(GameRules(filling="reuse", max_turns=2))
    (played,) = run_rounds(
        [(game, SEED)],
        players,
        pool=pool,
        rng=np.random.default_rng(0),
        sampling=Sampling(),
        games=[tiny_game(game.rules, fingerprint="other")],
    )
    record = round_record(played)
    assert (record["origin"], record["corpus"], record["task_corpus"]) == ("reused", "fake", "other")


def test_rejected_and_failed_rounds_are_recorded_too() -> None:
    (rejected,) = rollout(proposer=("talk",), filling="none", max_turns=2)
    record = round_record(rejected)
    assert record["validation"]["reason"] == "no_question"  # type: ignore[index]
    assert (record["task"], record["solves"], record["success_rate"]) == (None, [], None)
    (failed,) = rollout(solver=BrokenAgent())
    solves = round_record(failed)["solves"]
    assert {solve["error"] for solve in solves} == {"AgentError: the agent is down"}  # type: ignore[attr-defined]


OLD = Path(__file__).parent / "data" / "rounds_schema_1.jsonl"
"""Two rounds as version 1 of the schema had them."""


def test_old_rounds_are_read_as_new_ones() -> None:
    old = [json.loads(line) for line in OLD.read_text().splitlines()]
    records = list(read_records(OLD))
    assert [record["schema"] for record in old] == [1, 1]
    assert [record["answer"] for record in records] == [record["seed"] for record in old]
    for before, after in zip(old, records, strict=True):
        assert after["schema"] == SCHEMA and "seed" not in after
        assert {k: v for k, v in after.items() if k not in ("answer", "schema")} == {
            k: v for k, v in before.items() if k not in ("seed", "schema")
        }
    (played,) = rollout()
    assert set(round_record(played)) <= set(records[0])
    assert set(round_record(played)["answer"]) == set(records[0]["answer"])  # type: ignore[call-overload]


def test_new_records_are_read_as_they_were_written(tmp_path) -> None:
    (played,) = rollout()
    lines = [{"round": 3, **round_record(played)}, {"schema": 1, "env": None, "item": {}, "episodes": []}]
    path = tmp_path / "mixed.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert list(read_records(path)) == [lines[0], {**lines[1], "schema": SCHEMA}]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"schema": 2, "answer"', "with its schema, got .*schema.* 2, .*; delete the line"),
        ("", "x.jsonl:2: expected a record as a JSON object"),
        ("[1]", "x.jsonl:2: expected a record as a JSON object"),
        ('{"answer": {}}', "x.jsonl:2: expected a record as a JSON object"),
        ('{"schema": 3}', "x.jsonl:2: expected schema 1 to 2, got 3; read it with the version that wrote it"),
        ('{"schema": true}', "x.jsonl:2: expected schema 1 to 2, got True"),
    ],
)
def test_a_line_that_is_no_record_is_named(line, message, tmp_path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(OLD.read_text().splitlines()[0] + f"\n{line}\n")
    records = read_records(path)
    assert next(records)["schema"] == SCHEMA
    with pytest.raises(RunError, match=message):
        next(records)


def test_a_file_that_cannot_be_read_is_named(tmp_path) -> None:
    (tmp_path / "latin.jsonl").write_bytes(b"\xff\n")
    for name in ("missing.jsonl", "latin.jsonl"):
        with pytest.raises(RunError, match=f"a file of records, got .*{name}.*name another"):
            list(read_records(tmp_path / name))


def test_prompts_are_written_on_request() -> None:
    (played,) = rollout()
    assert "prompt" not in trajectory_record(played.proposal)
    record = round_record(played, with_prompts=True)
    assert "Answer: Lake Tarn" in record["proposal"]["prompt"][-1]["content"]  # type: ignore[index]
    assert QUESTION in record["solves"][0]["prompt"][-1]["content"]  # type: ignore[index]


def test_statistics_of_a_mixed_batch() -> None:
    count = iter(range(100))
    pool = QuestionPool()
    solver = FunctionAgent(lambda _: READ if next(count) % 4 == 0 else "<answer>x</answer>")
    first, second = rollout(solver=solver, n=2, pool=pool, n_solves=4)
    bad = replace(first, validation=Validation("too_short"), origin="dummy", proposer_reward=0.0)
    lost = replace(second, validation=Validation("failed"), origin="none", solves=(), verdicts=(), proposer_reward=None)
    figures = round_statistics([first, second, bad, lost], pool)
    assert figures["valid_rate"] == pytest.approx(2 / 3)
    assert figures["solver_accuracy"] == 0.25
    assert figures["proposer_reward"] == pytest.approx((0.75 + 0.75 + 0.0) / 3)
    assert (figures["proposer_searches"], figures["solver_searches"], figures["demanded_searches"]) == (2, 0, 2)
    assert figures["zero_variance_share"] == 0.0
    assert figures["duplicate_rate"] == 0.75
    assert (figures["n_proposals"], figures["n_solves"], figures["n_failed_solves"]) == (4, 8, 0)
    assert [figures[f"slots/{origin}"] for origin in ("fresh", "reused", "dummy", "none")] == [2, 0, 1, 1]
    assert (figures["rejected/too_short"], figures["rejected/failed"], figures["rejected/no_evidence"]) == (1, 1, 0)
    assert (figures["pool_size"], figures["pool_age"]) == (2, 1.0)


def test_groups_without_variance_and_failed_solves_are_counted() -> None:
    figures = round_statistics(rollout())
    assert figures["zero_variance_share"] == 1.0 and figures["n_failed_solves"] == 0
    figures = round_statistics(rollout(solver=BrokenAgent()))
    assert figures["n_failed_solves"] == 5
    assert figures["zero_variance_share"] is figures["solver_accuracy"] is figures["proposer_reward"] is None


def test_nothing_counted_is_none_and_not_zero() -> None:
    figures = round_statistics([])
    assert figures["valid_rate"] is None and figures["n_proposals"] == 0
    assert "pool_size" not in figures
