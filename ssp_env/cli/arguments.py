"""What commands share: kinds of argument as types of fields, ``sources: Positional[Paths]``, and errors in flags."""

from __future__ import annotations

import json
import re
import shlex
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


def in_flags(message: str) -> str:
    """Return an error of the library in the words of a command: ``reader='policy'`` becomes ``--reader policy``."""

    def flag(found: re.Match[str]) -> str:
        name, value = found.groups()
        return f"--{name} {shlex.quote(value.replace(chr(39), chr(34)) if value.startswith('{') else value[1:-1])}"

    return re.sub(r"\b(judge|reader|retriever|rules)=('[^']*'|\{[^{}]*\})", flag, message)
