from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from benchmarks.card import write_card
from ssp_env.retrieval.rerank import RerankRetriever
from tests.fakes import FakeRetriever
from tests.retrieval_fakes import PASSAGES


def test_a_card_says_how_to_measure_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "card.json"
    write_card(path, {"speed_per_s": 2.5}, command="python x.py", seeds=[3], settings={"k": 10})
    card = json.loads(path.read_text())
    assert card["figures"] == {"speed_per_s": 2.5}
    assert (card["command"], card["seeds"], card["settings"]) == ("python x.py", [3], {"k": 10})
    assert card["commit"] and card["machine"]["cpus"] >= 1 and card["versions"]["numpy"] == np.__version__


def test_the_benchmark_measures_a_small_corpus(tmp_path: Path) -> None:
    pytest.importorskip("tyro")
    from benchmarks.run_retrieval import Config, main

    rows = [json.dumps({"id": p.id, "title": p.title, "text": p.text}) for p in PASSAGES]
    (tmp_path / "passages_x.jsonl").write_text("\n".join(rows))
    questions = [
        ("Who was born on the Eiffel Tower?", ["p-eiffel"]),
        ("Which city is on the Seine?", ["p-paris", "p-0"]),
    ]
    lines = [json.dumps({"dataset": "x", "question": q, "supporting_ids": gold}) for q, gold in questions]
    (tmp_path / "questions_multihop.jsonl").write_text("\n".join(lines))
    output = tmp_path / "card.json"
    main(Config(data=tmp_path, index_dir=tmp_path / "index", lexical_only=True, n_resamples=200, output=output))
    bm25 = json.loads(output.read_text())["figures"]["bm25"]
    assert bm25["by_dataset"] == {"x": {"n": 2, "any_gold_in_top_10": 1.0, "mean_recall_at_10": 0.75}}
    assert bm25["mean_recall_at_10"] == {"mean": 0.75, "low": 0.5, "high": 1.0}


class LastFirst:
    """Scores what comes later higher."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
        return np.arange(len(pairs), dtype=np.float32)


def test_the_reranker_is_compared_with_what_it_orders_anew() -> None:
    pytest.importorskip("tyro")
    from benchmarks.run_retrieval import Question, compare

    hybrid = FakeRetriever()
    found = [result.passage.id for result in hybrid.search(["river"], 10)[0]]
    assert len(found) == 4
    retrievers = {"bm25": hybrid, "hybrid": hybrid, "hybrid+rerank": RerankRetriever(hybrid, LastFirst())}
    figures = compare(retrievers, [Question("x", "river", frozenset({found[-1]}))] * 3, seed=0, n_resamples=50)
    assert figures["hybrid+rerank_minus_hybrid_mrr_at_10"] == {"mean": 0.75, "low": 0.75, "high": 0.75}
    assert figures["hybrid+rerank_minus_hybrid_recall_at_3"] == {"mean": 1.0, "low": 1.0, "high": 1.0}
    unchanged = {"mean": 0.0, "low": 0.0, "high": 0.0}
    assert figures["hybrid+rerank_minus_hybrid_recall_at_10"] == unchanged
    assert figures["hybrid_minus_bm25_recall_at_10"] == unchanged


def test_the_interval_of_equal_differences_has_no_width() -> None:
    pytest.importorskip("tyro")
    from benchmarks.run_retrieval import interval

    rng = np.random.default_rng(0)
    assert interval(np.full(9, 0.25), rng=rng, n_resamples=50) == {"mean": 0.25, "low": 0.25, "high": 0.25}
    wide = interval(np.arange(100.0), rng=rng, n_resamples=2000)
    assert 40 < wide["low"] < 46 and 53 < wide["high"] < 59
