"""A page and its sections, and the rows they are read from.

Rows are ``{id, title, sections: [{heading, level, text}], links: [title, ...]}``; other keys are ignored. A section may
carry ``links`` of its own. Redirects are rows ``{title, target}``.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

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


class RowError(ValueError):
    """Says what is wrong with a row; callers add where it is and raise ``CorpusError``."""


def parse_page(line: bytes) -> Page:
    """Parse and check one page.

    Raises:
        RowError: If the line is no JSON object of the shape above.
    """
    row = _object(line)
    sections = row.get("sections")
    if not isinstance(sections, list) or not sections:
        raise RowError(f"expected a non-empty list for 'sections', got {sections!r:.80}; fix the row")
    links = [link for part in (row, *sections) for link in _links(part)]
    page_id = row.get("id")
    page_id = str(page_id) if type(page_id) is int else page_id
    if not isinstance(page_id, str) or not page_id:
        raise RowError(f"expected a non-empty string for 'id', got {page_id!r:.80}; fix the row")
    return Page(page_id, _string(row, "title"), tuple(map(_parse_section, sections)), tuple(dict.fromkeys(links)))


def _links(row: object) -> list[str]:
    links = row.get("links", []) if isinstance(row, dict) else []
    if not isinstance(links, list) or not all(isinstance(link, str) for link in links):
        raise RowError(f"expected a list of titles for 'links', got {links!r:.80}; fix the row")
    return links


def _parse_section(row: object) -> Section:
    if not isinstance(row, dict):
        raise RowError(f"expected an object for a section, got {row!r:.80}; fix the row")
    heading, level, text = row.get("heading"), row.get("level"), row.get("text")
    if not isinstance(heading, str) or type(level) is not int or not isinstance(text, str):
        raise RowError(f"expected 'heading', 'level' and 'text' of a section, got {row!r:.80}; fix the row")
    return Section(heading, level, text)


def parse_redirect(line: bytes) -> tuple[str, str]:
    """Parse and check one redirect; return its title and where it points.

    Raises:
        RowError: If the line is no JSON object of the shape above.
    """
    row = _object(line)
    return _string(row, "title"), _string(row, "target")


def _object(line: bytes) -> dict[str, object]:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RowError(f"expected one JSON object a line, got {error}; fix or remove it") from error
    if not isinstance(row, dict):
        raise RowError(f"expected a JSON object, got {row!r:.80}; fix or remove it")
    return row


def _string(row: dict[str, object], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str) or not value.strip():
        raise RowError(f"expected a non-empty string for {name!r}, got {value!r:.80}; fix the row")
    return value
