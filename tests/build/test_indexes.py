from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from ssp_env.build import BuildOptions, build_dense
from ssp_env.corpus import MemoryCorpus
from ssp_env.errors import ConfigError, StaleIndexError
from ssp_env.retrieval.dense import DenseRetriever, DenseSettings
from ssp_env.retrieval.faiss_index import load_faiss
from ssp_env.types import Passage
from ssp_env.world import World, WorldConfig
from tests.retrieval_fakes import WordEmbedder

pytest.importorskip("faiss")

N = 400
APPROXIMATE = ("ivf-sq8", "hnsw-sq8", "ivf-pq")
QUERIES = [f"{name} town river" for name in "abcdefgh"]


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    """A graph has the same bytes only when one thread builds it."""
    faiss = load_faiss()
    before = faiss.omp_get_max_threads()
    faiss.omp_set_num_threads(1)
    yield
    faiss.omp_set_num_threads(before)


@pytest.fixture(scope="module")
def corpus() -> MemoryCorpus:
    return MemoryCorpus(World(WorldConfig(n_entities=N)).passages)


def build(corpus: MemoryCorpus, folder: Path, kind: str, *, block: int = 150) -> Path:
    options = BuildOptions(shard_passages=64, block=block)
    manifest = build_dense(
        corpus, WordEmbedder, embedder_id="words", settings=DenseSettings(kind=kind), index_dir=folder, options=options
    )
    return Path(str(manifest["folder"]))


def opened(corpus: MemoryCorpus, folder: Path, kind: str, *, effort: int = 0) -> DenseRetriever:
    settings = DenseSettings(kind=kind, effort=effort)
    return DenseRetriever(corpus, WordEmbedder(), settings=settings, embedder_id="words", index_dir=folder)


def exact_query(passage: Passage) -> str:
    return f"{passage.title}\n{passage.text}"


def ids(retriever: DenseRetriever, queries: list[str], k: int = 10) -> list[list[str]]:
    return [[result.passage.id for result in results] for results in retriever.search(queries, k)]


@pytest.mark.parametrize("kind", APPROXIMATE)
def test_the_default_effort_finds_nearly_what_exact_search_finds(
    kind: str, corpus: MemoryCorpus, tmp_path: Path
) -> None:
    build(corpus, tmp_path, kind)
    queries = [exact_query(corpus.at(n)) for n in range(0, N, 8)]
    exact = ids(DenseRetriever(corpus, WordEmbedder()), queries)
    found = ids(opened(corpus, tmp_path, kind), queries)
    hits = [len(set(e) & set(f)) / 10 for e, f in zip(exact, found, strict=True)]
    assert np.mean(hits) >= 0.95
    assert all(len(f) == 10 for f in found)


def test_little_effort_finds_less(corpus: MemoryCorpus, tmp_path: Path) -> None:
    build(corpus, tmp_path, "ivf-sq8")
    queries = [exact_query(corpus.at(n)) for n in range(0, N, 8)]
    assert ids(opened(corpus, tmp_path, "ivf-sq8", effort=1), queries) != ids(
        opened(corpus, tmp_path, "ivf-sq8"), queries
    )


@pytest.mark.parametrize("kind", ["ivf-sq8", "ivf-pq"])
def test_blocks_merged_on_disk_find_what_one_block_finds(kind: str, corpus: MemoryCorpus, tmp_path: Path) -> None:
    merged = build(corpus, tmp_path / "many", kind, block=100)
    single = build(corpus, tmp_path / "one", kind, block=10_000)
    assert (merged / "lists.ivfdata").exists() and not (single / "lists.ivfdata").exists()
    assert not list(merged.glob("part-*"))
    found = [opened(corpus, tmp_path / name, kind).search(QUERIES, 20) for name in ("many", "one")]
    assert found[0] == found[1]


@pytest.mark.parametrize("kind", APPROXIMATE)
def test_the_same_vectors_give_the_same_bytes(kind: str, corpus: MemoryCorpus, tmp_path: Path) -> None:
    contents = []
    for name in ("a", "b"):
        folder = build(corpus, tmp_path / name, kind)
        contents.append({p.name: p.read_bytes() for p in sorted(folder.iterdir()) if p.name != "manifest.json"})
    assert contents[0] == contents[1]


