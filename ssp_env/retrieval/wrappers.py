"""Retrievers around another one: a blocklist of passages and titles, and a cache within a fixed amount of memory.

A cache lives in one process and is never saved. Its keys hold the fingerprint of the corpus, so a result can never
come from another one, and an exact ``k``: a longer list is not cut for a shorter request, since fused rankings may
depend on ``k``. Failures are not remembered.
"""

from __future__ import annotations

import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from ssp_env.errors import ConfigError
from ssp_env.protocols import Corpus, Retriever
from ssp_env.retrieval.nested import make_nested, split_base
from ssp_env.retrieval.ranking import check_arguments
from ssp_env.schema import parse, suggest
from ssp_env.text import title_key
from ssp_env.types import Passage, SearchResult

KEYS = ("ids", "titles")


@dataclass(frozen=True, slots=True)
class Blocklist:
    """Passage ids, and title keys (see ``titles.title_key``) that block every passage and the page of that title."""

    ids: frozenset[str] = frozenset()
    title_keys: frozenset[str] = frozenset()

    @classmethod
    def of(cls, ids: Iterable[str] = (), titles: Iterable[str] = ()) -> Blocklist:
        """Make a blocklist from ids and titles in any spelling."""
        return cls(frozenset(ids), frozenset(map(title_key, titles)))

    def blocks(self, passage: Passage) -> bool:
        """Whether a passage must not be shown."""
        return passage.id in self.ids or self.blocks_title(passage.title)

    def blocks_title(self, title: str) -> bool:
        """Whether the page of this title must not be shown."""
        return bool(self.title_keys) and title_key(title) in self.title_keys


def read_blocklist(path: Path) -> Blocklist:
    """Read a JSON file ``{"ids": [...], "titles": [...]}``; either key may be missing.

    Raises:
        ConfigError: If the file cannot be read or holds anything else.
    """
    shape = '{"ids": [...], "titles": [...]} with strings'
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"expected a blocklist {shape}, got {error} for {str(path)!r}; fix the file") from error
    if not isinstance(content, dict):
        raise ConfigError(f"expected a blocklist {shape}, got a {type(content).__name__} in {str(path)!r}; fix it")
    for key, values in content.items():
        if key not in KEYS:
            raise ConfigError(f"expected a blocklist {shape}, got the key {key!r}; {suggest(key, list(KEYS))}")
        if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
            raise ConfigError(f"expected a blocklist {shape}, got {values!r:.80} for {key!r}; list strings")
    return Blocklist.of(content.get("ids", ()), content.get("titles", ()))


@dataclass(frozen=True, slots=True)
class BlocklistSettings:
    """What can be set from a configuration, besides ``base``: the file that ``read_blocklist`` reads."""

    file: str = ""


def make_blocked(corpus: Corpus, config: Mapping[str, object], index_dir: Path | None) -> BlockedRetriever:
    """Make the retriever and the one it wraps from ``base`` and the keys of ``BlocklistSettings``."""
    base, rest = split_base(config, owner="blocklist")
    settings = parse(BlocklistSettings, rest, what="'blocklist'")
    if not settings.file:
        raise ConfigError("expected 'file' for 'blocklist', got none; name a JSON file of ids and titles")
    return BlockedRetriever(make_nested(base, corpus, index_dir), read_blocklist(Path(settings.file)))


class BlockedRetriever:
    """Leaves blocked passages out and fills up with the next best; see ``protocols.Retriever``."""

    def __init__(self, retriever: Retriever, blocklist: Blocklist) -> None:
        """Wrap a retriever."""
        self._retriever = retriever
        self._blocklist = blocklist

    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        """Return the best allowed passages for each query.

        Queries that lose passages are asked again with a doubled ``k`` until they have enough or nothing is left, so
        the wrapped retriever must accept a larger ``k``.
        """
        check_arguments(queries, k)
        limit = k
        kept: list[list[SearchResult]] = [[] for _ in queries]
        open_rows = list(range(len(queries)))
        while open_rows:
            found = self._retriever.search([queries[row] for row in open_rows], limit)
            short: list[int] = []
            for row, results in zip(open_rows, found, strict=True):
                kept[row] = self._allowed(results, k)
                if len(kept[row]) < k and len(results) >= limit:
                    short.append(row)
            open_rows, limit = short, 2 * limit
        return kept

    def _allowed(self, results: Sequence[SearchResult], k: int) -> list[SearchResult]:
        allowed = [result for result in results if not self._blocklist.blocks(result.passage)][:k]
        return [SearchResult(result.passage, result.score, rank) for rank, result in enumerate(allowed)]


