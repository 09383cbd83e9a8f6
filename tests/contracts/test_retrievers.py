"""What every retriever promises. A new one is one line in ``RETRIEVERS_UNDER_TEST``."""

from __future__ import annotations

import json
import pickle
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssp_env.corpus import MemoryCorpus
from ssp_env.errors import StaleIndexError
from ssp_env.protocols import Corpus, Retriever
from ssp_env.retrieval import RETRIEVERS, make_retriever
from ssp_env.retrieval.hybrid import HybridRetriever
from ssp_env.retrieval.rerank import RerankRetriever
from ssp_env.retrieval.wrappers import BlockedRetriever, Blocklist
from ssp_env.storage import MANIFEST
from tests.retrieval_fakes import HOSTILE_QUERIES, TWINS, DyingCorpus, SharedWordsScorer, WordEmbedder, small_corpus

Maker = Callable[..., Retriever]


def make_dense(corpus: Corpus, index_dir: Path | None = None, *, rebuild: bool = False) -> Retriever:
    from ssp_env.retrieval.dense import DenseRetriever, DenseSettings

    settings = DenseSettings(rebuild=rebuild)
    embedder_id = "words-64" if index_dir else ""
    return DenseRetriever(corpus, WordEmbedder(), settings=settings, embedder_id=embedder_id, index_dir=index_dir)


def make_bm25(corpus: Corpus, index_dir: Path | None = None, *, rebuild: bool = False) -> Retriever:
    return make_retriever("bm25", corpus, {"rebuild": rebuild}, index_dir=index_dir)


def make_rank_bm25(corpus: Corpus) -> Retriever:
    return make_retriever("rank-bm25", corpus)


def make_hybrid(corpus: Corpus, index_dir: Path | None = None, *, rebuild: bool = False) -> Retriever:
    first = make_bm25(corpus, index_dir, rebuild=rebuild)
    return HybridRetriever([first, make_dense(corpus, index_dir, rebuild=rebuild)])


def make_cache(corpus: Corpus, index_dir: Path | None = None, *, rebuild: bool = False) -> Retriever:
    return make_retriever("cache", corpus, {"base": {"name": "bm25", "rebuild": rebuild}}, index_dir=index_dir)


def make_blocked(corpus: Corpus, index_dir: Path | None = None, *, rebuild: bool = False) -> Retriever:
    return BlockedRetriever(make_bm25(corpus, index_dir, rebuild=rebuild), Blocklist.of(titles=["Москва"]))


def make_rerank(corpus: Corpus, index_dir: Path | None = None, *, rebuild: bool = False) -> Retriever:
    return RerankRetriever(make_bm25(corpus, index_dir, rebuild=rebuild), SharedWordsScorer())


def make_remote(corpus: Corpus) -> Retriever:
    """Serve bm25 over the corpus until the tests of this module are through."""
    from ssp_env.serve.handler import Service
    from ssp_env.serve.wire import ServeLimits
    from tests.serve.live import running

    limits = ServeLimits(max_k=100_000)
    live = _SERVERS.enter_context(running(Service(corpus, make_bm25(corpus), "bm25"), limits=limits))
    return make_retriever("remote", corpus, {"url": live.url})


_SERVERS = ExitStack()


@pytest.fixture(scope="module", autouse=True)
def stop_servers() -> Iterator[None]:
    with _SERVERS:
        yield
    _once.cache_clear()  # closes the connections of the retriever that asks a server


@dataclass(frozen=True)
class Case:
    make: Maker
    needs: str
    saved: bool = True
    lexical: bool = True


RETRIEVERS_UNDER_TEST = {
    "blocklist": Case(make_blocked, "tantivy"),
    "bm25": Case(make_bm25, "tantivy"),
    "cache": Case(make_cache, "tantivy"),
    "dense": Case(make_dense, "faiss", lexical=False),
    "hybrid": Case(make_hybrid, "faiss", lexical=False),
    "rank-bm25": Case(make_rank_bm25, "rank_bm25", saved=False),
    "remote": Case(make_remote, "fastapi", saved=False),
    "rerank": Case(make_rerank, "tantivy"),
}


def cases(*, saved: bool = False, lexical: bool = False) -> pytest.MarkDecorator:
    chosen = {n: c for n, c in RETRIEVERS_UNDER_TEST.items() if c.saved >= saved and c.lexical >= lexical}
    return pytest.mark.parametrize("case", chosen.values(), ids=chosen.keys())


