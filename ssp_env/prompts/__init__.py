"""Prompt templates as text files, one folder per set, filled in one pass.

A template is one user message, or several messages divided by lines ``---``: system, user, and then assistant and user
in turn (worked examples). Placeholders are ``{name}``; a value that itself contains braces is never expanded again, and
tags inside values are neutralised. Sets: ``paper`` (English instructions after SSP appendix D), ``worked`` (short, with
examples, for instruction-tuned models too small to follow a description of the format) and ``compact`` (few words, for
models trained on them).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from ssp_env.errors import ConfigError
from ssp_env.grammar import neutralise
from ssp_env.types import Message

PROMPT_SETS = ("paper", "worked", "compact")
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@cache
def _template(prompt_set: str, name: str) -> str:
    if prompt_set not in PROMPT_SETS:
        raise ConfigError(f"expected a prompt set out of {PROMPT_SETS}, got {prompt_set!r}; name one of these")
    return (files("ssp_env.prompts") / prompt_set / f"{name}.txt").read_text(encoding="utf-8").strip("\n")


def fill(prompt_set: str, name: str, values: Mapping[str, str]) -> tuple[Message, ...]:
    """Return the messages of a template with its placeholders replaced.

    Raises:
        ConfigError: If the set or one of the template's placeholders is unknown.
    """

    def value(match: re.Match[str]) -> str:
        key = match.group(1)
        if key not in values:
            raise ConfigError(f"template {prompt_set}/{name} wants {{{key}}}, got values for {sorted(values)}; add it")
        return neutralise(values[key])

    parts = _template(prompt_set, name).split("\n---\n")
    names = ["system", *(("user", "assistant")[i % 2] for i in range(len(parts) - 1))] if parts[1:] else ["user"]
    return tuple(
        Message(role=role, content=_PLACEHOLDER.sub(value, text)) for role, text in zip(names, parts, strict=True)
    )
