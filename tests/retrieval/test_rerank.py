from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

from ssp_env.errors import ConfigError, RetrievalError
from ssp_env.retrieval import make_retriever
from ssp_env.retrieval.rerank import CrossEncoderScorer, RerankRetriever
from tests.fakes import FakeRetriever
from tests.retrieval_fakes import small_corpus


class Recorder:
    """Scores by the length of the passage and keeps the batches that it was given."""

    def __init__(self) -> None:
        self.batches: list[list[tuple[str, str]]] = []

    def score(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
        self.batches.append(list(pairs))
        return np.array([len(text) for _, text in pairs], np.float32)


class Fixed:
    """Returns one array whatever it is asked."""

    def __init__(self, array: npt.NDArray[np.generic]) -> None:
        self.array = array

    def score(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
        return self.array  # type: ignore[return-value]


def test_the_scorer_decides_the_order_and_the_scores() -> None:
    (results,) = RerankRetriever(FakeRetriever(), Recorder()).search(["river"], 8)
    lengths = [float(len(f"{r.passage.title}\n{r.passage.text}")) for r in results]
    assert [r.score for r in results] == lengths == sorted(lengths, reverse=True)
    found = {r.passage.id for r in FakeRetriever().search(["river"], 8)[0]}
    assert {r.passage.id for r in results} == found
    assert [r.rank for r in results] == list(range(len(found)))


def test_all_pairs_of_a_call_are_scored_at_once_with_title_and_text() -> None:
    recorder = Recorder()
    RerankRetriever(FakeRetriever(), recorder).search(["zinc", "nothing-at-all", "chess"], 2)
    (batch,) = recorder.batches
    assert ("zinc", "Zinc\nZinc is a metal with the symbol Zn.") in batch
    assert {query for query, _ in batch} == {"zinc", "chess"}


def test_nothing_found_is_nothing_to_score() -> None:
    recorder = Recorder()
    assert RerankRetriever(FakeRetriever(), recorder).search(["xyzzy", ""], 2) == [[], []]
    assert recorder.batches == []


def test_depth_limits_what_is_scored_and_k_raises_it() -> None:
    recorder = Recorder()
    retriever = RerankRetriever(FakeRetriever(), recorder, depth=2)
    assert len(retriever.search(["river"], 1)[0]) == 1
    assert len(retriever.search(["river"], 4)[0]) == 4
    assert [len(batch) for batch in recorder.batches] == [2, 4]


def test_scores_that_differ_only_in_rounding_are_equal_and_ordered_by_id() -> None:
    class Noisy:
        def score(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
            return np.linspace(0.5, 0.500001, len(pairs), dtype=np.float32)

    names = [r.passage.id for r in RerankRetriever(FakeRetriever(), Noisy()).search(["river"], 8)[0]]
    assert names == sorted(names)


@pytest.mark.parametrize("array", [np.zeros(1), np.zeros((4, 2)), np.full(4, np.nan), np.full(4, np.inf)])
def test_scores_that_are_wrong_are_our_failure(array: npt.NDArray[np.generic]) -> None:
    assert len(FakeRetriever().search(["river"], 5)[0]) == 4
    with pytest.raises(RetrievalError, match="finite scores"):
        RerankRetriever(FakeRetriever(), Fixed(array)).search(["river"], 5)


def test_depth_must_be_positive() -> None:
    with pytest.raises(ValueError, match="positive depth"):
        RerankRetriever(FakeRetriever(), Recorder(), depth=0)


def save_cross_encoder(folder: Path, *, n_outputs: int = 1, scale: float = 1.0) -> str:
    """Save a tiny untrained cross-encoder over the words of the small corpus."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("sentence_transformers")
    torch = pytest.importorskip("torch")
    corpus = small_corpus()
    texts = [f"{corpus.at(n).title} {corpus.at(n).text}" for n in range(len(corpus))]
    words = sorted({word.lower() for text in texts for word in re.findall(r"\w+", text)})
    folder.mkdir()
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    config = transformers.BertConfig(vocab_size=len(tokens), num_labels=n_outputs, initializer_range=1.0, **sizes)
    model = transformers.BertForSequenceClassification(config)
    model.classifier.weight.data.mul_(scale)
    model.save_pretrained(folder)
    transformers.BertTokenizer(vocab={token: n for n, token in enumerate(tokens)}).save_pretrained(folder)
    return str(folder)


def test_a_cross_encoder_reranks_from_plain_settings_in_any_batch_and_after_pickling(tmp_path: Path) -> None:
    model = save_cross_encoder(tmp_path / "model")
    config = {"base": {"name": "bm25"}, "model": model, "depth": 5, "batch_size": 2}
    retriever = make_retriever("rerank", small_corpus(), config)
    queries = ["capital of France", "", "river Seine Paris", "\ud800 lighthouse"]
    found = retriever.search(queries, 3)
    assert found == [retriever.search([query], 3)[0] for query in queries]
    assert len({result.score for result in found[2]}) > 1
    assert [r.score for r in found[2]] == sorted((r.score for r in found[2]), reverse=True)
    assert pickle.loads(pickle.dumps(retriever)).search(queries, 3) == found


def test_passages_of_large_scores_keep_their_order(tmp_path: Path) -> None:
    corpus = small_corpus()
    pairs = [("capital of France", corpus.at(n).text) for n in range(len(corpus))]
    small, large = (
        CrossEncoderScorer(save_cross_encoder(tmp_path / name, scale=scale)).score(pairs)
        for name, scale in (("small", 1.0), ("large", 100.0))
    )
    assert np.abs(large).max() > 50
    assert len({*small.round(2).tolist()}) > 1
    np.testing.assert_allclose(large, 100 * small, rtol=1e-4)


def break_model(folder: Path, damage: str) -> None:
    """Damage a saved model in one of the ways of ``DAMAGES``, or leave it as it is."""
    weights = folder / "model.safetensors"
    if damage == "empty configuration":
        (folder / "config.json").write_text("{}")
    elif damage == "configuration without an object":
        (folder / "config.json").write_text("[]")
    elif damage == "torn weights":
        weights.write_bytes(weights.read_bytes()[:50])
    elif damage == "no weights":
        weights.unlink()
    elif damage == "torn tokenizer":
        (folder / "tokenizer.json").write_text("{")
    elif damage == "no tokenizer":
        for file in folder.glob("tokenizer*"):
            file.unlink()


DAMAGES = (
    "empty configuration",
    "configuration without an object",
    "torn weights",
    "no weights",
    "torn tokenizer",
    "no tokenizer",
)


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_folder_is_one_clear_error(tmp_path: Path, damage: str) -> None:
    folder = Path(save_cross_encoder(tmp_path / "model"))
    break_model(folder, damage)
    with pytest.raises(ConfigError, match=r"expected a .*model'.*, got .+; repair the folder") as refusal:
        CrossEncoderScorer(folder)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("device", ["nonsense", "", "cuda:99"])
def test_a_device_that_is_not_there_is_one_clear_error(tmp_path: Path, device: str) -> None:
    model = save_cross_encoder(tmp_path / "model")
    config = {"base": {"name": "bm25"}, "model": model, "device": device}
    with pytest.raises(ConfigError, match=rf"on '{device}', got .+; .* another device"):
        make_retriever("rerank", small_corpus(), config)


def test_a_model_with_several_outputs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one output, got 3"):
        CrossEncoderScorer(save_cross_encoder(tmp_path / "model", n_outputs=3))
