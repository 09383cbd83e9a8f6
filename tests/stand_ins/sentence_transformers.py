"""Stands in for sentence-transformers in processes that tests start: loads at once, learns nothing, repeats itself.

A text is the sum of one random direction for each different word of more than three letters; a pair scores the number
of such words that it shares. Only what ``ssp_env.retrieval`` calls is here.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

N_DIRECTIONS = 4096


def words(text: str) -> list[str]:
    return sorted(set(re.findall(r"\w{4,}", text.lower())))


class SentenceTransformer:
    def __init__(self, folder: str, *, device: str | None, local_files_only: bool) -> None:
        (pooling,) = Path(folder).glob("*_Pooling/config.json")
        d = json.loads(pooling.read_text())["word_embedding_dimension"]
        self.directions = np.random.default_rng(0).standard_normal((N_DIRECTIONS, d)).astype(np.float32)

    def encode(
        self, texts: Sequence[str], *, batch_size: int, normalize_embeddings: bool, show_progress_bar: bool
    ) -> npt.NDArray[np.float32]:
        rows = [[zlib.crc32(word.encode()) % N_DIRECTIONS for word in words(text)] for text in texts]
        vectors = np.array([self.directions[row].sum(axis=0) for row in rows], np.float32)
        return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)


class CrossEncoder:
    num_labels = 1

    def __init__(self, folder: str, *, device: str, local_files_only: bool) -> None:
        assert Path(folder, "config.json").is_file()

    def predict(
        self,
        pairs: Sequence[tuple[str, str]],
        *,
        batch_size: int,
        activation_fn: Callable[[npt.NDArray[np.float32]], npt.NDArray[np.float32]],
        show_progress_bar: bool,
    ) -> npt.NDArray[np.float32]:
        shared = [len({*words(query)} & {*words(text)}) for query, text in pairs]
        return activation_fn(np.array(shared, np.float32))
