"""What an index takes, known before anything is loaded: memory to build and to search, and room on disk.

``resident`` bytes belong to the process. ``mapped`` bytes are read from disk through the page cache: a search is slow
where they do not fit, but does not fail. The model's activations are counted as one GiB.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path

from ssp_env.build.indexes import BLOCK_VECTORS
from ssp_env.build.vectors import SHARD_PASSAGES
from ssp_env.errors import ConfigError
from ssp_env.retrieval.faiss_index import HNSW_LINKS, KINDS, IndexShape, index_shape

GIB = 2**30
BASE_BYTES = 512 * 2**20
"""Python, FAISS and the table of the corpus."""
ENCODER_BYTES = GIB
BM25_BUILD_BYTES = GIB
BM25_DISK_PER_PASSAGE = 400
"""Index and what merging needs for a while; passages of 100 words (``benchmarks/speed/run_index.py``)."""


@dataclass(frozen=True, slots=True)
class Room:
    """Free memory and disk, in bytes."""

    memory: int
    disk: int


@dataclass(frozen=True, slots=True)
class IndexPlan:
    """What building and searching takes, in bytes.

    ``disk`` counts shards and index together; ``mapped`` is what searches read again and again.
    """

    kind: str
    build: int
    disk: int
    resident: int
    mapped: int

    def lines(self, room: Room) -> list[str]:
        """Return the plan beside what there is, for people."""
        return [
            f"index {self.kind}",
            f"  to build    {self.build / GIB:8.2f} GiB of memory, {room.memory / GIB:.2f} GiB are free",
            f"  on disk     {self.disk / GIB:8.2f} GiB, {room.disk / GIB:.2f} GiB are free",
            f"  to search   {self.resident / GIB:8.2f} GiB of memory and {self.mapped / GIB:.2f} GiB of page cache",
        ]


def plan_bm25(n: int) -> IndexPlan:
    """Return the plan of a lexical index."""
    return IndexPlan("bm25", BM25_BUILD_BYTES + 100 * n, BM25_DISK_PER_PASSAGE * n, BASE_BYTES, 250 * n)


def plan_dense(
    shape: IndexShape,
    *,
    vector_bytes: int,
    weight_bytes: int = 0,
    shard_passages: int = SHARD_PASSAGES,
    block: int = BLOCK_VECTORS,
) -> IndexPlan:
    """Return the plan of a vector index.

    Args:
        shape: The index.
        vector_bytes: Bytes a number in the shards, 2 or 4.
        weight_bytes: Size of the model.
        shard_passages: Passages a shard.
        block: Vectors a block of inverted lists, see ``indexes.BuildOptions``.
    """
    n, d = shape.n, shape.d
    shards = n * d * vector_bytes
    centroids = 4 * d * shape.n_lists
    index = n * _entry_bytes(shape) + centroids
    encoding = weight_bytes + ENCODER_BYTES + 3 * 4 * d * min(n, shard_passages)
    filling = 2 * index if shape.n_lists == 0 else 2 * min(n, block + shard_passages) * _entry_bytes(shape)
    training = 2 * 4 * d * shape.n_trained
    building = centroids + max(training, filling + 4 * d * min(n, shard_passages))
    rescoring = 2 * n * d if shape.kind == "ivf-pq" else 0
    merging = index if shape.is_ivf and n > block else 0
    return IndexPlan(
        shape.kind,
        build=BASE_BYTES + max(encoding, building),
        disk=shards + index + rescoring + merging,
        resident=BASE_BYTES + weight_bytes + centroids,
        mapped=index - centroids,
    )


def free_room(folder: Path) -> Room:
    """Return the free memory, within the limit of a container, and the free disk under a folder."""
    place = next(parent for parent in (folder.absolute(), *folder.absolute().parents) if parent.exists())
    return Room(_free_memory(), shutil.disk_usage(place).free)


def check_plan(plan: IndexPlan, room: Room, *, shape: IndexShape | None = None, vector_bytes: int = 2) -> None:
    """Refuse a plan that does not fit.

    Args:
        plan: What is needed.
        room: What is there.
        shape: The index planned, to name kinds that would fit.
        vector_bytes: Bytes a number in the shards.

    Raises:
        ConfigError: If memory or disk is too small; the message names what would fit.
    """
    wanted = (
        ("free memory to build", plan.build, room.memory),
        ("free disk", plan.disk, room.disk),
        ("free memory to search", plan.resident + plan.mapped, room.memory),
    )
    for what, needed, free in wanted:
        if needed > free:
            remedy = _remedy(room, shape, vector_bytes)
            raise ConfigError(
                f"expected {needed / GIB:.2f} GiB of {what} for {plan.kind}, got {free / GIB:.2f} GiB; {remedy}"
            )


def _fits(plan: IndexPlan, room: Room) -> bool:
    return max(plan.build, plan.resident + plan.mapped) <= room.memory and plan.disk <= room.disk


def _remedy(room: Room, shape: IndexShape | None, vector_bytes: int) -> str:
    if shape is None:
        return "free some, or pass --force"
    others = {kind: index_shape(kind, shape.n, shape.d) for kind in KINDS if kind != shape.kind}
    fitting = [kind for kind, other in others.items() if _fits(plan_dense(other, vector_bytes=vector_bytes), room)]
    return f"use --kind {fitting[0]}, or pass --force" if fitting else "use a smaller encoder, or pass --force"


def _entry_bytes(shape: IndexShape) -> int:
    """Return the bytes a vector: its code, and its id in a list or its links in a graph."""
    if shape.kind == "flat":
        return shape.code_bytes
    return shape.code_bytes + (8 if shape.is_ivf else 4 * 2 * HNSW_LINKS + 24)


def _free_memory() -> int:
    try:
        rows = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines())
        free = 1024 * int(rows["MemAvailable"].split()[0])
    except (OSError, KeyError, ValueError):
        free = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")  # macOS names no free memory: all of it
    limit = _number(Path("/sys/fs/cgroup/memory.max"))
    used = _number(Path("/sys/fs/cgroup/memory.current"))
    return free if limit is None or used is None else min(free, max(limit - used, 0))


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there, or without a limit ("max")
        return None
