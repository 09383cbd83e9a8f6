"""Wikitext to plain sections with links: what a reader of the article's prose would see.

Three passes, the fast ones first: regular expressions drop comments, references and tags with unreadable content; one
scan over brackets drops tables, blocks of templates (infoboxes, hatnotes, navigation) and file or category links;
``mwparserfromhell`` reads only lines that still hold a template. Headings and link targets are kept as data. Left out:
captions, galleries, formulas, tables, and sections that list sources (their links stay). Malformed markup never raises
and never swallows more than its own block.
"""

from __future__ import annotations

import html
import re
from collections import Counter
from dataclasses import dataclass, field

from ssp_env.build.ingest.brackets import drop_blocks, render_templates, without_unclosed
from ssp_env.types import Section

APPARATUS = frozenset(
    "references|external links|see also|further reading|notes|bibliography|sources|citations|footnotes|works cited|"
    "notes and references|references and notes|general references|primary sources|secondary sources|gallery|"
    "explanatory notes|references and sources|sources and references|notes and citations".split("|")
)
MAX_TEMPLATE_LINES = 60
_TAG = re.compile(
    r"<(/)?(ref|math|gallery|timeline|score|syntaxhighlight|source|pre|imagemap|references|hiero|chem|ce|graph|"
    r"mapframe|maplink|templatestyles|inputbox|categorytree|indicator|nowiki)\b(?(1)\s*|[^<>]*?)(/)?>",
    re.I,
)
_SHIELD = {ord(c): f"&#{ord(c)};" for c in "[]{}|<>'*#:;=!"}
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.S)
_HEADING = re.compile(r"^(={1,6})[ \t]*(.+?)[ \t]*\1[ \t]*$", re.M)
_LINK = re.compile(r"\[\[:?([^\[\]|\n]*)(?:\|([^\[\]]*))?\]\]")
_URL_LINK = re.compile(
    r"\[(?:[a-z][a-z+.-]{1,10}:)?//[^\s\]]*[ \t]*([^\[\]\n]*)\]|\[mailto:[^\s\]]*[ \t]*([^\[\]\n]*)\]", re.I
)
_BARE_URL = re.compile(r"\b(?:https?|ftp)://[^\s<>\"|\]]*[^\s<>\"|\].,;:!?)]")
_ANY_TAG = re.compile(r"</?[a-zA-Z][^<>]*>")
_BREAK = re.compile(r"<(?:br|hr|p|/p|li|/li|div|/div)\b[^<>]*>", re.I)
_STYLE = re.compile(r"'{2,}")
_SWITCH = re.compile(r"__[A-Z]{3,}__")
_LIST = re.compile(r"^[*#:;]+[ \t]*", re.M)
_CELL = re.compile(r"^[ \t]*(?:[|!].*|-{4,}[ \t]*)$", re.M)
_LEFTOVER = re.compile(r"\{\{[^|{}\n]*\||\{\{+|\}\}+|\[\[+|\]\]+|\{\||\|\}|<[/!]?[a-zA-Z][^<>\n]*$", re.M)
_SPACES = re.compile(r"[^\S\n]+")
_EMPTY = re.compile(r"\((?:[\s,;:/–—-]|\bor\b)*\)|\[\s*\]|“\s*”")
_OPENED = re.compile(r"\(\s*(?:[,;:]\s*)+")
_LOOSE = re.compile(r"\s+(?=[,.;:)](?:\s|$))|(?<=\()[^\S\n]+")
_MARKS = re.compile(r"([,;:])(?:\s*[,;])+")
_INVISIBLE = dict.fromkeys(map(ord, "\u200b\u200c\u200d\u200e\u200f\ufeff\u00ad\x7f")) | {0x2028: "\n", 0x2029: "\n"}
_DISAMBIGUATION = re.compile(
    r"\{\{\s*(?:[^{}|\n]*\b)?(?:disambig(?:uation)?|dab|hndis|geodis|mathdab|schooldis|shipindex|set index article|"
    r"surname|given name)\b[^{}\n]*\}\}",
    re.I,
)
_PREFIXED = re.compile(r"[a-z]{2,3}(?:-[a-z]{2,10})*:|(?:simple|tokipona|map-bms|nds-nl|zh-yue):")


@dataclass(slots=True)
class Cleaned:
    """The content of a page, whether it only tells names apart, and what was removed, counted by kind."""

    sections: list[Section] = field(default_factory=list)
    links: dict[str, None] = field(default_factory=dict)
    is_disambiguation: bool = False
    removed: Counter[str] = field(default_factory=Counter)


