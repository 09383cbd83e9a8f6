"""Vectors of a corpus on disk, in shards: a killed job goes on at the first shard that is not whole.

A shard is a folder with ``vectors.npy`` (shape ``(rows, d)``, float16 or float32, unit length) and a manifest that says
whose vectors they are. What is encoded together does not depend on where a job was interrupted, so the bytes do not
either. Several processes may encode the same corpus: each shard is made by one of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ssp_env.artefacts import ensure_folder, read_manifest
from ssp_env.errors import ConfigError
from ssp_env.protocols import Corpus, Embedder
from ssp_env.retrieval.encoders import Vectors, embed_checked, passage_text
from ssp_env.retrieval.ranking import index_folder

SHARD_VERSION = 1
SHARD_PASSAGES = 8192
CHUNK_PASSAGES = 2048
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
        """Check the ranges.

        Raises:
            ConfigError: If the type is unknown, a number is not positive, or the embedder has no name.
        """
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
        positions = np.sort(rng.choice(self.n, size=n, replace=False))
        drawn = np.empty((n, self.dimension), np.float32)
        numbers = positions // self.shard_passages
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
        say: Told after each new shard how far the job is.

    Raises:
        StaleIndexError: If there are shards of another corpus and ``rebuild`` is not set.
        RetrievalError: If the embedder returns anything but finite vectors of one shape.
    """
    n = len(corpus)
    starts = range(0, n, spec.shard_passages)
    encoder = _Encoder(corpus, load, spec)
    clock = _Clock(n)
    dimension = 0
    for number, start in enumerate(starts):
        stop = min(start + spec.shard_passages, n)
        n_encoded = encoder.n_encoded
        manifest = ensure_folder(
            shard_folder(folder, number),
            _expected(corpus, spec, start, stop),
            build=lambda place, start=start, stop=stop: encoder.write(place, start, stop),  # type: ignore[misc]
            on_mismatch="replace" if rebuild else "refuse",
        )
        dimension = int(str(manifest["dimension"]))
        clock.count(stop - start, is_new=encoder.n_encoded > n_encoded)
        if encoder.n_encoded > n_encoded:
            say(f"shard {number + 1} of {len(starts)}: {clock.line()}")
    return VectorShards(folder, n, dimension, spec.shard_passages)


def _expected(corpus: Corpus, spec: VectorSpec, start: int, stop: int) -> dict[str, object]:
    return {
        "kind": "vectors",
        "version": SHARD_VERSION,
        "corpus": corpus.fingerprint,
        "embedder": spec.embedder,
        "passage_prefix": spec.passage_prefix,
        "dtype": spec.dtype,
        "start": start,
        "stop": stop,
    }


def n_missing(folder: Path, n: int, shard_passages: int) -> int:
    """Return how many passages have no whole shard yet."""
    starts = enumerate(range(0, n, shard_passages))
    missing = [start for number, start in starts if read_manifest(shard_folder(folder, number)) is None]
    return sum(min(start + shard_passages, n) - start for start in missing)


class _Encoder:
    """Loads the embedder when it is needed, and writes shards."""

    def __init__(self, corpus: Corpus, load: Callable[[], Embedder], spec: VectorSpec) -> None:
        self.n_encoded = 0
        self._corpus, self._load, self._spec = corpus, load, spec
        self._embedder: Embedder | None = None

    def write(self, folder: Path, start: int, stop: int) -> dict[str, object]:
        self._embedder = self._embedder or self._load()
        chunks: list[Vectors] = []
        for first in range(start, stop, CHUNK_PASSAGES):
            passages = [self._corpus.at(position) for position in range(first, min(first + CHUNK_PASSAGES, stop))]
            texts = [passage_text(passage, self._spec.passage_prefix) for passage in passages]
            chunks.append(embed_checked(self._embedder, texts))
        vectors = np.concatenate(chunks).astype(self._spec.dtype)
        np.save(folder / VECTORS_FILE, vectors)
        self.n_encoded += len(vectors)
        return {"dimension": vectors.shape[1]}


class _Clock:
    """How far a job is; what was there before says nothing about the rate."""

    def __init__(self, n: int) -> None:
        self._n, self._n_known, self._n_new = n, 0, 0
        self._start_s = time.monotonic()

    def count(self, n: int, *, is_new: bool) -> None:
        self._n_known += n
        self._n_new += n if is_new else 0

    def line(self) -> str:
        rate = self._n_new / max(time.monotonic() - self._start_s, 1e-6)
        left_s = int((self._n - self._n_known) / max(rate, 1e-9))
        ends = f"{left_s // 3600:d}:{left_s // 60 % 60:02d}:{left_s % 60:02d} left"
        return f"{100 * self._n_known / self._n:.1f} %, {rate:,.1f} passages/s, {ends}"
