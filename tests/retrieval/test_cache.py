from __future__ import annotations

import pickle
import threading

import pytest

from ssp_env.errors import RetrievalError
from ssp_env.retrieval.wrappers import CachedRetriever, LruCache, QueryCache
from tests.fakes import BrokenRetriever, FakeRetriever


def cached(
    retriever: FakeRetriever, cache: QueryCache, *, name: str = "bm25", fingerprint: str = "f"
) -> CachedRetriever:
    return CachedRetriever(retriever, cache, name=name, fingerprint=fingerprint)


def test_known_queries_are_not_searched_again() -> None:
    inner = FakeRetriever()
    retriever = cached(inner, QueryCache(10**6))
    first = retriever.search(["river", "town", "river"], 2)
    assert inner.batches == [["river", "town"]]
    assert retriever.search(["town", "poet", "river"], 2) == [first[1], *FakeRetriever().search(["poet"], 2), first[0]]
    assert inner.batches == [["river", "town"], ["poet"]]


def test_results_equal_those_of_the_wrapped_retriever() -> None:
    queries = ["river", "", "nothing matches this", "river", "metal"]
    retriever = cached(FakeRetriever(), QueryCache(10**6))
    for _ in range(2):
        assert retriever.search(queries, 3) == FakeRetriever().search(queries, 3)


def test_empty_results_are_remembered_too() -> None:
    inner = FakeRetriever()
    retriever = cached(inner, QueryCache(10**6))
    assert retriever.search(["xyzzy"], 3) == retriever.search(["xyzzy"], 3) == [[]]
    assert len(inner.batches) == 1


def test_callers_cannot_change_what_is_remembered() -> None:
    retriever = cached(FakeRetriever(), QueryCache(10**6))
    retriever.search(["river"], 3)[0].clear()
    assert retriever.search(["river"], 3) == FakeRetriever().search(["river"], 3)


@pytest.mark.parametrize("change", [{"name": "dense"}, {"fingerprint": "other"}])
def test_other_retriever_or_corpus_never_shares_results(change: dict[str, str]) -> None:
    cache: QueryCache = QueryCache(10**6)
    cached(FakeRetriever(), cache).search(["river"], 3)
    other = FakeRetriever()
    cached(other, cache, **change).search(["river"], 3)
    assert other.batches == [["river"]]


def test_other_k_is_another_search() -> None:
    inner = FakeRetriever()
    retriever = cached(inner, QueryCache(10**6))
    assert [len(retriever.search(["river"], k)[0]) for k in (3, 1, 2)] == [3, 1, 2]
    assert len(inner.batches) == 3


def test_failures_are_raised_and_not_remembered() -> None:
    broken = BrokenRetriever("river")
    retriever = CachedRetriever(broken, QueryCache(10**6), name="b", fingerprint="f")
    with pytest.raises(RetrievalError):
        retriever.search(["river"], 3)
    broken.word = "no such word"
    assert retriever.search(["river"], 3) == FakeRetriever().search(["river"], 3)


def test_k_must_be_positive_even_when_everything_is_cached() -> None:
    with pytest.raises(ValueError, match="positive k"):
        cached(FakeRetriever(), QueryCache(10**6)).search([], 0)


def test_cost_stays_within_the_bound_and_the_least_recently_used_goes_first() -> None:
    cache: LruCache[int] = LruCache(10)
    for key in range(5):
        cache.put(key, key, cost=3)
        assert cache.cost <= 10
    assert [cache.get(key) for key in range(5)] == [None, None, 2, 3, 4]
    cache.get(2)
    cache.put(5, 5, cost=3)
    assert [cache.get(key) for key in (2, 3, 4, 5)] == [2, None, 4, 5]


def test_replacing_a_value_replaces_its_cost_and_a_costly_one_is_not_kept() -> None:
    cache: LruCache[str] = LruCache(10)
    cache.put("a", "x", cost=4)
    cache.put("a", "y", cost=2)
    assert (cache.get("a"), cache.cost, len(cache)) == ("y", 2, 1)
    cache.put("a", "z", cost=11)
    assert (cache.get("a"), cache.cost, len(cache)) == (None, 0, 0)


def test_bound_must_not_be_negative() -> None:
    with pytest.raises(ValueError, match="at least 0"):
        LruCache(-1)


def test_pickling_keeps_the_bound_and_drops_the_values() -> None:
    retriever = cached(FakeRetriever(), QueryCache(1234))
    retriever.search(["river"], 3)
    copy = pickle.loads(pickle.dumps(retriever))
    assert copy._cache.max_cost == 1234
    assert len(copy._cache) == 0
    assert copy.search(["river"], 3) == retriever.search(["river"], 3)


def test_threads_share_a_cache() -> None:
    cache: QueryCache = QueryCache(20_000)
    retriever = cached(FakeRetriever(), cache)
    expected = {query: FakeRetriever().search([query], 3) for query in ("river", "town", "metal", "poet")}
    wrong: list[str] = []

    def work() -> None:
        wrong.extend(q for _ in range(200) for q, found in expected.items() if retriever.search([q], 3) != found)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    assert 0 < cache.cost <= 20_000
