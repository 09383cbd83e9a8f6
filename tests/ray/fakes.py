"""Embedders and corpora that misbehave on the workers of a cluster."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ssp_env.corpus import MemoryCorpus
from ssp_env.types import Passage
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


@dataclass(frozen=True, slots=True)
class DeadlyCorpus:
    """A corpus that kills, as by ``kill -9``, its reader and perhaps another process when one position is asked for.

    With ``once``, it does so only until that file exists, and makes it.
    """

    corpus: MemoryCorpus
    deadly: int
    other: int | None = None
    once: Path | None = None
    index_dir: Path | None = None

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