def test_a_folder_may_be_moved(corpus: MemoryCorpus, tmp_path: Path) -> None:
    build(corpus, tmp_path / "old", "ivf-sq8", block=100)
    expected = opened(corpus, tmp_path / "old", "ivf-sq8").search(QUERIES, 5)
    shutil.move(tmp_path / "old", tmp_path / "new")
    assert opened(corpus, tmp_path / "new", "ivf-sq8").search(QUERIES, 5) == expected


def test_an_index_is_read_from_disk_and_leaves_pickles_small(corpus: MemoryCorpus, tmp_path: Path) -> None:
    build(corpus, tmp_path, "ivf-pq")
    retriever = opened(corpus, tmp_path, "ivf-pq")
    copy = pickle.loads(pickle.dumps(retriever))
    assert copy.search(QUERIES, 5) == retriever.search(QUERIES, 5)
    scores = [r.score for r in retriever.search([exact_query(corpus.at(7))], 5)[0]]
    assert scores[0] == pytest.approx(1.0, abs=1e-3) and scores == sorted(scores, reverse=True)


def test_a_flat_index_is_the_one_the_retriever_builds(corpus: MemoryCorpus, tmp_path: Path) -> None:
    folder = build(corpus, tmp_path, "auto")
    before = (folder / "manifest.json").read_bytes()
    assert opened(corpus, tmp_path, "flat").search(QUERIES, 5) == DenseRetriever(corpus, WordEmbedder()).search(
        QUERIES, 5
    )
    assert (folder / "manifest.json").read_bytes() == before


def test_an_approximate_index_that_is_missing_or_stale_is_refused(corpus: MemoryCorpus, tmp_path: Path) -> None:
    with pytest.raises(StaleIndexError, match="run 'ssp index build'"):
        opened(corpus, tmp_path, "ivf-sq8")
    build(corpus, tmp_path, "ivf-sq8")
    with pytest.raises(StaleIndexError, match="delete"):
        opened(MemoryCorpus(World(WorldConfig(seed=1)).passages), tmp_path, "ivf-sq8")
    with pytest.raises(ConfigError, match="expected an index_dir"):
        DenseRetriever(corpus, WordEmbedder(), settings=DenseSettings(kind="ivf-pq"))


def test_what_a_gpu_cannot_search_is_refused(corpus: MemoryCorpus, tmp_path: Path) -> None:
    if load_faiss().get_num_gpus():
        pytest.skip("this machine has a GPU")
    for kind, message in (("hnsw-sq8", "no graphs on GPUs"), ("ivf-pq", "on the CPU"), ("ivf-sq8", "faiss-gpu")):
        settings = DenseSettings(kind=kind, search_device="cuda")
        with pytest.raises(ConfigError, match=message):
            DenseRetriever(corpus, WordEmbedder(), settings=settings, embedder_id="words", index_dir=tmp_path)
    with pytest.raises(ConfigError, match="'cpu' or 'cuda'"):
        DenseRetriever(corpus, WordEmbedder(), settings=DenseSettings(search_device="gpu"))


def test_slow_exact_search_names_the_alternative(
    corpus: MemoryCorpus, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("ssp_env.retrieval.dense.FLAT_BELOW", 100)
    DenseRetriever(corpus, WordEmbedder())
    assert "use kind='ivf-sq8'" in caplog.text


def test_an_exact_index_of_half_precision_vectors_is_refused(corpus: MemoryCorpus, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected float32"):
        build_dense(
            corpus,
            WordEmbedder,
            embedder_id="words",
            settings=DenseSettings(kind="flat"),
            index_dir=tmp_path,
            options=BuildOptions(dtype="float16"),
        )


def test_padding_survives_rescoring() -> None:
    from ssp_env.retrieval.faiss_index import Rescored

    class Two:
        d, ntotal = 2, 3

        def search(
            self, vectors: npt.NDArray[np.float32], k: int
        ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
            return np.zeros((1, 3), np.float32), np.array([[2, 0, -1]])

    index = Rescored(Two(), np.array([[1, 0], [0, 0], [0, 1]], np.float16))
    scores, positions = index.search(np.array([[0.0, 1.0]], np.float32), 3)
    assert positions.tolist() == [[2, 0, -1]] and scores[0, :2].tolist() == [1.0, 0.0]
