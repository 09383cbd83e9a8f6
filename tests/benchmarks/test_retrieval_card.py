from __future__ import annotations

import json
import shlex
import subprocess
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
import tyro

from benchmarks.card import ROOT, command_line, write_card
from benchmarks.run_retrieval import Config, Question, compare, interval, main
from ssp_env.retrieval.rerank import RerankRetriever
from tests.fakes import FakeRetriever
from tests.retrieval_fakes import PASSAGES

SPEED = ["speed/run_index", "speed/run_ingest", "speed/run_server", "speed/plain_server"]


def test_a_card_says_how_to_measure_again(tmp_path: Path) -> None:
    path = tmp_path / "new" / "card.json"
    write_card(path, {"speed_per_s": 2.5}, command="python x.py", seeds=[3], settings={"k": 10})
    card = json.loads(path.read_text())
    assert card["figures"] == {"speed_per_s": 2.5}
    assert (card["command"], card["seeds"], card["settings"]) == ("python x.py", [3], {"k": 10})
    assert card["commit"] and card["machine"]["cpus"] >= 1 and card["versions"]["numpy"] == np.__version__


def test_the_benchmark_measures_a_small_corpus(tmp_path: Path) -> None:
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


def test_a_command_is_typed_from_the_root_of_the_repository(monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--data", str(ROOT.parent / "shared"), "--output", "a b.json", "--seed", "1"]
    monkeypatch.setattr(sys, "argv", [str(ROOT / "benchmarks" / "run_retrieval.py"), *words])
    expected = "python benchmarks/run_retrieval.py --data ../shared --output 'a b.json' --seed 1"
    assert command_line() == expected


@pytest.mark.parametrize("card", sorted((ROOT / "benchmarks" / "results").glob("*.json")), ids=lambda path: path.stem)
def test_the_command_of_a_published_card_is_understood(card: Path) -> None:
    python, script, *words = shlex.split(json.loads(card.read_bytes())["command"])
    config = import_module(script.removesuffix(".py").replace("/", ".")).Config
    assert python == "python" and isinstance(tyro.cli(config, args=words), config)


@pytest.mark.parametrize("name", ["run_retrieval", "run_ablations", "ms_marco", *SPEED])
def test_every_benchmark_runs_as_a_script_and_as_a_module(name: str) -> None:
    script = [sys.executable, f"benchmarks/{name}.py", "--help"]
    done = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and done.stdout.startswith("usage: "), done.stderr
    assert import_module(f"benchmarks.{name.replace('/', '.')}").main


class LastFirst:
    """Scores what comes later higher."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
        return np.arange(len(pairs), dtype=np.float32)


def test_the_reranker_is_compared_with_what_it_orders_anew() -> None:
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
    rng = np.random.default_rng(0)
    assert interval(np.full(9, 0.25), rng=rng, n_resamples=50) == {"mean": 0.25, "low": 0.25, "high": 0.25}
    wide = interval(np.arange(100.0), rng=rng, n_resamples=2000)
    assert 40 < wide["low"] < 46 and 53 < wide["high"] < 59
