from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import tyro

pytest.importorskip("fastapi")

from benchmarks.speed import run_server  # noqa: E402
from benchmarks.speed.load import encode, put_under_load  # noqa: E402
from ssp_env.corpus import open_corpus  # noqa: E402
from tests.fakes import PASSAGES, FakeRetriever  # noqa: E402
from tests.serve.live import running  # noqa: E402

TEXTS = ("where was the poet born", "which lake does the river flow into", "who painted the town of Marlow")


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "passages.jsonl"
    # enough titles that the workloads do not run out of fresh queries
    rows = [{"id": f"{p.id}-{i}", "title": f"{p.title} {i}", "text": p.text} for i in range(100) for p in PASSAGES]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_workloads_follow_each_other_and_repeat_as_they_say(corpus: Path) -> None:
    rng = np.random.default_rng(0)
    queries = run_server.make_queries(open_corpus([corpus]), TEXTS, rng)
    counts = {}
    for workload in run_server.WORKLOADS:
        stream = run_server.make_stream(workload, queries, TEXTS, rng)
        counts[workload] = Counter(itertools.islice(stream, 128))
        del stream
    assert set(counts["fresh"].values()) == {1}
    assert set(counts["groups"].values()) == {8}
    assert not set(counts["fresh"]) & set(counts["groups"])
    assert set(counts["recorded"]) <= set(TEXTS)


def test_batches_have_the_sizes_asked_for() -> None:
    assert run_server.make_batches(iter("abcdef"), [1, 3, 2]) == [["a"], ["b", "c", "d"], ["e", "f"]]


def test_load_counts_every_answer_and_keeps_some() -> None:
    requests = [[encode(json.dumps({"queries": ["river"], "topk": 2}).encode())] * 5 + [encode(b"{")]] * 4
    with running() as server:
        load = put_under_load(server.port, requests, keep_every=5)
    assert load.statuses == {200: 20, 400: 4}
    assert sorted(load.kept) == [(client, number) for client in range(4) for number in (0, 5)]
    expected = [result.passage.id for result in FakeRetriever().search(["river"], 2)[0]]
    assert [document["id"] for document in json.loads(load.kept[0, 0][1])["result"][0]] == expected
    assert not load.faults and 0 < load.percentile_ms(50) <= load.percentile_ms(99)


def test_load_counts_what_a_dead_server_leaves_unanswered() -> None:
    with running() as server:
        port = server.port
    assert put_under_load(port, [[b"x"] * 3], keep_every=1).faults == {"ConnectionRefusedError": 3}


@pytest.mark.slow
def test_the_script_measures_and_writes_a_card(corpus: Path, tmp_path: Path) -> None:
    (tmp_path / "questions.jsonl").write_text("".join(json.dumps({"question": text}) + "\n" for text in TEXTS))
    options = "--clients 2 --requests 3 --plain-requests 2 --burst 10".split()
    paths = [
        "--corpus",
        str(corpus),
        "--queries",
        str(tmp_path / "questions.jsonl"),
        "--output",
        str(tmp_path / "card.json"),
    ]
    run_server.main(tyro.cli(run_server.Config, args=[*paths, *options]))
    figures = json.loads((tmp_path / "card.json").read_text())["figures"]
    assert figures["fresh_ssp"]["statuses"] == {"200": 6}
    assert figures["fresh_ssp"]["wrong"] == figures["fresh_plain"]["wrong"] == 0
    assert figures["outage_restarted"]["n_searches"] == 2
    assert figures["outage_for_good"]["reward_of_the_step"] is None
