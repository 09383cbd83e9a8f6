"""FAISS: the kinds of index of inner products, exact ones in memory, and opening saved ones of every kind.

``flat`` compares a query with every vector. ``ivf-sq8`` keeps one byte a dimension in lists around centroids and reads
a few lists. ``hnsw-sq8`` walks a graph over the same bytes. ``ivf-pq`` keeps about a quarter of a byte a dimension and
compares the best candidates again with half-precision vectors on disk. The defaults are measured by
``benchmarks/speed/run_index.py``.

Saved indexes are memory-mapped, never read whole. Inverted lists are mapped without FAISS's own prefetching, which
starts 32 threads a query (3.8 ms instead of 0.06 ms over 50,000 vectors). On macOS, torch and FAISS bring an OpenMP
runtime each and crash together (facebookresearch/faiss issues 2555 and 4273). There the second runtime is tolerated,
torch is loaded first, and FAISS keeps to one thread, which starts no parallel region.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Protocol, cast

import numpy as np
import numpy.typing as npt

from ssp_env.errors import ConfigError, StaleIndexError, needs
from ssp_env.schema import suggest

Vectors = npt.NDArray[np.float32]
Positions = npt.NDArray[np.int64]

INDEX_FILE = "index.faiss"
LISTS_FILE = "lists.ivfdata"
VECTORS_FILE = "vectors.npy"

KINDS = ("flat", "ivf-sq8", "hnsw-sq8", "ivf-pq")
FLAT_BELOW = 100_000
"""Passages from which on ``auto`` no longer compares with all of them."""
HNSW_LINKS = 32
RESCORED = 10
"""Candidates that ``ivf-pq`` compares again for each one asked for."""

_LISTS_PER_ROOT = 4
_READ_PER_ROOT = 12
_TRAINED_PER_LIST = 50
_MAX_PQ_BYTES = 96


@dataclass(frozen=True, slots=True)
class IndexShape:
    """What defines an index of ``n`` vectors with ``d`` dimensions.

    ``n_lists`` is the number of inverted lists (0 without), ``effort`` what is looked at, a query: lists (nprobe) or
    graph candidates (efSearch), 0 for all. ``n_trained`` vectors are drawn for training; ``code_bytes`` is the size of
    a vector as compared first.
    """

    kind: str
    n: int
    d: int
    n_lists: int
    effort: int
    n_trained: int
    code_bytes: int

    @property
    def is_ivf(self) -> bool:
        """Whether there are inverted lists."""
        return self.n_lists > 0


def resolve_kind(kind: str, n: int) -> str:
    """Return the kind of index for ``n`` passages; ``auto`` is ``flat`` below ``FLAT_BELOW`` and ``ivf-sq8`` above."""
    if kind == "auto":
        return "flat" if n < FLAT_BELOW else "ivf-sq8"
    if kind not in KINDS:
        raise ConfigError(f"expected a kind of index, got {kind!r}; {suggest(kind, ['auto', *KINDS])}")
    return kind


def index_shape(kind: str, n: int, d: int) -> IndexShape:
    """Return the numbers of an index of a resolved kind."""
    if kind == "flat":
        return IndexShape(kind, n, d, n_lists=0, effort=0, n_trained=0, code_bytes=4 * d)
    if kind == "hnsw-sq8":
        return IndexShape(kind, n, d, n_lists=0, effort=512, n_trained=min(n, 100_000), code_bytes=d)
    n_lists = _n_lists(n)
    code_bytes = d if kind == "ivf-sq8" else _pq_bytes(d)
    n_trained = min(n, max(_TRAINED_PER_LIST * n_lists, 65_536 if kind == "ivf-pq" else 0))
    return IndexShape(kind, n, d, n_lists, effort=_n_read(n_lists), n_trained=n_trained, code_bytes=code_bytes)


def _n_lists(n: int) -> int:
    """Return the power of two nearest to four times the root of ``n``, with forty vectors a list at least."""
    wanted = 2 ** round(math.log2(_LISTS_PER_ROOT * math.sqrt(n)))
    return int(max(1, min(wanted, n // 40)))


def _n_read(n_lists: int) -> int:
    """Return twelve times the root of ``n_lists``: on vectors with little structure, .95 of the results need it."""
    return min(n_lists, round(_READ_PER_ROOT * math.sqrt(n_lists)))


def _pq_bytes(d: int) -> int:
    return max(part for part in range(1, min(d, _MAX_PQ_BYTES) + 1) if d % part == 0)


class VectorIndex(Protocol):
    """The part of an index that is searched."""

    @property
    def d(self) -> int: ...  # noqa: D102

    @property
    def ntotal(self) -> int: ...  # noqa: D102

    def search(self, vectors: Vectors, k: int) -> tuple[Vectors, Positions]: ...  # noqa: D102


class FaissIndex(VectorIndex, Protocol):
    """What else is used of an index of FAISS."""

    def train(self, vectors: Vectors) -> None: ...  # noqa: D102

    def add(self, vectors: Vectors) -> None: ...  # noqa: D102

    def add_with_ids(self, vectors: Vectors, ids: Positions) -> None: ...  # noqa: D102


class DiskLists(Protocol):
    """What is set of inverted lists on disk."""

    filename: str
    prefetch_nthread: int

    def do_mmap(self) -> None: ...  # noqa: D102


class Rescored:
    """An index whose best candidates are compared again with the vectors themselves, read from disk."""

    def __init__(self, index: VectorIndex, vectors: npt.NDArray[np.float16]) -> None:
        """Put them together; vectors have the order of the positions."""
        self._index, self._vectors = index, vectors
        self.d, self.ntotal = index.d, index.ntotal

    def search(self, vectors: Vectors, k: int) -> tuple[Vectors, Positions]:
        """Return scores and positions, shape ``(len(vectors), k)``, padded with -inf and -1."""
        _, candidates = self._index.search(vectors, min(RESCORED * k, self.ntotal))  # (q, 10 k) int64, padded with -1
        scores = np.full((len(vectors), k), -np.inf, np.float32)  # (q, k)
        positions = np.full((len(vectors), k), -1, np.int64)  # (q, k)
        for row, (query, found) in enumerate(zip(vectors, candidates, strict=True)):
            found = np.sort(found[found >= 0])  # (c,), in the order of the file: it is read from disk
            exact = self._vectors[found].astype(np.float32) @ query  # (c, d) @ (d,) -> (c,)
            best = np.argsort(-exact, kind="stable")[:k]
            scores[row, : len(best)], positions[row, : len(best)] = exact[best], found[best]
        return scores, positions


def load_faiss() -> ModuleType:
    """Import FAISS; on macOS, keep its calls from this thread to one OpenMP thread."""
    is_macos = sys.platform == "darwin"
    if is_macos:
        os.environ.setdefault("KMP_DUPLICATE_LIB_OK", "TRUE")
        with suppress(ImportError):
            import torch  # noqa: F401  # loaded after FAISS it crashes in its own parallel regions
    with needs("faiss", extra="dense", use="dense retrieval"):
        import faiss
    if is_macos:
        faiss.omp_set_num_threads(1)
    module: ModuleType = faiss
    return module


def set_threads(n_threads: int) -> None:
    """Set the OpenMP threads of FAISS for calls from this thread, as OpenMP does; 0 leaves them as they are."""
    if n_threads < 0 or (n_threads > 1 and sys.platform == "darwin"):
        limit = "0 or 1 on macOS, where torch and FAISS crash together" if n_threads > 1 else "0 or more"
        raise ConfigError(f"expected n_threads of {limit}, got {n_threads!r}; change it")
    if n_threads:
        load_faiss().omp_set_num_threads(n_threads)
    elif sys.platform == "darwin":
        load_faiss()


def flat_index(batches: Iterable[Vectors]) -> VectorIndex | None:
    """Return an exact index of vectors in memory, or None when there are none."""
    faiss = load_faiss()
    index: FaissIndex | None = None
    for batch in batches:
        index = faiss.IndexFlatIP(batch.shape[1]) if index is None else index
        index.add(batch)  # (n, d) float32
    return index


def write_index(index: VectorIndex, folder: Path) -> None:
    """Write an index into a folder."""
    load_faiss().write_index(index, str(folder / INDEX_FILE))


def open_index(folder: Path, shape: IndexShape, *, effort: int = 0) -> VectorIndex:
    """Map a saved index into memory.

    Args:
        folder: Where it is.
        shape: What it was built as.
        effort: Lists or graph candidates looked at, a query; 0 takes the default of the kind.

    Raises:
        StaleIndexError: If FAISS cannot read it.
        ConfigError: If the effort is negative.
    """
    if effort < 0:
        raise ConfigError(f"expected an effort of 0 or more, got {effort!r}; 0 takes the default of the kind")
    faiss = load_faiss()
    flags = faiss.IO_FLAG_MMAP_IFC
    if shape.is_ivf:
        flags = faiss.IO_FLAG_MMAP | faiss.IO_FLAG_READ_ONLY | faiss.IO_FLAG_PQ_SKIP_SDC_TABLE
    try:
        index = faiss.read_index(str(folder / INDEX_FILE), flags)
        if shape.is_ivf:
            _map_lists(faiss.downcast_InvertedLists(index.invlists), folder / LISTS_FILE)
    except RuntimeError as error:
        raise StaleIndexError(f"expected an index of FAISS in {folder}, got {error}; delete {folder}") from error
    if shape.is_ivf:
        index.nprobe = min(effort or shape.effort, shape.n_lists)
    elif shape.kind == "hnsw-sq8":
        index.hnsw.efSearch = effort or shape.effort
    if shape.kind == "ivf-pq":
        return Rescored(index, np.load(folder / VECTORS_FILE, mmap_mode="r"))
    return cast(VectorIndex, index)


def _map_lists(lists: DiskLists, path: Path) -> None:
    """Search lists without prefetching; map them here if they have a file of their own, wherever it was moved to."""
    lists.prefetch_nthread = 0
    if path.exists():
        lists.filename = str(path)
        lists.do_mmap()


def require_gpu_kind(kind: str) -> None:
    """Refuse kinds of index that FAISS would silently search on the CPU, and machines without a GPU."""
    if kind in ("hnsw-sq8", "ivf-pq"):
        why = "FAISS has no graphs on GPUs" if kind == "hnsw-sq8" else "its candidates are compared again on the CPU"
        raise ConfigError(
            f"expected 'flat' or 'ivf-sq8' for a search on a GPU, got {kind!r} ({why}); build one of them"
        )
    n_gpus = int(getattr(load_faiss(), "get_num_gpus", int)())
    if not n_gpus:
        remedy = "install 'ssp-env[dense-gpu]' in place of 'ssp-env[dense]', or set search_device='cpu'"
        raise ConfigError(f"expected a GPU and faiss-gpu, got {n_gpus!r} GPUs; {remedy}")


def to_gpu(index: VectorIndex, *, n_bytes: int) -> VectorIndex:
    """Copy an index to the first GPU."""
    faiss = load_faiss()
    try:
        return cast(VectorIndex, faiss.index_cpu_to_gpu(faiss.StandardGpuResources(), 0, index))
    except RuntimeError as error:
        needed = f"{n_bytes / 2**30:.1f} GiB of free GPU memory"
        raise ConfigError(f"expected {needed}, got {error}; set search_device='cpu' or use 'ivf-sq8'") from error


def to_bytes(index: VectorIndex) -> npt.NDArray[np.uint8]:
    """Return an index in memory as bytes."""
    return cast("npt.NDArray[np.uint8]", load_faiss().serialize_index(index))


def from_bytes(data: object) -> VectorIndex:
    """Return the index of ``to_bytes``."""
    return cast(VectorIndex, load_faiss().deserialize_index(data))
