"""Builds a vector index that ``DenseRetriever`` opens: encode in shards, train on a sample, add, save.

Inverted lists are filled in blocks, each written to a file, and merged on disk, so that memory does not grow with the
corpus. A graph is built in memory whole. Left out: the lexical index, which its retriever
builds by itself, and the check of the plan, which is the caller's.
"""

from __future__ import annotations

import ctypes
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import cast

import numpy as np

from ssp_env.build.vectors import SHARD_PASSAGES, Say, VectorShards, VectorSpec, encode_shards, vectors_folder
from ssp_env.errors import ConfigError
from ssp_env.protocols import Corpus, Embedder
from ssp_env.retrieval.dense import DenseSettings, dense_folder, with_prefixes
from ssp_env.retrieval.encoders import Vectors
from ssp_env.retrieval.faiss_index import (
    HNSW_LINKS,
    INDEX_FILE,
    LISTS_FILE,
    VECTORS_FILE,
    DiskLists,
    FaissIndex,
    IndexShape,
    flat_index,
    index_shape,
    load_faiss,
    resolve_kind,
    set_threads,
    write_index,
)
from ssp_env.storage import ensure_folder

BLOCK_VECTORS = 1_000_000
"""Vectors that are in memory at once, as codes, while inverted lists are built."""
_EF_CONSTRUCTION = 80


Encode = Callable[..., VectorShards]
"""Takes the arguments of ``encode_shards`` and returns what it returns."""


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How to build.

    ``dtype`` is that of the shards; empty means float32 for an exact index and float16 for the others. ``seed`` draws
    the training sample. ``block`` is the number of vectors in memory while inverted lists are built. ``encode`` makes
    the shards: in this process, or with ``on_ray.encode_on_ray`` on several.
    """

    dtype: str = ""
    shard_passages: int = SHARD_PASSAGES
    block: int = BLOCK_VECTORS
    seed: int = 0
    encode: Encode = encode_shards


def vector_spec(settings: DenseSettings, n: int, *, embedder_id: str, options: BuildOptions) -> VectorSpec:
    """Return whose vectors the index of these settings is made of."""
    settings = with_prefixes(settings)
    is_flat = resolve_kind(settings.kind, n) == "flat"
    dtype = options.dtype or ("float32" if is_flat else "float16")
    if is_flat and dtype != "float32":
        raise ConfigError(f"expected float32 vectors for an exact index, got {dtype!r}; leave the dtype out")
    return VectorSpec(embedder_id, settings.passage_prefix, dtype, options.shard_passages)


def build_dense(
    corpus: Corpus,
    load: Callable[[], Embedder],
    *,
    embedder_id: str,
    settings: DenseSettings,
    index_dir: Path,
    options: BuildOptions | None = None,
    say: Say = lambda line: None,
) -> dict[str, object]:
    """Build the index of these settings, or find it built; return its manifest with the ``folder`` added.

    Args:
        corpus: The passages.
        load: Returns the embedder; called only when vectors are missing.
        embedder_id: Identity of the embedder.
        settings: As for the retriever that will open it.
        index_dir: Folder of indexes.
        options: How to build.
        say: Told how far the job is.

    Raises:
        StaleIndexError: If there is an index or a shard of another corpus and ``rebuild`` is not set.
        RetrievalError: If the embedder returns anything but finite vectors of one shape.
        ConfigError: If the kind is unknown or the folder cannot be written to.
        ImportError: If FAISS is missing.
    """
    options = options or BuildOptions()
    settings = with_prefixes(settings)
    spec = vector_spec(settings, len(corpus), embedder_id=embedder_id, options=options)
    set_threads(settings.n_threads)
    folder, expected = dense_folder(index_dir, corpus, embedder_id=embedder_id, settings=settings)
    kind = resolve_kind(settings.kind, len(corpus))

    def build(place: Path) -> dict[str, object]:
        start_s = time.perf_counter()
        shards = options.encode(
            corpus, load, spec, folder=vectors_folder(index_dir, spec), rebuild=settings.rebuild, say=say
        )
        encoded_s = time.perf_counter()
        facts = fill(place, shards, kind=kind, options=options)
        seconds = {"encode_s": round(encoded_s - start_s, 2), "index_s": round(time.perf_counter() - encoded_s, 2)}
        return {**facts, "dtype": spec.dtype, "seconds": seconds}

    replace = "replace" if settings.rebuild else "refuse"
    manifest = ensure_folder(folder, expected, build=build, on_mismatch=replace)  # type: ignore[arg-type]
    return {**manifest, "folder": str(folder)}


def fill(folder: Path, shards: VectorShards, *, kind: str, options: BuildOptions) -> dict[str, object]:
    """Write an index of a resolved kind over vectors into an empty folder; return the facts about it."""
    shape = index_shape(kind, shards.n, shards.dimension)
    if kind == "flat":
        index = flat_index(shards.batches())
        if index is not None:
            write_index(index, folder)
    else:
        sample = shards.sample(shape.n_trained, np.random.default_rng(options.seed))
        _fill_approximate(shape, sample, shards.batches(), folder=folder, block=options.block)
    return {
        "n_passages": shards.n,
        "dimension": shards.dimension,
        "n_lists": shape.n_lists,
        "n_trained": shape.n_trained,
    }


def _fill_approximate(
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
    index.train(sample)  # (n_trained, d) float32
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
        index.add_with_ids(batch, np.arange(first, first + len(batch)))  # (b, d) float32, (b,) int64
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
