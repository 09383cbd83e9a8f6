"""Kinds of argument that commands share, as types of fields: ``sources: Positional[Paths]``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from tyro.conf import arg
from tyro.constructors import PrimitiveConstructorSpec


def _paths(words: list[str]) -> tuple[Path, ...]:
    if not words:
        raise ValueError("expected at least one path, got none; give it")
    return tuple(map(Path, words))


def _json_object(words: list[str]) -> Mapping[str, object]:
    try:
        value = json.loads(words[0])
    except ValueError as error:
        raise ValueError(f"expected a JSON object, got {words[0]!r} ({error})") from error
    if not isinstance(value, dict):
        raise ValueError(f"expected a JSON object, got {words[0]!r}")
    return value


Paths = Annotated[
    tuple[Path, ...],
    PrimitiveConstructorSpec(
        nargs="*",
        metavar="PATH [PATH ...]",
        instance_from_str=_paths,
        is_instance=lambda value: isinstance(value, tuple),
        str_from_instance=lambda paths: [str(path) for path in paths],
    ),
    arg(help_behavior_hint="(required)"),
]
"""One path or more."""

JsonObject = Annotated[
    Mapping[str, object],
    PrimitiveConstructorSpec(
        nargs=1,
        metavar="JSON",
        instance_from_str=_json_object,
        is_instance=lambda value: isinstance(value, Mapping),
        str_from_instance=lambda value: [json.dumps(value)],
    ),
]
"""Settings, written as a JSON object."""
