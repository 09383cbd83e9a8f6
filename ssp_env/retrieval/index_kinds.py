"""Kinds of vector index: which one by size, and the numbers that define each.

``flat`` compares a query with every vector. ``ivf-sq8`` keeps one byte a dimension in lists around centroids and reads
a few lists. ``hnsw-sq8`` walks a graph over the same bytes. ``ivf-pq`` keeps about a quarter of a byte a dimension and
compares the best candidates again with half-precision vectors on disk. The defaults are measured by
``benchmarks/speed/run_index.py``. Nothing here loads an engine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ssp_env.errors import ConfigError
from ssp_env.schema import suggest

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
    """Return the kind of index for ``n`` passages; ``auto`` is ``flat`` below ``FLAT_BELOW`` and ``ivf-sq8`` above.

    Raises:
        ConfigError: If the kind is unknown.
    """
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
