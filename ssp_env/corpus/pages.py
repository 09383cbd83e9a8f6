"""Pages in a JSON Lines file, opened by title, page id or a passage of theirs.

Rows are ``{id, title, sections: [{heading, level, text}], links: [title, ...]}``; other keys are ignored. A section may
carry ``links`` of its own. Redirects are rows ``{title, target}``.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated

import numpy as np

from ssp_env.corpus.passages import RowError
from ssp_env.corpus.table import LineTable, Scan, first_of_each, key_digest
from ssp_env.errors import CorpusError
from ssp_env.schema import FilledText, load, says
from ssp_env.text import title_key
from ssp_env.types import Page, Passage, Section

MAX_REDIRECTS = 4
"""Redirects followed in a row; a longer chain, or a circle, leads nowhere."""


def only_section(page: Page, heading: str) -> Page:
    """Return a page with the named section and its subsections only; spelling as in ``text.title_key``.

    Raises:
        KeyError: If there is no such section.
    """
    wanted = title_key(heading)
    first = next((n for n, s in enumerate(page.sections) if title_key(s.heading) == wanted), None)
    if first is None:
        raise KeyError(heading)
    level = page.sections[first].level
    rest = page.sections[first + 1 :]
    end = next((n for n, s in enumerate(rest) if s.level <= level), len(rest))
    return replace(page, sections=page.sections[first : first + 1 + end])


@dataclass(frozen=True, slots=True)
class _SectionRow:
    heading: str
    level: int
    text: str
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _PageRow:
    id: FilledText | int
    title: FilledText
    sections: Annotated[tuple[_SectionRow, ...], says("a non-empty list of sections", min_length=1)]
    links: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _RedirectRow:
    title: FilledText
    target: FilledText


def parse_page(line: bytes) -> Page:
    """Parse and check one page.

    Raises:
        RowError: If the line is no JSON object of the shape above.
    """
    row = load(_PageRow, line, what="a page", error=RowError)
    links = dict.fromkeys(link for links in (row.links, *(section.links for section in row.sections)) for link in links)
    sections = tuple(Section(section.heading, section.level, section.text) for section in row.sections)
    return Page(str(row.id), row.title, sections, tuple(links))


def parse_redirect(line: bytes) -> tuple[str, str]:
    """Parse and check one redirect; return its title and where it points.

    Raises:
        RowError: If the line is no JSON object of the shape above.
    """
    row = load(_RedirectRow, line, what="a redirect", error=RowError)
    return row.title, row.target


def open_pages(path: Path, *, redirects: Path | None = None, index_dir: Path | None = None) -> PageStore:
    """Open a file of pages; the first opening reads and checks every row.

    Args:
        path: The pages, JSON Lines (plain, ``.gz`` or ``.zst``).
        redirects: Other titles that lead to them.
        index_dir: Folder for the table; default: ``<path>.ssp-index``.

    Raises:
        CorpusError: If a file is missing or a row is malformed; the message names file and line.
        ConfigError: If the folder for the table is not writable.
    """
    return PageStore(path, redirects=redirects, index_dir=index_dir)


class PageStore:
    """Pages in a file; safe to use from several threads and in forked or spawned processes."""

    def __init__(self, path: Path, *, redirects: Path | None = None, index_dir: Path | None = None) -> None:
        """Open the file; see ``open_pages``."""
        self._path = Path(path).absolute()
        self._redirects = None if redirects is None else Path(redirects).absolute()
        self._given_dir = None if index_dir is None else Path(index_dir).absolute()
        files = [file for file in (self._path, self._redirects) if file is not None]
        self._table = LineTable("pages", files, index_dir=self._given_dir, scan=_scan)

    def __reduce__(self) -> tuple[partial[PageStore], tuple[Path]]:
        """Pickle the paths only; unpickling opens the files again."""
        return partial(PageStore, redirects=self._redirects, index_dir=self._given_dir), (self._path,)

    def __len__(self) -> int:
        """Return the number of pages."""
        return int(str(self._table.facts["n_pages"]))

    def by_id(self, page_id: str) -> Page:
        """Return the page with this id; raises ``KeyError`` when there is none."""
        for row in self._table.find("ids", page_id):
            if (page := self._table.read(row, parse_page)).id == page_id:
                return page
        raise KeyError(page_id)

    def by_title(self, title: str) -> Page:
        """Return the page with this title, following redirects.

        The exact title wins over one in another spelling (see ``text.title_key``), a page over a redirect, and
        among equals the first in the file.

        Raises:
            KeyError: If there is none.
        """
        wanted = title
        for _ in range(MAX_REDIRECTS + 1):
            found = self._find(wanted)
            if isinstance(found, Page):
                return found
            if found is None:
                break
            wanted = found
        raise KeyError(title)

    def of_passage(self, passage: Passage) -> Page:
        """Return the page that a passage is from: that of its title; raises ``KeyError`` when there is none."""
        return self.by_title(passage.title)

    def _find(self, title: str) -> Page | str | None:
        """Return the page of a title, or where a redirect points."""
        key = title_key(title)
        pages: list[Page] = []
        targets: list[tuple[str, str]] = []
        for row in self._table.find("keys", key):
            if row < len(self):
                pages.append(self._table.read(row, parse_page))
            else:
                targets.append(self._table.read(row, parse_redirect))
        pages = [page for page in pages if title_key(page.title) == key]
        targets = [(source, target) for source, target in targets if title_key(source) == key]
        if pages:
            return next((page for page in pages if page.title == title), pages[0])
        return next((target for source, target in targets if source == title), targets[0][1] if targets else None)


def _scan(scan: Scan) -> dict[str, object]:
    """Read all pages, then the redirects; those come later in the table and have no ids."""
    ids, keys = array("Q"), array("Q")
    for page in scan.rows(0, parse_page):
        ids.append(key_digest(page.id))
        keys.append(key_digest(title_key(page.title)))
    if not ids:
        raise CorpusError(f"expected at least one page, got none in {scan.sources[0]}; check the path")
    first_of_each(np.frombuffer(ids, np.uint64), partial(_refuse_repeat, scan))
    for number in range(1, len(scan.sources)):
        for title, _ in scan.rows(number, parse_redirect):
            keys.append(key_digest(title_key(title)))
    scan.save(ids=np.frombuffer(ids, np.uint64), keys=np.frombuffer(keys, np.uint64))
    return {"n_pages": len(ids), "n_redirects": len(keys) - len(ids)}


def _refuse_repeat(scan: Scan, first: int, row: int) -> bool:
    remedy = f"got that of {scan.place(first)} again; rename or remove one"
    raise CorpusError(f"{scan.place(row)}: expected unique page ids, {remedy}")