Value = TypeVar("Value")

OVERHEAD = 400
"""Bytes that an entry or a result costs beyond its text, roughly."""


class LruCache(Generic[Value]):
    """Keeps the most recently used values while their costs add up to at most ``max_cost``; thread-safe.

    Pickling keeps the bound and drops the values.
    """

    def __init__(self, max_cost: int) -> None:
        """Start empty; a ``max_cost`` of 0 keeps nothing.

        Raises:
            ValueError: If ``max_cost`` is negative.
        """
        if max_cost < 0:
            raise ValueError(f"expected a max_cost of at least 0, got {max_cost!r}; 0 turns the cache off")
        self.max_cost = max_cost
        self.cost = 0
        self.n_hits = 0
        self.n_misses = 0
        self._values: OrderedDict[Hashable, tuple[Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Callable[[int], LruCache[Value]], tuple[int]]:
        """Pickle the bound only."""
        return (type(self), (self.max_cost,))

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self._values)

    def get(self, key: Hashable) -> Value | None:
        """Return the value of a key and count it as used, or None."""
        with self._lock:
            entry = self._values.get(key)
            if entry is None:
                self.n_misses += 1
                return None
            self.n_hits += 1
            self._values.move_to_end(key)
            return entry[0]

    def put(self, key: Hashable, value: Value, *, cost: int) -> None:
        """Keep a value, dropping the least recently used ones; one that costs more than ``max_cost`` is not kept."""
        with self._lock:
            old = self._values.pop(key, None)
            if old is not None:
                self.cost -= old[1]
            if cost > self.max_cost:
                return
            self._values[key] = (value, cost)
            self.cost += cost
            while self.cost > self.max_cost:
                _, (_, dropped) = self._values.popitem(last=False)
                self.cost -= dropped


QueryCache = LruCache[tuple[SearchResult, ...]]
"""Found passages; the cost is in characters plus ``OVERHEAD`` for each entry and result."""


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """What can be set from a configuration, besides ``base``: the size of the cache, in megabytes (0 for none)."""

    max_mb: int = 256


def make_cache(corpus: Corpus, config: Mapping[str, object], index_dir: Path | None) -> CachedRetriever:
    """Make the retriever and the one it wraps from ``base`` and the keys of ``CacheSettings``."""
    base, rest = split_base(config, owner="cache")
    settings = parse(CacheSettings, rest, what="'cache'")
    if settings.max_mb < 0:
        raise ConfigError(f"expected 'max_mb' of at least 0, got {settings.max_mb!r}; 0 turns the cache off")
    name = json.dumps(base, sort_keys=True)
    retriever = make_nested(base, corpus, index_dir)
    return CachedRetriever(retriever, QueryCache(settings.max_mb << 20), name=name, fingerprint=corpus.fingerprint)


class CachedRetriever:
    """Asks a retriever only for queries that are not in the cache; see ``protocols.Retriever``.

    Several retrievers may share one cache, and with it one bound, if their names differ.
    """

    def __init__(self, retriever: Retriever, cache: QueryCache, *, name: str, fingerprint: str) -> None:
        """Wrap a retriever.

        Args:
            retriever: Finds what is not in the cache.
            cache: Where results are kept.
            name: Tells retrievers over one corpus apart: its name and settings.
            fingerprint: That of the corpus.
        """
        self._retriever = retriever
        self._cache = cache
        self._owner = (name, fingerprint)

    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        """Return the best passages for each query; equal queries of a batch are searched once."""
        check_arguments(queries, k)
        unique = list(dict.fromkeys(queries))
        found = {query: self._cache.get((*self._owner, query, k)) for query in unique}
        missing = [query for query in unique if found[query] is None]
        if missing:
            for query, results in zip(missing, self._retriever.search(missing, k), strict=True):
                found[query] = tuple(results)
                self._cache.put((*self._owner, query, k), tuple(results), cost=_cost(query, results))
        return [list(found[query] or ()) for query in queries]


def _cost(query: str, results: Sequence[SearchResult]) -> int:
    passages = [result.passage for result in results]
    characters = len(query) + sum(len(passage.title) + len(passage.text) for passage in passages)
    return characters + OVERHEAD * (1 + len(passages))
