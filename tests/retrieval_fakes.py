"""Passages, an embedder and a self-killing corpus for the tests of corpora and retrievers."""

from __future__ import annotations

import os
import signal
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ssp_env.corpus import MemoryCorpus
from ssp_env.types import Passage

PASSAGES = (
    Passage("p-eiffel", "Eiffel Tower", "The Eiffel Tower is a wrought-iron lattice tower in Paris, France."),
    Passage("p-paris", "Paris", "Paris is the capital of France and lies on the river Seine."),
    Passage("p-seine", "Seine", "The Seine is a river that flows through Paris into the English Channel."),
    Passage("p-tokyo", "東京タワー", "東京タワーは東京都港区にある電波塔である。"),
    Passage("p-cafe", "Café Müller", "Café Müller is a dance piece by Pina Bausch, first shown in Wuppertal."),
    Passage("p-moscow", "Москва", "Москва — столица России."),
    Passage("p-movie", "The Newcomers (film)", 'A 2000 film "about" running: AND, OR, NOT; title:text + more.'),
)
TWIN_TEXT = "A lighthouse keeper polishes brass lamps every evening."
TWINS = tuple(Passage(f"twin-{n}", "Lighthouse", TWIN_TEXT) for n in (7, 3, 9, 1, 5, 0, 8, 2, 6, 4))
HOSTILE_QUERIES = (
    "",
    "   \n\t",
    "the of and",
    '"unbalanced',
    "AND OR NOT",
    "title:foo text:* position:[0 TO 9]",
    "((((",
    "-paris +seine ^2 ~3 \\",
    "😀🗼",
    "東京",
    "paris\x00seine",
    "\ud800 paris",
    "\u200b\u202e",
    "a" * 100_000,
    "paris " * 20_000,
    " ".join(f"w{n}" for n in range(20_000)),
)


def small_corpus() -> MemoryCorpus:
    return MemoryCorpus((*PASSAGES, *TWINS))


class WordEmbedder:
    """Adds up one pseudo-random direction per word, so texts that share words are near each other."""

    dimension = 64

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.dimension), np.float32)
        for row, text in enumerate(texts):
            for word in text.lower().split():
                seed = zlib.crc32(word.encode("utf-8", "replace"))
                vectors[row] += np.random.default_rng(seed).standard_normal(self.dimension).astype(np.float32)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9).astype(np.float32)


class SharedWordsScorer:
    """Scores a pair by the share of the query's words that the passage has."""

    def score(self, pairs: Sequence[tuple[str, str]]) -> npt.NDArray[np.float32]:
        split = [(set(query.lower().split()), set(text.lower().split())) for query, text in pairs]
        return np.array([len(wanted & words) / max(len(wanted), 1) for wanted, words in split], np.float32)


@dataclass(frozen=True, slots=True)
class DyingCorpus:
    """A corpus that kills, as by ``kill -9``, its reader and perhaps another process when one position is asked for.

    With ``once``, it does so only until that file exists, and makes it.
    """

    corpus: MemoryCorpus
    deadly: int
    index_dir: Path | None = None
    other: int | None = None
    once: Path | None = None

    @property
    def fingerprint(self) -> str:
        return self.corpus.fingerprint

    def __len__(self) -> int:
        return len(self.corpus)

    def at(self, position: int) -> Passage:
        if position == self.deadly and not (self.once and self.once.exists()):
            if self.once:
                self.once.touch()
            if self.other:
                os.kill(self.other, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)
        return self.corpus.at(position)

    def get(self, passage_id: str) -> Passage:
        return self.corpus.get(passage_id)
