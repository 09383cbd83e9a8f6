"""Prompt templates as text files, one folder per set, filled in one pass.

A template is one user message, or several messages divided by lines ``---``: system, user, and then assistant and user
in turn (worked examples). Placeholders are ``{name}``; a value that itself contains braces is never expanded again, and
tags inside values are neutralised. ``{tools}`` becomes a line for each enabled tool, made from its schema, but for
``search``, which every set explains in its own words or takes for known. Sets: ``paper`` (English instructions after
SSP appendix D), ``worked`` (short, with examples, for instruction-tuned models too small to follow a description of the
format) and ``compact`` (few words, for models trained on them, which know no tool but ``search``).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType
from typing import cast

from ssp_env.errors import ConfigError
from ssp_env.protocols import Tool
from ssp_env.tags import neutralise, neutralise_tags
from ssp_env.types import Message

PROMPT_SETS = ("paper", "worked", "compact")
KNOWN_TOOL = "search"
"""The tool of which every set tells by itself, and which a game therefore has."""
_TOOLS = "{tools}"
_PLACEHOLDER = re.compile(r"\{([a-z_]+)\}")


@cache
def _template(prompt_set: str, name: str) -> str:
    if prompt_set not in PROMPT_SETS:
        raise ConfigError(f"expected a prompt set out of {PROMPT_SETS}, got {prompt_set!r}; name one of these")
    return (files("ssp_env.game.prompts") / prompt_set / f"{name}.txt").read_text(encoding="utf-8").strip("\n")


def fill(
    prompt_set: str,
    name: str,
    values: Mapping[str, str],
    *,
    tools: Mapping[str, Tool] = MappingProxyType({}),
    final: str = "answer",
) -> tuple[Message, ...]:
    """Return the messages of a template with its placeholders replaced.

    Args:
        prompt_set: The set.
        name: The template in it.
        values: What stands for the placeholders; tags inside are neutralised.
        tools: The tools that may be called, by name.
        final: The tag that ends the episode.

    Raises:
        ConfigError: If the set or one of the template's placeholders is unknown, or the template tells of no tools.
    """
    check_tools(prompt_set, name, tools)

    def value(match: re.Match[str]) -> str:
        key = match.group(1)
        if match.group() == _TOOLS:
            return "".join(_line(tool) for tool in tools.values() if tool.name != KNOWN_TOOL)
        if key not in values:
            raise ConfigError(f"template {prompt_set}/{name} wants {{{key}}}, got values for {sorted(values)}; add it")
        return neutralise_tags(neutralise(values[key]), (*tools, final))

    parts = _template(prompt_set, name).split("\n---\n")
    names = ["system", *(("user", "assistant")[i % 2] for i in range(len(parts) - 1))] if parts[1:] else ["user"]
    return tuple(
        Message(role=role, content=_PLACEHOLDER.sub(value, text)) for role, text in zip(names, parts, strict=True)
    )


def check_tools(prompt_set: str, name: str, tools: Collection[str]) -> None:
    """Refuse tools of which a template cannot tell.

    Raises:
        ConfigError: If there are any.
    """
    untold = sorted(set(tools) - {KNOWN_TOOL})
    if untold and _TOOLS not in _template(prompt_set, name):
        raise ConfigError(
            f"expected a prompt set that tells of the tools {untold}, got {prompt_set!r}, whose {name!r} has no "
            f"{_TOOLS}; use 'paper', or add it there"
        )


def _line(tool: Tool) -> str:
    try:
        function = cast("Mapping[str, Mapping[str, Mapping[str, object]]]", tool.schema)["function"]
        (parameter,) = cast("Mapping[str, object]", function["parameters"]["properties"])
        description = function["description"]
    except (KeyError, TypeError, ValueError) as error:
        wanted = f"a function with a description and one parameter as schema of tool {tool.name!r}"
        raise ConfigError(f"expected {wanted}, got {tool.schema!r}; a call is one text between its tags") from error
    return f"\nA further tool is <{tool.name}> {parameter} </{tool.name}>: {description}"
