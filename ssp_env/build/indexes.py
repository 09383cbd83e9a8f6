"""Builds a vector index that ``DenseRetriever`` opens: encode in shards, train on a sample, add, save.

Memory does not grow with the corpus for the inverted-list kinds. Left out: the lexical index, which its retriever
builds by itself, and the check of the plan, which is the caller's.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from ssp_env.build.vectors import SHARD_PASSAGES, Say, VectorShards, VectorSpec, encode_shards, vectors_folder
from ssp_env.errors import ConfigError
from ssp_env.protocols import Corpus, Embedder
from ssp_env.retrieval.dense import DenseSettings, dense_folder, with_prefixes
from ssp_env.retrieval.faiss_build import BLOCK_VECTORS, build_approximate
from ssp_env.retrieval.faiss_index import flat_index, set_threads, write_index
from ssp_env.retrieval.index_kinds import index_shape, resolve_kind
from ssp_env.storage import ensure_folder


class Encode(Protocol):
    """Makes the shards that are missing and returns all, as ``encode_shards`` does."""

    def __call__(
        self,
        corpus: Corpus,
        load: Callable[[], Embedder],
        spec: VectorSpec,
        *,
        folder: Path,
        rebuild: bool = False,
        say: Say = ...,
    ) -> VectorShards:
        """Encode; see ``encode_shards``."""
        ...


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
    """Return whose vectors the index of these settings is made of.

    Raises:
        ConfigError: If an exact index is asked for vectors that are not exact, or the type is unknown.
    """
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
        build_approximate(shape, sample, shards.batches(), folder=folder, block=options.block)
    return {
        "n_passages": shards.n,
        "dimension": shards.dimension,
        "n_lists": shape.n_lists,
        "n_trained": shape.n_trained,
    }
