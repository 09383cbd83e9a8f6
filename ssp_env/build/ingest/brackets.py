"""Brackets of wikitext: one scan drops whole blocks, and inline templates that carry words become text.

Dropped, in time linear in the text whatever it holds: tables, templates that fill lines of their own, and links to
files and categories, however deeply nested. An opening bracket that is never closed is left to later passes; a table
without its end stops at the next heading. Only lines that still hold a template after that are rendered, because the
parser (``mwparserfromhell``) is exact but slow. Documentation of the templates: their pages on English Wikipedia.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from ssp_env.errors import needs

if TYPE_CHECKING:
    from mwparserfromhell.nodes import Template
    from mwparserfromhell.wikicode import Wikicode

Arguments = list[str]
MAX_PARSED = 4000
"""Characters of a template that the parser, which is quadratic at worst, is given."""
_BRACKET = re.compile(r"\{\{|\}\}|\[\[|\]\]|^[ \t:*]*\{\||^[ \t]*\|\}(?!\})", re.M)
_FILE = re.compile(r"\[\[\s*(?:file|image|media|category|datei|fichier|archivo|immagine|bild)\s*:", re.I)
_NAME = re.compile(r"\{\{\s*([^|{}\n<]*)")
_NEXT_HEADING = re.compile(r"^==", re.M)
_BRACES = re.compile(r"\{\{|\}\}")
_OPENING = re.compile(r"\{\{+|\}\}")
_UNCLOSED = re.compile(r"\{\{+[^|{}\n]*\|")
_NEAR = 24
"""Characters beside a template that are looked at to tell whether it stands on lines of its own."""
_KINDS = {"}}": "{{", "]]": "[["}


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


def render_templates(text: str) -> tuple[str, int]:
    """Return text, whose double braces are balanced, with its templates replaced, and how many left nothing.

    A template above ``MAX_PARSED`` characters leaves nothing.
    """
    with needs("mwparserfromhell", extra="ingest", use="wikitext"):
        import mwparserfromhell
    kept: list[str] = []
    depth = n_dropped = position = start = 0
    for match in _BRACES.finditer(text):
        if match[0] == "{{":
            start = match.start() if depth == 0 else start
            depth += 1
            continue
        depth -= 1
        if depth == 0:
            template = text[start : match.end()]
            is_short = len(template) <= MAX_PARSED
            shown, n = _render(mwparserfromhell.parse(template, skip_style_tags=True)) if is_short else ("", 1)
            kept += [text[position:start], shown]
            n_dropped += n
            position = match.end()
    kept.append(text[position:])
    return "".join(kept), n_dropped


def _render(code: Wikicode) -> tuple[str, int]:
    from mwparserfromhell.nodes import Argument, Tag, Template, Wikilink

    parts: list[str] = []
    n_dropped = 0
    for node in code.nodes:
        text, dropped = str(node), 0
        if isinstance(node, Template):
            text, dropped = _template(node)
        elif isinstance(node, Argument):
            text = ""
        elif isinstance(node, Wikilink) and node.text is not None and "{{" in text:
            inner, dropped = _render(node.text)
            text = f"[[{node.title}|{inner}]]"
        elif isinstance(node, Tag) and node.contents is not None and "{{" in text:
            text, dropped = _render(node.contents)
        parts.append(text)
        n_dropped += dropped
    return "".join(parts), n_dropped


def _template(node: Template) -> tuple[str, int]:
    name = str(node.name).strip().replace("_", " ").lower()
    if name.startswith("formatnum:"):
        return name.removeprefix("formatnum:").split("|")[0].strip(), 0
    show = _first if name.startswith(("lang-", "langx-")) else SHOWN.get(name)
    if show is None:
        return "", 1
    arguments = [_render(p.value)[0].strip() for p in node.params if not p.showkey]
    return show(arguments), 0


def _at(arguments: Arguments, position: int) -> str:
    return arguments[position] if position < len(arguments) else ""


def _first(arguments: Arguments) -> str:
    return _at(arguments, 0)


def _second(arguments: Arguments) -> str:
    return _at(arguments, 1)


def _last(arguments: Arguments) -> str:
    return arguments[-1] if arguments else ""


def _convert(arguments: Arguments) -> str:
    """Give the quantity as the source states it; ranges are written ``2|to|3|km``."""
    kept: Arguments = []
    for argument in arguments:
        kept.append({"-": "–", "by": "by", "x": "×"}.get(argument, argument))
        if argument and not argument[0].isdigit() and argument not in ("to", "and", "or", "by", "x", "-", "–", "+/-"):
            break
    return " ".join(kept)


def _fraction(arguments: Arguments) -> str:
    whole, over = (f"{arguments[0]} ", arguments[1:]) if len(arguments) == 3 else ("", arguments)
    return whole + "/".join(over if len(over) > 1 else ["1", *over])


def _joined(separator: str) -> Callable[[Arguments], str]:
    return lambda arguments: separator.join(a for a in arguments if a)


def _said(text: str) -> Callable[[Arguments], str]:
    return lambda arguments: text


def _before(text: str) -> Callable[[Arguments], str]:
    return lambda arguments: f"{text}{_first(arguments)}".rstrip()


def _quote(arguments: Arguments) -> str:
    return f"“{_first(arguments)}”" if arguments else ""


_FIRST = (
    "nowrap|nobr|nobreak|no wrap|small|smaller|big|bigger|large|larger|em|strong|sc|smallcaps|sic|abbr|tooltip|vanchor|"
    "visible anchor|keypress|key|kbd|angbr|angle bracket|flag|flagcountry|flagu|ill|interlanguage link|nts|dts|sub|sup|"
    "val|gaps|math|mvar|var|nihongo|nihongo3|noitalic|no italic|italics|not a typo|typo|proper name|us$|£|€|script|"
    "resize|samp|code|mono|char|unichar|linktext|ship|uss|hms|native name|native phrase|longitem|literal translation|"
    "literally|translation"
)

SHOWN: dict[str, Callable[[Arguments], str]] = {
    **dict.fromkeys(_FIRST.split("|"), _first),
    **dict.fromkeys(("quote", "cquote", "quotation", "blockquote", "bquote", "quote box"), _quote),
    **dict.fromkeys(("lang", "wt", "ship class", "sclass", "flaglink"), _second),
    **dict.fromkeys(("transl", "transliteration", "script/hebrew"), _last),
    **dict.fromkeys(("convert", "cvt"), _convert),
    **dict.fromkeys(("frac", "fraction", "sfrac"), _fraction),
    **dict.fromkeys(("ubl", "unbulleted list", "hlist", "flatlist", "plainlist", "cslist", "comma separated entries"),
                    _joined(", ")),
    **dict.fromkeys(("chem", "chem2", "ce"), _joined("")),
    **dict.fromkeys(("·", "•", "dot", "bull", "middot"), _said(" · ")),
    **dict.fromkeys(("ndash", "en dash", "spaced ndash", "snd", "spnd", "–"), _said(" – ")),
    **dict.fromkeys(("mdash", "em dash", "spaced mdash", "—"), _said(" — ")),
    **dict.fromkeys(("nbsp", "space", "spaces", "thinsp", "clear", "pad"), _said(" ")),
    **dict.fromkeys(("circa", "c.", "ca"), _before("c. ")),
    **dict.fromkeys(("as of", "as of?"), _before("As of ")),
    **dict.fromkeys(("floruit", "fl", "fl."), _before("fl. ")),
    **dict.fromkeys(("born-in", "b."), _before("b. ")),
    "'": _said("'"), "'s": _said("'s"), "=": _said("="), "!": _said("|"), "pipe": _said("|"), "(": _said("("),
    ")": _said(")"), "asterisk": _said("*"), "spaced en dash": _said(" – "), "section link": _said(""),
}  # fmt: skip
