"""Vectors of a corpus on disk, in shards: a killed job goes on at the first shard that is not whole.

A shard is a folder with ``vectors.npy`` (shape ``(rows, d)``, float16 or float32, unit length) and a manifest that says
whose vectors they are. What is encoded together does not depend on where a job was interrupted, so the bytes do not
either. Several processes may encode the same corpus: each shard is made by one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import numpy.typing as npt

from ssp_env.build.clock import Clock
from ssp_env.errors import ConfigError, StaleIndexError
from ssp_env.protocols import Corpus, Embedder
from ssp_env.retrieval.encoders import Vectors, embed_passages
from ssp_env.retrieval.ranking import index_folder
from ssp_env.storage import ensure_folder, find_folder, read_manifest

SHARD_VERSION = 1
SHARD_PASSAGES = 8192
GAP_S = 10.0
"""Seconds after which a shard that is not whole yet says how far it is."""
DTYPES = ("float16", "float32")
VECTORS_FILE = "vectors.npy"

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class VectorSpec:
    """Whose vectors: the embedder's identity, what is put before passages, how they are stored, passages a shard."""

    embedder: str
    passage_prefix: str = ""
    dtype: str = "float16"
    shard_passages: int = SHARD_PASSAGES

    def __post_init__(self) -> None:
        """Check the ranges."""
        if self.dtype not in DTYPES or self.shard_passages < 1 or not self.embedder:
            raise ConfigError(f"expected a named embedder, one of {DTYPES!r} and shard_passages >= 1, got {self!r}")


