"""FAISS: building approximate indexes of inner products, in bounded memory where the kind allows it.

Inverted lists are filled in blocks, each written to a file, and merged on disk. A graph is built in memory whole.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np

from ssp_env.retrieval.faiss_index import (
    INDEX_FILE,
    LISTS_FILE,
    VECTORS_FILE,
    DiskLists,
    FaissIndex,
    Vectors,
    load_faiss,
)
from ssp_env.retrieval.index_kinds import HNSW_LINKS, IndexShape

BLOCK_VECTORS = 1_000_000
"""Vectors that are in memory at once, as codes, while inverted lists are built."""
_EF_CONSTRUCTION = 80


def build_approximate(
    shape: IndexShape,
    sample: Vectors,
    batches: Iterable[Vectors],
    *,
    folder: Path,
    block: int = BLOCK_VECTORS,
) -> None:
    """Train on a sample, add all batches in order, and write the index into a folder.

    Inverted lists are built in blocks and merged on disk, so that memory does not grow with the corpus; a graph is in
    memory whole. The same vectors give the same bytes, a graph only with one thread.
    """
    faiss = load_faiss()
    index = _new_index(faiss, shape)
    index.train(sample)
    if shape.kind == "ivf-pq":
        batches = _saving(batches, shape, folder / VECTORS_FILE)
    if not shape.is_ivf:
        for batch in batches:
            index.add(batch)
        faiss.write_index(index, str(folder / INDEX_FILE))
        return
    parts = _write_parts(faiss, index, batches, folder=folder, block=block)
    if len(parts) == 1:
        os.replace(parts[0], folder / INDEX_FILE)
    else:
        _merge(faiss, index, parts, folder)


def _new_index(faiss: ModuleType, shape: IndexShape) -> FaissIndex:
    metric = faiss.METRIC_INNER_PRODUCT
    if shape.kind == "hnsw-sq8":
        index = faiss.IndexHNSWSQ(shape.d, faiss.ScalarQuantizer.QT_8bit, HNSW_LINKS, metric)
        index.hnsw.efConstruction = _EF_CONSTRUCTION
        return cast(FaissIndex, index)
    centroids = faiss.IndexFlatIP(shape.d)
    if shape.kind == "ivf-sq8":
        index = faiss.IndexIVFScalarQuantizer(centroids, shape.d, shape.n_lists, faiss.ScalarQuantizer.QT_8bit, metric)
    else:
        index = faiss.IndexIVFPQ(centroids, shape.d, shape.n_lists, shape.code_bytes, 8, metric)
        index.do_polysemous_training = False  # simulated annealing for minutes, for a search that is not used
    return cast(FaissIndex, index)


def _write_parts(
    faiss: ModuleType, empty: FaissIndex, batches: Iterable[Vectors], *, folder: Path, block: int
) -> list[Path]:
    """Write the lists of every ``block`` vectors or a little more into a file of their own."""
    parts: list[Path] = []
    first = 0
    index = faiss.clone_index(empty)

    def write() -> None:
        parts.append(folder / f"part-{len(parts)}.faiss")
        faiss.write_index(index, str(parts[-1]))

    for batch in batches:
        if index.ntotal >= block:
            write()
            index = faiss.clone_index(empty)
        index.add_with_ids(batch, np.arange(first, first + len(batch)))
        first += len(batch)
    write()
    return parts


def _merge(faiss: ModuleType, empty: object, parts: Sequence[Path], folder: Path) -> None:
    from faiss.contrib import ondisk

    merge = cast("Callable[[object, list[str], str], None]", ondisk.merge_ondisk)
    with _stdout_to_stderr():
        merge(empty, [str(part) for part in parts], str(folder / LISTS_FILE))
    lists: DiskLists = faiss.downcast_InvertedLists(faiss.extract_index_ivf(empty).invlists)
    lists.filename = LISTS_FILE  # not where it is built
    faiss.write_index(empty, str(folder / INDEX_FILE))
    for part in parts:
        part.unlink()


@contextmanager
def _stdout_to_stderr() -> Iterator[None]:
    """Keep what FAISS prints by itself out of the standard output, which is for results."""
    libc = ctypes.CDLL(None)
    libc.fflush(None)
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        yield
    finally:
        libc.fflush(None)
        os.dup2(kept, 1)
        os.close(kept)


def _saving(batches: Iterable[Vectors], shape: IndexShape, path: Path) -> Iterator[Vectors]:
    """Pass batches on and write them in half precision, as they come."""
    saved = np.lib.format.open_memmap(path, mode="w+", dtype=np.float16, shape=(shape.n, shape.d))
    first = 0
    for batch in batches:
        saved[first : first + len(batch)] = batch
        first += len(batch)
        yield batch
    saved.flush()
