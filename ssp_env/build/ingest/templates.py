"""The text of inline templates that carry words; every other template leaves nothing behind.

Only lines that still hold a template after the fast passes of ``wikitext`` come here, because the parser
(``mwparserfromhell``) is exact but slow. Documentation of the templates: their pages on English Wikipedia.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mwparserfromhell.nodes import Template
    from mwparserfromhell.wikicode import Wikicode

Arguments = list[str]
MAX_PARSED = 4000
"""Characters of a template that the parser, which is quadratic at worst, is given."""
_BRACES = re.compile(r"\{\{|\}\}")


def render_templates(text: str) -> tuple[str, int]:
    """Return text, whose double braces are balanced, with its templates replaced, and how many left nothing.

    A template above ``MAX_PARSED`` characters leaves nothing.

    Raises:
        ImportError: If ``mwparserfromhell`` is missing.
    """
    try:
        import mwparserfromhell
    except ImportError as error:
        raise ImportError("wikitext needs mwparserfromhell: pip install 'ssp-env[ingest]'") from error
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
    show = SHOWN.get(name) or _by_prefix(name)
    if show is None:
        return "", 1
    arguments = [_render(p.value)[0].strip() for p in node.params if not p.showkey]
    return show(arguments), 0


def _by_prefix(name: str) -> Callable[[Arguments], str] | None:
    return _first if name.startswith(("lang-", "langx-")) else None


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
