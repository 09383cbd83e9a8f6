"""Retrievers by name; each lives in its own module, which loads its engine only when it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path

from ssp_env.errors import ConfigError
from ssp_env.protocols import Corpus, Retriever
from ssp_env.schema import suggest

RetrieverFactory = Callable[[Corpus, Mapping[str, object], Path | None], Retriever]

RETRIEVERS: dict[str, str] = {
    "blocklist": "ssp_env.retrieval.wrappers:make_blocked",
    "bm25": "ssp_env.retrieval.bm25:make_bm25",
    "cache": "ssp_env.retrieval.wrappers:make_cache",
    "dense": "ssp_env.retrieval.dense:make_dense",
    "hybrid": "ssp_env.retrieval.hybrid:make_hybrid",
    "rank-bm25": "ssp_env.retrieval.rank_bm25:make_rank_bm25",
    "remote": "ssp_env.retrieval.remote:make_remote",
    "rerank": "ssp_env.retrieval.rerank:make_rerank",
}
"""Name to ``module:factory``; a factory takes ``(corpus, config, index_dir)``."""


def make_retriever(
    name: str, corpus: Corpus, config: Mapping[str, object] | None = None, *, index_dir: Path | None = None
) -> Retriever:
    """Make a retriever over a corpus.

    Args:
        name: A key of ``RETRIEVERS``.
        corpus: The passages.
        config: Plain JSON settings; the settings class of each retriever lists them.
        index_dir: Folder for saved indexes; default: the corpus's own, which keeps them in memory if it has none.

    Raises:
        ConfigError: If the name or a setting is unknown.
        StaleIndexError: If a saved index was built from another corpus.
        ImportError: If an optional package is missing.
    """
    if name not in RETRIEVERS:
        raise ConfigError(f"expected a retriever, got {name!r}; {suggest(name, list(RETRIEVERS))}")
    module, _, function = RETRIEVERS[name].partition(":")
    factory: RetrieverFactory = getattr(import_module(module), function)
    return factory(corpus, config or {}, corpus.index_dir if index_dir is None else Path(index_dir))
