"""One scan over the brackets of wikitext that drops whole blocks.

Dropped: tables, templates that fill lines of their own, and links to files and categories, however deeply nested. An
opening bracket that is never closed is left to later passes; a table without its end stops at the next heading.
"""

from __future__ import annotations

import re
from collections import Counter

from ssp_env.ingest.templates import SHOWN

_BRACKET = re.compile(r"\{\{|\}\}|\[\[|\]\]|^[ \t:*]*\{\||^[ \t]*\|\}(?!\})", re.M)
_FILE = re.compile(r"\[\[\s*(?:file|image|media|category|datei|fichier|archivo|immagine|bild)\s*:", re.I)
_NAME = re.compile(r"\{\{\s*([^|{}\n<]*)")
_NEXT_HEADING = re.compile(r"^==", re.M)
_KINDS = {"}}": "{{", "]]": "[["}


def drop_blocks(text: str, removed: Counter[str]) -> str:
    """Return the text without its blocks; counts what was dropped into ``removed``."""
    spans: list[tuple[int, int]] = []
    stack: list[tuple[str, int]] = []
    for match in _BRACKET.finditer(text):
        token = match[0]
        if token in ("{{", "[["):
            stack.append((token, match.start()))
        elif token[-1] == "|":
            stack.append(("{|", match.start()))
        else:
            opened = _close(stack, _KINDS.get(token, "{|"))
            if opened is not None:
                _judge(text, opened, match.end(), spans=spans, removed=removed)
    for kind, start in reversed(stack):
        if kind == "{|":
            heading = _NEXT_HEADING.search(text, start)
            _drop(spans, start, heading.start() if heading else len(text))
            removed["tables"] += 1
    return _cut(text, spans)


def _close(stack: list[tuple[str, int]], kind: str) -> tuple[str, int] | None:
    """Pop the innermost opening bracket of this kind; a link may not reach across a template or a table."""
    for depth in range(len(stack) - 1, -1, -1):
        if stack[depth][0] == kind:
            opened = stack[depth]
            del stack[depth:]
            return opened
        if kind == "[[" and stack[depth][0] != "[[":
            return None
    return None


def _judge(
    text: str, opened: tuple[str, int], end: int, *, spans: list[tuple[int, int]], removed: Counter[str]
) -> None:
    kind, start = opened
    if kind == "{|":
        removed["tables"] += 1
    elif kind == "[[":
        if not _FILE.match(text, start):
            return
        removed["file and category links"] += 1
    else:
        if not _fills_lines(text, start, end) or _name(text, start) in SHOWN:
            return
        removed["template blocks"] += 1
    _drop(spans, start, end)


def _name(text: str, start: int) -> str:
    match = _NAME.match(text, start)
    return match[1].strip().replace("_", " ").lower() if match else ""


def _fills_lines(text: str, start: int, end: int) -> bool:
    """Tell whether nothing but list marks and other templates stands beside the template on its lines."""
    before = text[text.rfind("\n", 0, start) + 1 : start].strip(" \t:*#;")
    line_end = text.find("\n", end)
    after = text[end : line_end if line_end >= 0 else len(text)].strip()
    return (not before or before.endswith("}}")) and (not after or after.startswith(("{{", "[[File:", "[[Image:")))


def _drop(spans: list[tuple[int, int]], start: int, end: int) -> None:
    while spans and spans[-1][0] >= start:
        spans.pop()
    spans.append((start, end))


def _cut(text: str, spans: list[tuple[int, int]]) -> str:
    kept: list[str] = []
    position = 0
    for start, end in spans:
        if start >= position:
            kept.append(text[position:start])
        position = max(position, end)
    kept.append(text[position:])
    return "".join(kept)
