"""The configuration as plain JSON, as a run folder keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Literal, get_args, get_origin, get_type_hints

from ssp_env.errors import ConfigError
from training.config import RunConfig


def to_json(config: RunConfig) -> dict[str, object]:
    """Return the record as plain JSON."""
    values = {f.name: getattr(config, f.name) for f in fields(RunConfig)}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


def from_json(values: Mapping[str, object]) -> RunConfig:
    """Return the record of ``to_json``.

    Raises:
        ConfigError: If fields are missing, unknown or of the wrong type.
    """
    names = {f.name for f in fields(RunConfig)}
    if not isinstance(values, Mapping) or set(values) != names:
        got = f"a difference in {sorted(names ^ set(values))}" if isinstance(values, Mapping) else f"{values!r:.80}"
        raise ConfigError(f"expected the fields of RunConfig, got {got}; it was made by another version: use that one")
    plain = {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}
    for name, hint in get_type_hints(RunConfig).items():
        if not _fits(plain[name], hint):
            raise ConfigError(f"expected {hint} as saved {name!r}, got {values[name]!r}; restore config.json")
    return RunConfig(**plain)  # type: ignore[arg-type]


def _fits(value: object, hint: object) -> bool:
    parts = get_args(hint)
    if get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(_fits(one, parts[0]) for one in value)
    if parts:
        return value in parts if get_origin(hint) is Literal else any(_fits(value, part) for part in parts)
    return type(value) is hint or (hint is float and type(value) is int)
