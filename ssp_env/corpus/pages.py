"""A page and its sections, and the rows they are read from.

Rows are ``{id, title, sections: [{heading, level, text}], links: [title, ...]}``; other keys are ignored. A section may
carry ``links`` of its own. Redirects are rows ``{title, target}``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from ssp_env.corpus.passages import RowError
from ssp_env.schema import FilledText, load, says
from ssp_env.text import title_key


@dataclass(frozen=True, slots=True)
class Section:
    """A part of a page; the lead has an empty heading and level 1, headings below it count from 2."""

    heading: str
    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """A whole page; ``links`` are the titles of other pages, each once."""

    id: str
    title: str
    sections: tuple[Section, ...]
    links: tuple[str, ...] = ()

    def section(self, heading: str) -> Page:
        """Return the page with the named section and its subsections only; spelling as in ``titles.title_key``.

        Raises:
            KeyError: If there is no such section.
        """
        wanted = title_key(heading)
        first = next((n for n, s in enumerate(self.sections) if title_key(s.heading) == wanted), None)
        if first is None:
            raise KeyError(heading)
        level = self.sections[first].level
        rest = self.sections[first + 1 :]
        end = next((n for n, s in enumerate(rest) if s.level <= level), len(rest))
        return Page(self.id, self.title, self.sections[first : first + 1 + end], self.links)


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
