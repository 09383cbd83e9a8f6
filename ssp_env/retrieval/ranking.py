"""What retrievers share: exact ranking with ties by passage id, names of index folders.

Search engines break ties as they please, and cut them off wherever the limit falls. ``rank`` asks for more until the
cut lies between two different scores. Scores are rounded, because engines add up the same floats in varying order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path

from ssp_env.protocols import Corpus
from ssp_env.types import SearchResult

Found = list[tuple[float, int]]
"""Scores (higher is better) and positions, best first."""


def check_arguments(queries: Sequence[str], k: int) -> None:
    """Refuse what ``Retriever.search`` must not be given.

    Raises:
        TypeError: If ``queries`` is a single string, which would be taken for one query a character.
        ValueError: If ``k`` is not positive.
    """
    if isinstance(queries, str):
        raise TypeError(f"expected a sequence of queries, got {queries!r}; pass [query]")
    if k <= 0:
        raise ValueError(f"expected a positive k, got {k!r}; ask for at least one passage")


def rank(corpus: Corpus, fetch: Callable[[int], Found], *, k: int) -> list[SearchResult]:
    """Return the best ``k`` of what ``fetch(limit)`` finds, equal scores ordered by passage id."""
    limit = min(k + 1, len(corpus))
    found = fetch(limit)
    while len(found) == limit < len(corpus) and found[-1][0] == found[k - 1][0]:
        limit = min(2 * limit, len(corpus))
        found = fetch(limit)
    if not found:
        return []
    cut = found[min(k, len(found)) - 1][0]
    tied = [(score, corpus.at(position)) for score, position in found if score >= cut]
    tied.sort(key=lambda entry: (-entry[0], entry[1].id))
    return [SearchResult(passage=passage, score=score, rank=n) for n, (score, passage) in enumerate(tied[:k])]


def index_folder(index_dir: Path, name: str, settings: Mapping[str, object]) -> Path:
    """Return the folder of an index in a folder of indexes: one for each name and settings."""
    digest = blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=4).hexdigest()
    return index_dir / f"{name}-{digest}"
