"""Reciprocal rank fusion of several retrievers.

Cormack, Clarke and Buettcher 2009, "Reciprocal rank fusion outperforms Condorcet and individual rank learning methods":
``score(p) = sum over retrievers r of weight_r / (rrf_k + rank_r(p))`` with ranks counted from 1 and ``rrf_k`` 60. Only
ranks are used, so scores of different kinds need no common scale. A passage that a retriever does not return within
``depth`` gets nothing from it. Weights are an addition to the paper, which has none (all 1).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ssp_env.errors import ConfigError
from ssp_env.protocols import Corpus, Retriever
from ssp_env.retrieval.nested import make_nested
from ssp_env.retrieval.ranking import check_arguments
from ssp_env.schema import Finite, parse
from ssp_env.types import Passage, SearchResult

SCORE_DECIMALS = 12
MAX_RRF_K = 1_000_000
"""Beyond it neighbouring ranks have the same rounded score."""


@dataclass(frozen=True, slots=True)
class HybridSettings:
    """What can be set from a configuration.

    ``retrievers`` holds names, or objects with a ``name`` and the settings of that retriever. ``weights`` holds one
    positive number for each, or nothing for equal weights. ``depth`` is how far down each list is read.
    """

    retrievers: list[object] = field(default_factory=lambda: ["bm25", "dense"])
    weights: list[Finite] = field(default_factory=list)
    depth: int = 100
    rrf_k: int = 60


def make_hybrid(corpus: Corpus, config: Mapping[str, object], index_dir: Path | None) -> HybridRetriever:
    """Make the retriever and those it fuses from a plain configuration with the keys of ``HybridSettings``."""
    settings = parse(HybridSettings, config, what="'hybrid'")
    retrievers = [make_nested(entry, corpus, index_dir) for entry in settings.retrievers]
    try:
        return HybridRetriever(retrievers, weights=settings.weights or None, depth=settings.depth, rrf_k=settings.rrf_k)
    except ValueError as error:
        raise ConfigError(f"hybrid: {error}") from error


class HybridRetriever:
    """Finds passages that several retrievers rank well; see ``protocols.Retriever``.

    Scores are reciprocal rank sums, comparable within one query only.
    """

    def __init__(
        self,
        retrievers: Sequence[Retriever],
        *,
        weights: Sequence[float] | None = None,
        depth: int = 100,
        rrf_k: int = 60,
    ) -> None:
        """Fuse retrievers over the same corpus.

        Raises:
            ValueError: If there is no retriever, or weights, depth or ``rrf_k`` do not fit.
        """
        weights = [1.0] * len(retrievers) if weights is None else list(weights)
        if not retrievers or len(weights) != len(retrievers):
            raise ValueError(
                f"expected one weight for each of {len(retrievers)} > 0 retrievers, got {weights!r}; fix them"
            )
        if not all(map(_is_weight, weights)):
            raise ValueError(f"expected positive numbers as weights, got {weights!r}; correct them")
        if depth <= 0 or not 0 <= rrf_k <= MAX_RRF_K:
            wanted = f"depth > 0 and rrf_k in 0 .. {MAX_RRF_K}"
            raise ValueError(f"expected {wanted}, got {depth!r} and {rrf_k!r}; the usual are 100 and 60")
        self._retrievers = tuple(retrievers)
        self._weights = tuple(weights)
        self._depth = depth
        self._rrf_k = rrf_k

    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        """Return the passages with the best fused ranks for each query, best first, ties by passage id."""
        check_arguments(queries, k)
        depth = max(k, self._depth)
        lists = [retriever.search(queries, depth) for retriever in self._retrievers]
        return [self._fuse(results, k) for results in zip(*lists, strict=True)]

    def _fuse(self, lists: Sequence[Sequence[SearchResult]], k: int) -> list[SearchResult]:
        scores: dict[str, float] = {}
        passages: dict[str, Passage] = {}
        for weight, results in zip(self._weights, lists, strict=True):
            for result in results:
                name = result.passage.id
                passages.setdefault(name, result.passage)
                scores[name] = scores.get(name, 0.0) + weight / (self._rrf_k + result.rank + 1)
        rounded = {name: round(score, SCORE_DECIMALS) for name, score in scores.items()}
        best = sorted(rounded, key=lambda name: (-rounded[name], name))[:k]
        return [SearchResult(passage=passages[name], score=rounded[name], rank=n) for n, name in enumerate(best)]


def _is_weight(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= sys.float_info.max
