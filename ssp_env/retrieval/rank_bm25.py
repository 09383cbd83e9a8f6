"""BM25 with the rank_bm25 package: plain Python, no stemming, no index on disk.

It scores every passage for every query and holds all words in memory, so it is for small corpora and for comparison;
``bm25`` is the one to use. Formula: BM25Okapi with k1 = 1.5, b = 0.75 (Trotman et al. 2014).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ssp_env.errors import ConfigError, needs
from ssp_env.protocols import Corpus
from ssp_env.retrieval.ranking import Found, check_arguments, rank
from ssp_env.schema import parse
from ssp_env.types import SearchResult

MAX_PASSAGES = 50_000
MAX_QUERY_TERMS = 256
"""Of longer queries only this many distinct words count, the first ones."""
SCORE_DECIMALS = 4
_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class RankBm25Settings:
    """Nothing can be set."""


def make_rank_bm25(corpus: Corpus, config: Mapping[str, object], index_dir: Path | None) -> RankBm25Retriever:
    """Make the retriever; it takes no settings and saves nothing."""
    parse(RankBm25Settings, config, what="'rank-bm25'")
    return RankBm25Retriever(corpus)


class RankBm25Retriever:
    """Finds passages that share words with the query; see ``protocols.Retriever``."""

    def __init__(self, corpus: Corpus) -> None:
        """Count the words of all passages.

        Raises:
            ConfigError: If the corpus has more than 50,000 passages.
            ImportError: If rank_bm25 is missing.
        """
        if len(corpus) > MAX_PASSAGES:
            raise ConfigError(f"expected at most {MAX_PASSAGES} passages, got {len(corpus)}; use the retriever 'bm25'")
        with needs("rank_bm25", extra="rank-bm25", use="this retriever"):
            from rank_bm25 import BM25Okapi
        self._corpus = corpus
        passages = (corpus.at(position) for position in range(len(corpus)))
        self._bm25 = BM25Okapi([_words(f"{passage.title}\n{passage.text}") for passage in passages])

    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        """Return the best passages for each query, best first, ties by passage id; may be fewer than ``k``."""
        check_arguments(queries, k)
        return [self._search_one(query, k) for query in queries]

    def _search_one(self, query: str, k: int) -> list[SearchResult]:
        words = [word for word in dict.fromkeys(_words(query)) if word in self._bm25.idf][:MAX_QUERY_TERMS]
        if not words:
            return []
        matching = [n for n, counts in enumerate(self._bm25.doc_freqs) if not counts.keys().isdisjoint(words)]
        scores = np.round(self._bm25.get_scores(words)[matching], SCORE_DECIMALS)
        order = np.argsort(-scores, kind="stable")
        found: Found = [(float(scores[n]), matching[n]) for n in order]
        return rank(self._corpus, lambda limit: found[:limit], k=k)


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())
