"""Reranking: a scorer that reads query and passage together orders what another retriever found.

Nogueira and Cho 2019, "Passage re-ranking with BERT" (arXiv 1901.04085). Any object with ``score`` is a scorer;
``CrossEncoderScorer`` loads a sentence-transformers cross-encoder from a folder. What the wrapped retriever does not
find within ``depth`` cannot be found. Fusing the new order with the old one is left out; ``hybrid`` does that.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ssp_env.errors import ConfigError, RetrievalError, needs
from ssp_env.protocols import Corpus, Retriever
from ssp_env.retrieval.encoders import is_model, loading, require_vocabulary
from ssp_env.retrieval.nested import make_nested, split_base
from ssp_env.retrieval.ranking import check_arguments
from ssp_env.schema import parse
from ssp_env.types import SearchResult

SCORE_DECIMALS = 4
Scores = npt.NDArray[np.float32]


class PairScorer(Protocol):
    """Says how well passages answer queries."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> Scores:
        """Return one score for each pair of query and passage, higher is better, float32, shape ``(len(pairs),)``."""
        ...


@dataclass(frozen=True, slots=True)
class RerankSettings:
    """What can be set from a configuration, besides ``base``, the retriever whose results are reordered.

    Attributes:
        model: Folder of a sentence-transformers cross-encoder.
        depth: Passages a query that are scored, or ``k`` if that is more; 20 is what was measured.
        device: Where the model runs.
        batch_size: Pairs at a time; small batches waste less on padding on a processor, a GPU takes larger ones.
    """

    model: str = ""
    depth: int = 20
    device: str = "cpu"
    batch_size: int = 8


def make_rerank(corpus: Corpus, config: Mapping[str, object], index_dir: Path | None) -> RerankRetriever:
    """Make the retriever and the one it wraps from ``base`` and the keys of ``RerankSettings``."""
    base, rest = split_base(config, owner="rerank")
    settings = parse(RerankSettings, rest, what="'rerank'")
    if settings.depth <= 0 or settings.batch_size <= 0:
        raise ConfigError(f"expected positive numbers for 'rerank', got {settings!r}; the usual are 20 and 8")
    scorer = CrossEncoderScorer(settings.model, device=settings.device, batch_size=settings.batch_size)
    return RerankRetriever(make_nested(base, corpus, index_dir), scorer, depth=settings.depth)


class CrossEncoderScorer:
    """A sentence-transformers cross-encoder with one output, from a folder; nothing is downloaded."""

    def __init__(self, model: str | Path, *, device: str = "cpu", batch_size: int = 8) -> None:
        """Load the model.

        Raises:
            ConfigError: If the folder is missing or damaged, the device is not there, or the model has not exactly one
                output.
            ImportError: If sentence-transformers is missing.
        """
        folder = Path(model)
        if not model or not is_model(folder):
            raise ConfigError(f"expected the folder of a cross-encoder as 'model', got {str(model)!r}; check the path")
        with needs("sentence-transformers", extra="dense", use="reranking"):
            from sentence_transformers import CrossEncoder
        with loading(folder, device):
            self._model = CrossEncoder(str(folder), device=device, local_files_only=True)
        require_vocabulary(self._model, folder)
        if self._model.num_labels != 1:
            raise ConfigError(f"expected a model with one output, got {self._model.num_labels}; pass a reranker")
        self._batch_size = batch_size
        self._again = partial(CrossEncoderScorer, folder.absolute(), device=device, batch_size=batch_size)

    def __reduce__(self) -> tuple[partial[CrossEncoderScorer], tuple[()]]:
        """Pickle the path only; unpickling loads the model again."""
        return self._again, ()

    def score(self, pairs: Sequence[tuple[str, str]]) -> Scores:
        """Return the model's output for each pair, without a sigmoid, which would make the best and the worst equal."""
        clean = [tuple(text.encode("utf-8", "replace").decode("utf-8") for text in pair) for pair in pairs]
        scores: Scores = self._model.predict(
            clean, batch_size=self._batch_size, activation_fn=_unchanged, show_progress_bar=False
        )
        return scores


def _unchanged(logits: object) -> object:
    return logits


class RerankRetriever:
    """Reorders the best results of another retriever; see ``protocols.Retriever``.

    Scores are the scorer's, rounded to 4 decimals, since models add up the same numbers differently in different
    batches.
    """

    def __init__(self, retriever: Retriever, scorer: PairScorer, *, depth: int = 20) -> None:
        """Wrap a retriever; ``depth`` passages a query are scored, or ``k`` if that is more.

        Raises:
            ValueError: If ``depth`` is not positive.
        """
        if depth <= 0:
            raise ValueError(f"expected a positive depth, got {depth!r}; the usual is 20")
        self._retriever = retriever
        self._scorer = scorer
        self._depth = depth

    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        """Return the passages with the best scores for each query, best first, ties by passage id."""
        check_arguments(queries, k)
        found = self._retriever.search(queries, max(k, self._depth))
        pairs = [
            (query, f"{result.passage.title}\n{result.passage.text}")
            for query, results in zip(queries, found, strict=True)
            for result in results
        ]
        scores = iter(self._scores(pairs))  # one call for the pairs of all queries
        return [_order([(next(scores), result) for result in results], k) for results in found]

    def _scores(self, pairs: Sequence[tuple[str, str]]) -> list[float]:
        if not pairs:
            return []
        scores = np.asarray(self._scorer.score(pairs))  # (pairs,) float32
        if scores.shape != (len(pairs),) or not np.isfinite(scores).all():
            got = f"shape {scores.shape}" if scores.shape != (len(pairs),) else "NaN or infinity"
            raise RetrievalError(f"expected {len(pairs)} finite scores, got {got}; check the model and its precision")
        return [round(float(score), SCORE_DECIMALS) for score in scores]


def _order(scored: list[tuple[float, SearchResult]], k: int) -> list[SearchResult]:
    best = sorted(scored, key=lambda entry: (-entry[0], entry[1].passage.id))[:k]
    return [SearchResult(result.passage, score, rank) for rank, (score, result) in enumerate(best)]