def ready(case: Case) -> Case:
    pytest.importorskip(case.needs)
    return case


def ids(retriever: Retriever, query: str, k: int) -> list[str]:
    return [result.passage.id for result in retriever.search([query], k)[0]]


def test_every_registered_retriever_is_under_contract() -> None:
    assert RETRIEVERS_UNDER_TEST.keys() == RETRIEVERS.keys()


@cases()
def test_best_come_first_with_ranks_from_zero(case: Case) -> None:
    retriever = ready(case).make(small_corpus())
    assert isinstance(retriever, Retriever)
    (results,) = retriever.search(["Eiffel Tower in Paris"], 3)
    assert results[0].passage.id == "p-eiffel"
    assert [result.rank for result in results] == [0, 1, 2]
    assert [r.score for r in results] == sorted((r.score for r in results), reverse=True)
    assert results[0].passage == small_corpus().get("p-eiffel")


@cases()
def test_k_limits_and_never_pads(case: Case) -> None:
    corpus = small_corpus()
    retriever = ready(case).make(corpus)
    assert len(retriever.search(["river Seine"], 1)[0]) == 1
    everything = ids(retriever, "river Seine", 10_000)
    assert 1 <= len(everything) <= len(corpus)
    assert len(set(everything)) == len(everything)
    assert ids(retriever, "river Seine", 2) == everything[:2]


@cases()
@pytest.mark.parametrize("k", [0, -1])
def test_k_that_is_not_positive_is_a_value_error(case: Case, k: int) -> None:
    retriever = ready(case).make(small_corpus())
    with pytest.raises(ValueError, match="positive k"):
        retriever.search(["paris"], k)
    with pytest.raises(ValueError, match="positive k"):
        retriever.search([], k)


@cases()
def test_a_bare_string_is_a_type_error(case: Case) -> None:
    with pytest.raises(TypeError, match=r"pass \[query\]"):
        ready(case).make(small_corpus()).search("paris", 3)


@cases()
def test_a_blank_query_has_no_results_and_no_queries_no_lists(case: Case) -> None:
    retriever = ready(case).make(small_corpus())
    assert retriever.search(["", " \n"], 5) == [[], []]
    assert retriever.search([], 5) == []


@cases(lexical=True)
def test_words_that_occur_nowhere_find_nothing(case: Case) -> None:
    assert ready(case).make(small_corpus()).search(["zyzzyva quux"], 5) == [[]]


@cases()
def test_a_batch_gives_what_single_queries_give(case: Case) -> None:
    retriever = ready(case).make(small_corpus())
    queries = ["capital of France", "", "dance by Pina Bausch", "lighthouse lamps", "Seine"] * 5
    assert retriever.search(queries, 4) == [retriever.search([query], 4)[0] for query in queries]


@cases()
@pytest.mark.parametrize("k", [1, 3, 9, 10])
def test_equal_scores_are_ordered_by_id_also_at_the_cut(case: Case, k: int) -> None:
    retriever = ready(case).make(small_corpus())
    expected = sorted(twin.id for twin in TWINS)
    assert ids(retriever, "lighthouse brass lamps", k) == expected[:k]


@cases()
def test_hostile_queries_are_ordinary_queries(case: Case) -> None:
    retriever = ready(case).make(small_corpus())
    for query in HOSTILE_QUERIES:
        (results,) = retriever.search([query], 5)
        assert len(results) <= 5
    assert ids(retriever, "\ud800 Café Müller dance", 1) == ["p-cafe"]


@cases()
@given(query=st.text(max_size=60))
def test_any_text_is_a_query(case: Case, query: str) -> None:
    assert len(_once(ready(case)).search([query], 3)[0]) <= 3


@cache
def _once(case: Case) -> Retriever:
    return case.make(small_corpus())


@cases()
def test_the_same_results_in_another_process_after_pickling(case: Case, repository: Path, tmp_path: Path) -> None:
    folder = (tmp_path,) if ready(case).saved else ()
    retriever = case.make(small_corpus(), *folder)
    script = (
        "import json, pickle, sys; retriever = pickle.load(sys.stdin.buffer)\n"
        "print(json.dumps([[(x.passage.id, x.score) for x in r] for r in retriever.search(sys.argv[1:], 5)]))"
    )
    queries = ["Paris France river", "lighthouse lamps"]
    found = [[[r.passage.id, r.score] for r in results] for results in retriever.search(queries, 5)]
    child = subprocess.run(
        [sys.executable, "-c", script, *queries],
        input=pickle.dumps(retriever), stdout=subprocess.PIPE, cwd=repository, check=True, timeout=120,
    )  # fmt: skip
    assert json.loads(child.stdout) == found