@dataclass(frozen=True, slots=True)
class VectorShards:
    """Complete vectors of a corpus, in the order of its positions, opened as memory maps when they are read."""

    folder: Path
    n: int
    dimension: int
    shard_passages: int

    def batches(self) -> Iterator[Vectors]:
        """Yield all vectors in order, float32, one shard at a time."""
        for number in range(-(-self.n // self.shard_passages)):
            yield np.asarray(self._open(number), dtype=np.float32)

    def sample(self, n: int, rng: np.random.Generator) -> Vectors:
        """Return ``n`` different vectors in order, float32; all of them when ``n`` is the number of vectors."""
        positions = np.sort(rng.choice(self.n, size=n, replace=False))  # (n,)
        drawn = np.empty((n, self.dimension), np.float32)  # (n, d)
        numbers = positions // self.shard_passages  # (n,): the shard of each
        for number in np.unique(numbers):
            chosen = numbers == number
            drawn[chosen] = self._open(int(number))[positions[chosen] % self.shard_passages]
        return drawn

    def _open(self, number: int) -> npt.NDArray[np.floating]:
        vectors: npt.NDArray[np.floating] = np.load(shard_folder(self.folder, number) / VECTORS_FILE, mmap_mode="r")
        return vectors


def vectors_folder(index_dir: Path, spec: VectorSpec) -> Path:
    """Return the folder of the shards of these vectors in a folder of indexes."""
    settings = {"embedder": spec.embedder, "passage_prefix": spec.passage_prefix, "dtype": spec.dtype}
    return index_folder(index_dir, "vectors", {**settings, "shard_passages": spec.shard_passages})


def shard_folder(folder: Path, number: int) -> Path:
    """Return the folder of one shard."""
    return folder / f"{number:05d}"


def encode_shards(
    corpus: Corpus,
    load: Callable[[], Embedder],
    spec: VectorSpec,
    *,
    folder: Path,
    rebuild: bool = False,
    say: Say = lambda line: None,
) -> VectorShards:
    """Make the shards that are missing and return all.

    Args:
        corpus: The passages.
        load: Returns the embedder; called only when there is something to encode.
        spec: Whose vectors.
        folder: Where the shards lie, see ``vectors_folder``.
        rebuild: Whether shards of another corpus are replaced.
        say: Told every ten seconds, and after each new shard, how far the job is.

    Raises:
        StaleIndexError: If there are shards of another corpus and ``rebuild`` is not set.
        RetrievalError: If the embedder returns anything but finite vectors of one shape.
    """
    maker = ShardMaker(corpus, load, spec, folder=folder, rebuild=rebuild)
    clock = Clock(maker.n)
    for number in range(maker.n_shards):
        name = f"shard {number + 1} of {maker.n_shards}"

        def told(n: int, name: str = name) -> None:
            clock.count(n, is_new=True)
            if clock.waited_s > GAP_S:
                say(f"{name}: {clock.line()}")

        if maker.make(number, told):
            say(f"{name}: {clock.line()}")
        else:
            clock.count(maker.size(number), is_new=False)
    return maker.whole()


def n_missing(folder: Path, n: int, shard_passages: int) -> int:
    """Return how many passages have no whole shard yet."""
    starts = enumerate(range(0, n, shard_passages))
    missing = [start for number, start in starts if read_manifest(shard_folder(folder, number)) is None]
    return sum(min(start + shard_passages, n) - start for start in missing)


class ShardMaker:
    """Makes single shards, in any order; loads the embedder when the first one is missing.

    Its methods raise as ``encode_shards`` does.
    """

    def __init__(
        self, corpus: Corpus, load: Callable[[], Embedder], spec: VectorSpec, *, folder: Path, rebuild: bool = False
    ) -> None:
        """Prepare; see ``encode_shards``."""
        self.n = len(corpus)
        self.n_shards = -(-self.n // spec.shard_passages)
        self._corpus, self._load, self._spec, self._folder = corpus, load, spec, folder
        self._on_mismatch: Literal["refuse", "replace"] = "replace" if rebuild else "refuse"
        self._embedder: Embedder | None = None
        self._n_made = 0

    def size(self, number: int) -> int:
        """Return how many passages a shard has."""
        start, stop = self._bounds(number)
        return stop - start

    def find(self, number: int) -> dict[str, object] | None:
        """Return the manifest of a shard, or None when it is missing."""
        return find_folder(shard_folder(self._folder, number), self._expected(number), on_mismatch=self._on_mismatch)

    def make(self, number: int, told: Callable[[int], None] = lambda n: None) -> bool:
        """Make a shard unless it is there; return whether it was made here.

        ``told`` is called with 0 when the embedder is loaded, and with the number of passages after each part.
        """
        n_made = self._n_made
        ensure_folder(
            shard_folder(self._folder, number),
            self._expected(number),
            build=lambda place: self._write(place, number, told),
            on_mismatch=self._on_mismatch,
        )
        return self._n_made > n_made

    def whole(self) -> VectorShards:
        """Return all shards; raises ``StaleIndexError`` if one is missing."""
        dimension = 0
        for number in range(self.n_shards):
            manifest = self.find(number)
            if manifest is None:
                place = shard_folder(self._folder, number)
                raise StaleIndexError(
                    f"expected a whole shard in {place}, got none; do all machines share this folder?"
                )
            dimension = int(str(manifest["dimension"]))
        return VectorShards(self._folder, self.n, dimension, self._spec.shard_passages)

    def _bounds(self, number: int) -> tuple[int, int]:
        start = number * self._spec.shard_passages
        return start, min(start + self._spec.shard_passages, self.n)

    def _expected(self, number: int) -> dict[str, object]:
        start, stop = self._bounds(number)
        spec = self._spec
        return {
            "kind": "vectors",
            "version": SHARD_VERSION,
            "corpus": self._corpus.fingerprint,
            "embedder": spec.embedder,
            "passage_prefix": spec.passage_prefix,
            "dtype": spec.dtype,
            "start": start,
            "stop": stop,
        }

    def _write(self, folder: Path, number: int, told: Callable[[int], None]) -> dict[str, object]:
        if self._embedder is None:
            self._embedder = self._load()
            told(0)
        positions, prefix = range(*self._bounds(number)), self._spec.passage_prefix
        chunks: list[Vectors] = []
        for chunk in embed_passages(self._embedder, self._corpus, positions, prefix=prefix):
            chunks.append(chunk)  # (part, d)
            told(len(chunk))
        vectors = np.concatenate(chunks).astype(self._spec.dtype)  # (positions, d)
        np.save(folder / VECTORS_FILE, vectors)
        self._n_made += 1
        return {"dimension": vectors.shape[1]}
