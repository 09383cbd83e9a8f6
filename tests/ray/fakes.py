"""Embedders that misbehave on the workers of a cluster."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tests.retrieval_fakes import WordEmbedder


class MetEmbedder(WordEmbedder):
    """Leaves the number of its process in a folder and goes on when as many have as are expected."""

    def __init__(self, folder: Path, n_expected: int) -> None:
        (folder / str(os.getpid())).touch()
        deadline = time.monotonic() + 60.0
        while len(list(folder.iterdir())) < n_expected:
            assert time.monotonic() < deadline, "the other workers did not come"
            threading.Event().wait(0.05)


class NanEmbedder:
    """Returns what is no vector."""

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return np.full((len(texts), 3), np.nan, np.float32)
