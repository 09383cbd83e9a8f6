"""What readers hand on: pages, redirects, and notes about what was left out.

Sections hold plain text; paragraphs are lines. Nothing here knows a file format.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ssp_env.corpus import Section

PageKind = Literal["article", "disambiguation"]


@dataclass(frozen=True, slots=True)
class Row:
    """A passage that the source had cut already."""

    id: str
    text: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page; ``links`` are titles in order of appearance, ``rows`` its passages where the source had cut them."""

    id: str
    title: str
    sections: tuple[Section, ...]
    links: tuple[str, ...] = ()
    kind: PageKind = "article"
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, slots=True)
class Redirect:
    """A title that stands for another one."""

    title: str
    target: str


@dataclass(frozen=True, slots=True)
class Skip:
    """Something left out; ``line`` counts from 1 within the chunk (0: no lines), ``what`` names it."""

    reason: str
    line: int = 0
    what: str = ""


@dataclass(frozen=True, slots=True)
class Removed:
    """Markup that was taken out of a page, counted by kind."""

    counts: tuple[tuple[str, int], ...]


Item: TypeAlias = Page | Redirect | Skip | Removed


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a source that one worker reads: bytes that travel with it, or a range that the worker opens.

    ``start`` and ``end`` count bytes, row groups or entries, whatever the format cuts by. ``n_bytes`` is its share of
    the source on disk, for progress. ``first_line`` is 0 where a format has no lines.
    """

    path: Path
    n_bytes: int
    data: bytes | None = None
    start: int = 0
    end: int = 0
    first_line: int = 0


@dataclass(frozen=True, slots=True)
class Format:
    """How a kind of source is recognised in words, cut in the main process, and read in a worker."""

    describes: str
    plan: Callable[[Path], Iterator[Chunk]]
    read: Callable[[Chunk], Iterator[Item]]
