from __future__ import annotations

from collections.abc import Sequence

import pytest

from ssp_env.corpus import MemoryCorpus
from ssp_env.errors import ConfigError
from ssp_env.retrieval import make_retriever
from ssp_env.retrieval.hybrid import HybridRetriever
from ssp_env.types import Passage, SearchResult
from tests.retrieval_fakes import small_corpus


class Listed:
    """Finds the same passages for every query and keeps the k it was asked for."""

    def __init__(self, ids: str) -> None:
        self.ids = ids
        self.asked: list[int] = []

    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        self.asked.append(k)
        results = [SearchResult(Passage(name, "t", "x"), score=9.0 - n, rank=n) for n, name in enumerate(self.ids)]
        return [results[:k] for _ in queries]


def fused(hybrid: HybridRetriever, k: int = 10) -> list[tuple[str, float]]:
    return [(result.passage.id, result.score) for result in hybrid.search(["q"], k)[0]]


def test_scores_are_sums_of_reciprocal_ranks() -> None:
    scores = dict(fused(HybridRetriever([Listed("abc"), Listed("cd")])))
    assert scores == pytest.approx({"a": 1 / 61, "b": 1 / 62, "c": 1 / 63 + 1 / 61, "d": 1 / 62})


def test_ties_are_ordered_by_id_whoever_found_them() -> None:
    assert [name for name, _ in fused(HybridRetriever([Listed("zb"), Listed("bz")]))] == ["b", "z"]
    assert [name for name, _ in fused(HybridRetriever([Listed("z"), Listed("b"), Listed("k")]), 2)] == ["b", "k"]


def test_weights_and_rrf_k_change_the_order() -> None:
    lists = [Listed("ab"), Listed("bc")]
    assert fused(HybridRetriever(lists))[0][0] == "b"
    assert fused(HybridRetriever(lists, weights=[9.0, 0.1]))[0][0] == "a"
    assert dict(fused(HybridRetriever(lists, rrf_k=0)))["b"] == pytest.approx(1.5)


def test_each_retriever_is_asked_once_to_the_depth_or_k() -> None:
    first = Listed("abcdef")
    hybrid = HybridRetriever([first], depth=4)
    assert len(hybrid.search(["q", "r"], 2)[1]) == 2
    assert len(hybrid.search(["q"], 6)[0]) == 6
    assert first.asked == [4, 6]


@pytest.mark.parametrize(
    "arguments",
    [
        {"weights": [1.0]},
        {"weights": [1.0, 0.0]},
        {"weights": [1.0, -1.0]},
        {"depth": 0},
        {"rrf_k": -1},
        {"rrf_k": 10**400},
    ]
    + [{"weights": [weight, 1]} for weight in ("x", None, True, 10**400, float("inf"))],
)
def test_values_that_do_not_fit_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        HybridRetriever([Listed("a"), Listed("b")], **arguments)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="hybrid: expected|expected a finite number for 'weights.0.' of 'hybrid'"):
        make_retriever("hybrid", small_corpus(), {"retrievers": ["bm25", "bm25"], **arguments})


def test_it_is_made_from_plain_settings() -> None:
    config: dict[str, object] = {"retrievers": ["bm25", {"name": "bm25", "language": "german"}], "weights": [2, 1]}
    hybrid = make_retriever("hybrid", small_corpus(), config)
    assert hybrid.search(["Eiffel Tower"], 1)[0][0].passage.id == "p-eiffel"
    with pytest.raises(ConfigError, match="got 3"):
        make_retriever("hybrid", small_corpus(), {"retrievers": [3]})
    with pytest.raises(ConfigError, match="at least|for each of 0"):
        make_retriever("hybrid", small_corpus(), {"retrievers": []})
    with pytest.raises(ConfigError, match="did you mean 'bm25'"):
        make_retriever("hybrid", small_corpus(), {"retrievers": [{"name": "bm26"}]})


def test_an_outage_of_one_retriever_is_not_hidden() -> None:
    class Broken:
        def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
            from ssp_env.errors import RetrievalError

            raise RetrievalError("down")

    with pytest.raises(Exception, match="down"):
        HybridRetriever([make_retriever("bm25", MemoryCorpus([Passage("a", "t", "x")])), Broken()]).search(["x"], 1)
