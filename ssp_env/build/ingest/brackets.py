"""Scans over the brackets of wikitext that drop whole blocks, in time linear in the text whatever it holds.

Dropped: references and other tags whose content is not prose, tables, templates that fill lines of their own, and
links to files and categories, however deeply nested. An opening bracket or tag that is never closed is left to later
passes; a table without its end stops at the next heading.
"""

from __future__ import annotations

import re
from collections import Counter

from ssp_env.build.ingest.templates import SHOWN

_BRACKET = re.compile(r"\{\{|\}\}|\[\[|\]\]|^[ \t:*]*\{\||^[ \t]*\|\}(?!\})", re.M)
_FILE = re.compile(r"\[\[\s*(?:file|image|media|category|datei|fichier|archivo|immagine|bild)\s*:", re.I)
_NAME = re.compile(r"\{\{\s*([^|{}\n<]*)")
_NEXT_HEADING = re.compile(r"^==", re.M)
_TAG = re.compile(
    r"<(/)?(ref|math|gallery|timeline|score|syntaxhighlight|source|pre|imagemap|references|hiero|chem|ce|graph|"
    r"mapframe|maplink|templatestyles|inputbox|categorytree|indicator|nowiki)\b(?(1)\s*|[^<>]*?)(/)?>",
    re.I,
)
_OPENING = re.compile(r"\{\{+|\}\}")
_UNCLOSED = re.compile(r"\{\{+[^|{}\n]*\|")
_SHIELD = {ord(c): f"&#{ord(c)};" for c in "[]{}|<>'*#:;=!"}
_NEAR = 24
"""Characters beside a template that are looked at to tell whether it stands on lines of its own."""
_KINDS = {"}}": "{{", "]]": "[["}


def drop_tags(text: str, removed: Counter[str]) -> str:
    """Return the text without tags whose content is not prose; what ``nowiki`` holds will not be read as markup."""
    tags = list(_TAG.finditer(text))
    closing: dict[str, int] = {}
    closed_by = [-1] * len(tags)
    for number in range(len(tags) - 1, -1, -1):
        name = tags[number][2].lower()
        if tags[number][1]:
            closing[name] = number
        else:
            closed_by[number] = number if tags[number][3] else closing.get(name, -1)
    kept: list[str] = []
    position = 0
    for number, tag in enumerate(tags):
        if tag.start() < position or closed_by[number] < 0:
            continue
        end = tags[closed_by[number]]
        name = tag[2].lower()
        kept.append(text[position : tag.start()])
        position = end.end()
        if name == "nowiki":
            kept.append(text[tag.end() : end.start()].translate(_SHIELD))
        else:
            removed["references" if name == "ref" else "formulas and other tags"] += 1
    kept.append(text[position:])
    return "".join(kept)


def without_unclosed(text: str) -> str:
    """Return the text without double braces that have no partner, nor the template's name after them."""
    if text.count("{{") == text.count("}}") == 1:
        return text
    stack: list[re.Match[str]] = []
    spans: list[tuple[int, int]] = []
    for match in _OPENING.finditer(text):
        if match[0] != "}}":
            stack.append(match)
        elif stack:
            stack.pop()
        else:
            spans.append(match.span())
    openings = (_UNCLOSED.match(text, match.start()) or match for match in stack)
    return _cut(text, sorted([*spans, *(opening.span() for opening in openings)]))


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
    unclosed: list[tuple[int, int]] = []
    for kind, start in stack:
        if kind == "{|" and (not unclosed or start >= unclosed[-1][1]):
            heading = _NEXT_HEADING.search(text, start)
            unclosed.append((start, heading.start() if heading else len(text)))
            removed["tables"] += 1
    return _cut(text, sorted([*spans, *unclosed]))


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
    before = text[max(start - _NEAR, 0) : start]
    after = text[end : end + _NEAR]
    if "\n" in before or start <= _NEAR:
        before = before[before.rfind("\n") + 1 :].strip(" \t:*#;")
    after = after.partition("\n")[0].strip()
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