@cases()
def test_an_index_in_memory_can_be_pickled(case: Case) -> None:
    retriever = ready(case).make(small_corpus())
    again = pickle.loads(pickle.dumps(retriever))
    assert again.search(["Paris France river"], 5) == retriever.search(["Paris France river"], 5)


def manifests(folder: Path) -> dict[Path, int]:
    return {path: path.stat().st_ino for path in sorted(folder.rglob(MANIFEST))}


@cases(saved=True)
def test_a_saved_index_is_opened_not_rebuilt(case: Case, tmp_path: Path) -> None:
    first = ready(case).make(small_corpus(), tmp_path)
    before = manifests(tmp_path)
    again = case.make(DyingCorpus(small_corpus(), deadly=-1), tmp_path)
    assert before and manifests(tmp_path) == before
    in_memory = case.make(small_corpus())
    for query in ("capital of France", "lighthouse", "東京"):
        assert again.search([query], 6) == first.search([query], 6) == in_memory.search([query], 6)


@cases(saved=True)
def test_an_index_of_another_corpus_is_refused_with_a_remedy(case: Case, tmp_path: Path) -> None:
    ready(case).make(small_corpus(), tmp_path)
    other = MemoryCorpus(TWINS)
    with pytest.raises(StaleIndexError, match="delete .*rebuild=True") as refusal:
        case.make(other, tmp_path)
    assert str(tmp_path) in str(refusal.value)
    assert ids(case.make(other, tmp_path, rebuild=True), "lighthouse", 1) == ["twin-0"]
    assert ids(case.make(other, tmp_path), "lighthouse", 1) == ["twin-0"]


@cases(saved=True)
def test_half_written_indexes_are_built_anew(case: Case, tmp_path: Path) -> None:
    expected = ready(case).make(small_corpus(), tmp_path).search(["Paris"], 5)
    for manifest in manifests(tmp_path):
        manifest.unlink()
    assert case.make(small_corpus(), tmp_path).search(["Paris"], 5) == expected
    for manifest in manifests(tmp_path):
        largest = max(manifest.parent.iterdir(), key=lambda path: path.stat().st_size)
        cut = largest.read_bytes()[:-7]
        largest.unlink()  # the file that is still mapped must not shrink under its reader
        largest.write_bytes(cut)
    assert case.make(small_corpus(), tmp_path).search(["Paris"], 5) == expected


@cases(saved=True)
@pytest.mark.parametrize("deadly", [0, 9])
def test_a_build_that_was_killed_leaves_nothing_that_counts(
    case: Case, deadly: int, repository: Path, tmp_path: Path
) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.contracts.test_retrievers import *\n"
        "case = RETRIEVERS_UNDER_TEST[sys.argv[1]]\n"
        "case.make(DyingCorpus(small_corpus(), deadly=int(sys.argv[2])), Path(sys.argv[3]))"
    )
    name = next(name for name, other in RETRIEVERS_UNDER_TEST.items() if other is ready(case))
    child = subprocess.run(
        [sys.executable, "-c", script, name, str(deadly), str(tmp_path)], cwd=repository, timeout=120
    )
    assert child.returncode == -signal.SIGKILL
    assert list(tmp_path.glob(".*.tmp-*")) and not list(tmp_path.glob("[!.]*"))
    assert ids(case.make(small_corpus(), tmp_path), "Eiffel Tower", 1) == ["p-eiffel"]
    assert not list(tmp_path.glob(".*.tmp-*"))


@cases(saved=True)
def test_builders_at_the_same_time_do_not_disturb_each_other(case: Case, repository: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.contracts.test_retrievers import *\n"
        "retriever = RETRIEVERS_UNDER_TEST[sys.argv[1]].make(small_corpus(), Path(sys.argv[2]))\n"
        "print(ids(retriever, 'Eiffel Tower', 1)[0])"
    )
    name = next(name for name, other in RETRIEVERS_UNDER_TEST.items() if other is ready(case))
    command = [sys.executable, "-c", script, name, str(tmp_path)]
    builders = [subprocess.Popen(command, cwd=repository, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [builder.communicate(timeout=120)[0].strip() for builder in builders] == ["p-eiffel", "p-eiffel"]