def clean_page(wikitext: str) -> Cleaned:
    """Return the readable content of an article's wikitext. Never raises on malformed markup."""
    page = Cleaned(is_disambiguation=_DISAMBIGUATION.search(wikitext) is not None)
    text = _without_tags(wikitext, page.removed)
    text = drop_blocks(text, page.removed)
    hidden_below = 0
    for heading, level, body in _split(text):
        name = _plain_heading(heading)
        if hidden_below and level > hidden_below:
            is_hidden = True
        else:
            is_hidden = name.casefold() in APPARATUS
            hidden_below = level if is_hidden else 0
        prose = _prose(body, page.removed, page.links)
        if is_hidden:
            page.removed["source sections"] += 1
        else:
            page.sections.append(Section(name, level, prose))
    return page


def redirect_target(wikitext: str) -> str | None:
    """Return the title that a redirect page points to, or None for any other page."""
    match = re.match(r"\s*#\s*redirect[a-z]*\s*:?\s*\[\[([^\[\]|#\n]+)", wikitext, re.I)
    return link_title(match[1]) if match else None


def link_title(target: str) -> str:
    """Return a link target as a page title: no fragment, no underscores, first letter upper case."""
    title = _SPACES.sub(" ", html.unescape(target.partition("#")[0]).replace("_", " ")).strip().lstrip(":").strip()
    return title[:1].upper() + title[1:]


def _without_tags(text: str, removed: Counter[str]) -> str:
    if "<" not in text:
        return text
    text, n_comments = _COMMENT.subn("", text)
    removed["comments"] += n_comments
    return _drop_tags(text, removed)


def _drop_tags(text: str, removed: Counter[str]) -> str:
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


def _split(text: str) -> list[tuple[str, int, str]]:
    """Return (heading, level, body) of the lead and of every section."""
    pieces: list[tuple[str, int, str]] = []
    heading, level, start = "", 1, 0
    for match in _HEADING.finditer(text):
        pieces.append((heading, level, text[start : match.start()]))
        heading, level, start = match[2], len(match[1]), match.end()
    pieces.append((heading, level, text[start:]))
    return pieces


def _plain_heading(heading: str) -> str:
    return _prose(heading, Counter(), {}).replace("\n", " ").strip("= ")


def _prose(body: str, removed: Counter[str], links: dict[str, None]) -> str:
    if "{{" in body:
        body = _with_templates(body, removed)

    def shown(match: re.Match[str]) -> str:
        target, label = match[1].strip(), match[2]
        if ":" in target and label is None and _PREFIXED.match(target):
            return ""
        title = link_title(target)
        if title and not _PREFIXED.match(target):
            links.setdefault(title)
        return label if label else target.lstrip(":") if label is None else target.partition(" (")[0]

    for _ in range(3):  # a label may hold a link
        body, n_links = _LINK.subn(shown, body)
        if not n_links:
            break
    return _finish(body)


def _with_templates(body: str, removed: Counter[str]) -> str:
    lines = body.split("\n")
    done: list[str] = []
    position = 0
    while position < len(lines):
        line = lines[position]
        n_lines = 1
        if "{{" in line:
            n_lines = _lines_to_close(lines, position)
            line = without_unclosed("\n".join(lines[position : position + n_lines]))
            line, n_dropped = render_templates(line)
            removed["inline templates"] += n_dropped
        done.append(line)
        position += n_lines
    return "\n".join(done)


def _lines_to_close(lines: list[str], position: int) -> int:
    """Return how many lines the templates opened in this line need, or 1 when they are not closed nearby."""
    n_open = 0
    for n_lines, line in enumerate(lines[position : position + MAX_TEMPLATE_LINES], start=1):
        n_open += line.count("{{") - line.count("}}")
        if n_open <= 0:
            return n_lines
    return 1


def _joined_lines(text: str) -> str:
    """Make every paragraph one line: in wikitext only an empty line or a list mark begins a new one."""
    paragraphs: list[str] = []
    is_open = False
    for line in map(str.strip, text.split("\n")):
        if is_open and line and line[0] not in "*#:;":
            paragraphs[-1] += f" {line}"
            continue
        paragraphs.append(line)
        is_open = bool(line) and line[0] not in "*#:;"
    return "\n".join(paragraphs)


def _finish(text: str) -> str:
    if "[" in text:
        text = _URL_LINK.sub(lambda m: m[1] or m[2] or "", text)
    if "://" in text:
        text = _BARE_URL.sub("", text)
    if "<" in text:
        text = _ANY_TAG.sub("", _BREAK.sub("\n\n", text))
    text = _SWITCH.sub("", _STYLE.sub("", text))
    text = _LIST.sub("", _joined_lines(_CELL.sub("", text)))
    text = _LEFTOVER.sub("", text)
    text = html.unescape(text).translate(_INVISIBLE)
    text = _MARKS.sub(r"\1", _OPENED.sub("(", _EMPTY.sub("", text)))
    text = _LOOSE.sub("", _SPACES.sub(" ", text))
    return "\n".join(line for line in map(str.strip, text.split("\n")) if any(map(str.isalnum, line)))
