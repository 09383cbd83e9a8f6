"""What retrievers share: exact ranking with ties by passage id, settings from plain JSON, names of index folders.

Search engines break ties as they please, and cut them off wherever the limit falls. ``rank`` asks for more until the
cut lies between two different scores. Scores are rounded, because engines add up the same floats in varying order.
"""

from __future__ import annotations

import dataclasses
import difflib
import json
from collections.abc import Callable, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ssp_env.errors import ConfigError
from ssp_env.protocols import Corpus
from ssp_env.types import SearchResult

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    SettingsT = TypeVar("SettingsT", bound=DataclassInstance)

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


def read_settings(defaults: SettingsT, config: Mapping[str, object], *, owner: str) -> SettingsT:
    """Return the settings with the given values put in.

    Raises:
        ConfigError: If a name is unknown or a value has another type than the default.
    """
    known = {field.name: getattr(defaults, field.name) for field in dataclasses.fields(defaults)}
    for name, value in config.items():
        if name not in known:
            raise ConfigError(f"expected a setting of {owner!r}, got {name!r}; {suggest(name, list(known))}")
        wanted = type(known[name])
        if type(value) is not wanted and not (wanted is float and type(value) is int):
            raise ConfigError(f"expected {wanted.__name__} for {name!r} of {owner!r}, got {value!r}; change its type")
    return dataclasses.replace(defaults, **config)


def suggest(name: str, known: list[str]) -> str:
    """Return a remedy for an unknown name: the closest known one, or all of them."""
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else f"choose one of {sorted(known)!r}"


def index_folder(index_dir: Path, name: str, settings: Mapping[str, object]) -> Path:
    """Return the folder of an index in a folder of indexes: one for each name and settings."""
    digest = blake2b(json.dumps(settings, sort_keys=True).encode(), digest_size=4).hexdigest()
    return index_dir / f"{name}-{digest}"
