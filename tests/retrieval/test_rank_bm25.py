from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from ssp_env.errors import ConfigError
from ssp_env.retrieval import make_retriever
from ssp_env.types import Passage
from tests.retrieval_fakes import small_corpus


@dataclass(frozen=True)
class Huge:
    """Claims a size without having any passage."""

    size: int
    fingerprint: str = "0"
    index_dir: Path | None = None

    def __len__(self) -> int:
        return self.size

    def at(self, position: int) -> Passage:
        raise AssertionError(f"read {position}")

    def get(self, passage_id: str) -> Passage:
        raise AssertionError(f"read {passage_id}")


def test_a_corpus_above_fifty_thousand_is_refused_and_bm25_named() -> None:
    with pytest.raises(ConfigError, match="at most 50000 passages, got 50001; use the retriever 'bm25'"):
        make_retriever("rank-bm25", Huge(50_001))


def test_scores_are_those_of_the_package() -> None:
    package = pytest.importorskip("rank_bm25")
    corpus = small_corpus()
    texts = [f"{p.title} {p.text}".lower() for p in (corpus.at(n) for n in range(len(corpus)))]
    words = ["".join(c if c.isalnum() or c == "_" else " " for c in text).split() for text in texts]
    expected = package.BM25Okapi(words).get_scores(["paris", "river"])
    (results,) = make_retriever("rank-bm25", corpus).search(["Paris river?"], 20)
    assert {r.passage.id: r.score for r in results} == pytest.approx(
        {corpus.at(n).id: score for n, score in enumerate(expected) if score != 0}, abs=1e-4
    )
