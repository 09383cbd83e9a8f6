"""BM25 over 40,782 rows of real Wikipedia passages and 301 real multi-hop questions."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from ssp_env.corpus import JsonlCorpus, open_corpus
from ssp_env.eval.metrics import recall_at
from ssp_env.protocols import Retriever
from ssp_env.retrieval import make_retriever

FLOORS = {"hotpotqa": 0.97, "2wikimultihopqa": 0.95, "musique": 0.88}


@pytest.fixture(scope="module")
def corpus(data_dir: Path, tmp_path_factory: pytest.TempPathFactory) -> JsonlCorpus:
    return open_corpus(sorted(data_dir.glob("passages_*.jsonl")), index_dir=tmp_path_factory.mktemp("index"))


@pytest.fixture(scope="module")
def bm25(corpus: JsonlCorpus) -> Retriever:
    return make_retriever("bm25", corpus)


def test_every_row_is_read_and_repeated_rows_are_left_out(corpus: JsonlCorpus) -> None:
    assert (len(corpus), corpus.n_duplicates) == (40_758, 24)
    for position in range(0, len(corpus), 997):
        assert corpus.get(corpus.at(position).id) == corpus.at(position)


def test_indexing_and_reopening_are_quick(data_dir: Path, tmp_path: Path) -> None:
    paths = sorted(data_dir.glob("passages_*.jsonl"))
    start = time.perf_counter()
    make_retriever("bm25", open_corpus(paths, index_dir=tmp_path))
    built = time.perf_counter() - start
    make_retriever("bm25", open_corpus(paths, index_dir=tmp_path))
    reopened = time.perf_counter() - start - built
    assert built < 60
    assert reopened < built


def test_some_gold_passage_is_in_the_top_ten(data_dir: Path, bm25: Retriever) -> None:
    rows = [json.loads(line) for line in (data_dir / "questions_multihop.jsonl").read_bytes().splitlines()]
    found = bm25.search([row["question"] for row in rows], 10)
    for dataset, floor in FLOORS.items():
        hits = [
            recall_at([r.passage.id for r in results], row["supporting_ids"], k=10) > 0
            for row, results in zip(rows, found, strict=True)
            if row["dataset"] == dataset
        ]
        assert len(hits) >= 100
        assert sum(hits) / len(hits) >= floor, dataset


def test_titles_find_their_passages(corpus: JsonlCorpus, bm25: Retriever) -> None:
    passages = [corpus.at(position) for position in range(0, len(corpus), 100)]
    found = bm25.search([passage.title for passage in passages], 10)
    same = [any(r.passage.title == p.title for r in results) for p, results in zip(passages, found, strict=True)]
    assert sum(same) / len(same) > 0.95


@pytest.mark.parametrize(
    ("sample", "n", "title"), [("search-r1/corpus.jsonl", 10, "Evan Morris"), ("flashrag/sample_data.jsonl", 1000, "")]
)
def test_published_samples_of_search_r1_and_flashrag_are_read(
    data_dir: Path, tmp_path: Path, sample: str, n: int, title: str
) -> None:
    corpus = open_corpus([data_dir / "raw" / sample], index_dir=tmp_path)
    assert len(corpus) == n
    first = corpus.at(0)
    assert title in first.title and first.title and not first.title.startswith('"')
    assert make_retriever("bm25", corpus).search([first.title], 5)[0]
