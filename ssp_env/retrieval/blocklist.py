"""Keeps named passages and titles out of search results: the pages a benchmark was made from, or unwanted ones."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ssp_env.errors import ConfigError
from ssp_env.protocols import Corpus, Retriever
from ssp_env.retrieval.nested import make_nested, split_base
from ssp_env.retrieval.ranking import check_arguments, read_settings, suggest
from ssp_env.titles import title_key
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
    settings = read_settings(BlocklistSettings(), rest, owner="blocklist")
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

        Raises:
            TypeError: If ``queries`` is a single string.
            ValueError: If ``k`` is not positive.
            RetrievalError: If the retriever cannot answer.
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
