"""ZIM archives (Kiwix), read with ``libzim``, which is GPL-3.0: an extra of its own, imported only when asked for.

Headings, paragraphs and list items of the HTML are kept; tables, figures, references, navigation and scripts are left
out. Links to other entries and redirects are kept as data. Ids are entry paths.
"""

from __future__ import annotations

from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote

from ssp_env.build.ingest.parts import Chunk, Format, Item, Page, Redirect, Skip
from ssp_env.errors import CorpusError, needs
from ssp_env.types import Section

if TYPE_CHECKING:
    from libzim.reader import Archive, Entry

CHUNK_ENTRIES = 500
_HEADINGS = {f"h{level}": level for level in range(2, 7)}
_BREAKS = frozenset(("p", "li", "dd", "dt", "blockquote", "div", "section", "ul", "ol", "br", "tr"))
_HIDDEN = frozenset(
    ("h1", "table", "style", "script", "figure", "sup", "nav", "head", "footer", "noscript", "math", "svg")
)
_VOID = frozenset(
    ("br", "img", "hr", "input", "meta", "link", "wbr", "source", "area", "col", "base", "embed", "track")
)


def plan(path: Path) -> Iterator[Chunk]:
    """Yield ranges of entries; in archives of the present layout those of the content come first."""
    archive = _opened(path)
    n_entries = archive.entry_count if archive.has_new_namespace_scheme else archive.all_entry_count
    size = path.stat().st_size
    for start in range(0, n_entries, CHUNK_ENTRIES):
        end = min(start + CHUNK_ENTRIES, n_entries)
        yield Chunk(path, size * end // n_entries - size * start // n_entries, start=start, end=end)


def read(chunk: Chunk) -> Iterator[Item]:
    """Yield the pages and redirects of a range of entries."""
    archive = _opened(chunk.path)
    for number in range(chunk.start, chunk.end):
        try:
            yield from _entry_items(archive._get_entry_by_id(number))
        except RuntimeError as error:
            message = f"expected a readable entry, got {error} for entry {number} of {chunk.path}; get it anew"
            raise CorpusError(message) from error


def _entry_items(entry: Entry) -> Iterator[Item]:
    if entry.is_redirect:
        target = entry.get_redirect_entry()
        if entry.title.strip() and target.title.strip() and entry.title != target.title:
            yield Redirect(entry.title, target.title)
        return
    item = entry.get_item()
    if not item.mimetype.startswith("text/html"):
        yield Skip("entry is not a page", what=entry.path)
        return
    try:
        page = _Html(bytes(item.content).decode("utf-8"))
    except UnicodeDecodeError as error:
        yield Skip("entry is not UTF-8", what=f"{entry.path}: {error}")
        return
    if any(section.text for section in page.sections):
        yield Page(entry.path, entry.title.strip() or entry.path, tuple(page.sections), tuple(page.links))
    else:
        yield Skip("page without prose", what=entry.path)


class _Html(HTMLParser):
    """Collects sections and links from the HTML of an article."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.sections: list[Section] = []
        self.links: dict[str, None] = {}
        self._held: list[str] = []
        self._heading, self._level = "", 1
        self._in_heading = False
        self._hidden: list[str] = []
        self.feed(text)
        self.close()
        self._close_section()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if self._hidden or tag in _HIDDEN:
            if tag not in _VOID:
                self._hidden.append(tag)
        elif tag in _HEADINGS:
            self._close_section()
            self._level, self._in_heading = _HEADINGS[tag], True
        elif tag in _BREAKS:
            self._held.append("\n")
        elif tag == "a":
            self._link(dict(attrs).get("href") or "")

    def handle_endtag(self, tag: str) -> None:
        if self._hidden:
            if tag in self._hidden:
                del self._hidden[len(self._hidden) - 1 - self._hidden[::-1].index(tag) :]
        elif tag in _HEADINGS:
            self._in_heading = False
        elif tag in _BREAKS:
            self._held.append("\n")

    def handle_data(self, data: str) -> None:
        if self._hidden:
            return
        if self._in_heading:
            self._heading += data
        else:
            self._held.append(data.replace("\n", " "))

    def _link(self, href: str) -> None:
        if href and not href.startswith(("#", "//", "mailto:")) and "://" not in href:
            title = unquote(href.partition("#")[0]).rpartition("/")[2].replace("_", " ").strip()
            if title:
                self.links.setdefault(title)

    def _close_section(self) -> None:
        lines = (" ".join(line.split()) for line in "".join(self._held).split("\n"))
        self.sections.append(Section(" ".join(self._heading.split()), self._level, "\n".join(x for x in lines if x)))
        self._held, self._heading = [], ""


def _opened(path: Path) -> Archive:
    with needs("libzim (licensed GPL-3.0-or-later)", extra="zim", use="a ZIM archive"):
        from libzim.reader import Archive
    try:
        return Archive(path)
    except RuntimeError as error:
        raise CorpusError(f"expected a ZIM archive, got {error} for {str(path)!r}; get it anew") from error


ZIM = Format("ZIM archive (Kiwix; needs libzim, GPL-3.0)", plan, read)
