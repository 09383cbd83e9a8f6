"""Retrievers around other retrievers, from plain JSON: ``{"name": "cache", "base": {"name": "bm25"}, "max_mb": 64}``.

``complete_spec`` checks names and makes paths absolute at every depth before anything is opened; ``make_nested`` and
``split_base`` build.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from ssp_env.errors import ConfigError
from ssp_env.protocols import Corpus, Retriever
from ssp_env.retrieval import RETRIEVERS, make_retriever
from ssp_env.schema import named

BASE = "base"
SEVERAL = "retrievers"
PATHS = {"blocklist": "file", "dense": "model", "rerank": "model"}
"""Retrievers with a setting that is a path, and its name."""


def complete_spec(spec: object) -> dict[str, object]:
    """Return ``{"name": ..., setting: ...}`` for a name or such an object, also for those inside of it.

    Paths become absolute; those of the working directory mean what they mean now, whenever the retriever is made.

    Raises:
        ConfigError: If it is neither, or a name is unknown.
    """
    name, settings = named(spec, RETRIEVERS, what="retriever")
    full = {"name": name, **settings}
    setting = PATHS.get(name)
    if setting in full:
        full[setting] = _absolute(full[setting], owner=name)
    if BASE in full:
        full[BASE] = complete_spec(full[BASE])
    inner = full.get(SEVERAL)
    if isinstance(inner, Sequence) and not isinstance(inner, str):
        full[SEVERAL] = [complete_spec(one) for one in inner]
    return full


def make_nested(spec: object, corpus: Corpus, index_dir: Path | None) -> Retriever:
    """Make the retriever that a name or an object describes.

    Raises:
        ConfigError: If a name or a setting is unknown.
        StaleIndexError: If a saved index was built from another corpus.
        ImportError: If an optional package is missing.
    """
    full = complete_spec(spec)
    config = {key: value for key, value in full.items() if key != "name"}
    return make_retriever(str(full["name"]), corpus, config, index_dir=index_dir)


def split_base(config: Mapping[str, object], *, owner: str) -> tuple[dict[str, object], dict[str, object]]:
    """Return the completed description of the wrapped retriever, and the other settings.

    Raises:
        ConfigError: If there is no ``base``, or it is not one retriever.
    """
    if BASE not in config:
        raise ConfigError(f"expected {BASE!r} for {owner!r}, got {sorted(config)}; name the retriever to wrap")
    return complete_spec(config[BASE]), {key: value for key, value in config.items() if key != BASE}


def _absolute(value: object, *, owner: str) -> object:
    """Return a path as absolute; what is none, and the name of a packaged encoder without such a folder, stays."""
    if not isinstance(value, str) or not value:
        return value
    if owner == "dense" and value == "minilm" and not Path(value).exists():
        return value
    return str(Path(os.path.expanduser(value)).absolute())
