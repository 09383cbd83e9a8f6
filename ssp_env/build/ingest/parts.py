"""What readers get and what they hand on: chunks of a source; pages, redirects, and notes about what was left out.

Sections hold plain text; paragraphs are lines. A source is unpacked as it streams by and cut where records end; how it
is packed is recognised by content, not by name. Memory: one block, the chunk being filled, and at most
``MAX_LINE_BYTES`` of a line. Nothing here knows a file format.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from ssp_env.errors import CorpusError
from ssp_env.storage import unpacked
from ssp_env.types import Section

MAX_LINE_BYTES = 16 << 20
OVERLONG = b"\0overlong"
"""Stands for a line above the limit; it is no valid row of any format."""
MIN_CHUNK_BYTES = 1 << 19
MAX_CHUNK_BYTES = 4 << 20
N_CHUNKS = 64
"""Chunks that a source is cut into, as far as the limits allow: by its size alone, never by the number of workers."""
PACKINGS = {b"\x1f\x8b": "gzip", b"\x28\xb5\x2f\xfd": "zstd", b"BZh": "bzip2"}
"""Packings by how their files start."""
_GAP = re.compile(r"\n\s*\n")

CORPUS_VERSION = 1
"""Part of every manifest of a corpus; a change to what its files hold raises it."""
REPORT = "report.json"

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
class Source:
    """What a corpus is made from: a file or folder, the name of its format, its size, and a digest of its state."""

    path: Path
    format: str
    n_bytes: int
    state: str


@dataclass(frozen=True, slots=True)
class Format:
    """How a kind of source is recognised in words, cut in the main process, and read in a worker.

    ``plan`` and ``read`` raise ``CorpusError`` where the source is not what it should be, is broken or cut off, and
    ``ImportError`` where a package is missing. A record that cannot be used is a ``Skip``.
    """

    describes: str
    plan: Callable[[Path], Iterator[Chunk]]
    read: Callable[[Chunk], Iterator[Item]]


def text_page(page_id: str, title: str, text: str) -> Page:
    """Return a page of one section whose paragraphs are lines."""
    paragraphs = (" ".join(paragraph.split()) for paragraph in _GAP.split(text.replace("\r\n", "\n")))
    return Page(page_id, title, (Section("", 1, "\n".join(p for p in paragraphs if p)),))


def row_line(row: Mapping[str, object]) -> bytes:
    """Return a row as a line; a lone surrogate, which no encoding holds, becomes a question mark."""
    return (json.dumps(row, ensure_ascii=False) + "\n").encode("utf-8", "replace")


def chunk_bytes(n_bytes: int) -> int:
    """Return the wanted size of a chunk of a source with this many bytes."""
    return min(max(n_bytes // N_CHUNKS, MIN_CHUNK_BYTES), MAX_CHUNK_BYTES)


def head(path: Path, n_bytes: int = 4) -> bytes:
    """Return the first bytes of a file on disk; raises ``CorpusError`` when it cannot be read."""
    try:
        with open(path, "rb") as handle:
            return handle.read(n_bytes)
    except OSError as error:
        raise CorpusError(f"expected a readable file, got {error.strerror!r} for {str(path)!r}; check it") from error


def blocks(path: Path) -> Iterator[tuple[bytes, int]]:
    """Yield pieces of the unpacked content, each with the position reached in the file on disk."""
    magic = head(path)
    packing = next((name for start, name in PACKINGS.items() if magic.startswith(start)), "plain")
    n_unpacked = 0
    try:
        for piece, position in unpacked(path, packing):
            n_unpacked += len(piece)
            yield piece, position
    except OSError as error:
        where = f"after {n_unpacked} unpacked bytes of {path}"
        raise CorpusError(f"expected a whole {packing} file, got {error} {where}; get the file anew") from error


def lines(path: Path, same_group: Callable[[bytes, bytes], bool] | None = None) -> Iterator[Chunk]:
    """Yield chunks of whole lines; neighbours for which ``same_group`` holds stay together where they fit.

    A line longer than ``MAX_LINE_BYTES`` is replaced by ``OVERLONG``. The last line needs no line feed.
    """
    wanted = chunk_bytes(path.stat().st_size)
    held = bytearray()
    number, position, done, is_skipping = 1, 0, 0, False
    for piece, position in blocks(path):
        if is_skipping:
            _, feed, piece = piece.partition(b"\n")
            if not feed:
                continue
            held += OVERLONG + b"\n"
            is_skipping = False
        held += piece
        if len(held) - (held.rfind(b"\n") + 1) > MAX_LINE_BYTES:
            del held[held.rfind(b"\n") + 1 :]
            is_skipping = True
        if len(held) < wanted:
            continue
        cut = _cut(held, same_group, wanted)
        if cut:
            yield Chunk(path, position - done, bytes(held[:cut]), first_line=number)
            number, done = number + held.count(b"\n", 0, cut), position
            del held[:cut]
    if is_skipping:
        held += OVERLONG
    if held:
        yield Chunk(path, position - done, bytes(held), first_line=number)


def _cut(held: bytearray, same_group: Callable[[bytes, bytes], bool] | None, wanted: int) -> int:
    """Return where to cut: after the last whole line, or before the group that it belongs to; 0 for not yet."""
    end = held.rfind(b"\n") + 1
    if same_group is None or not end or len(held) > 4 * wanted:
        return end
    start = held.rfind(b"\n", 0, end - 1) + 1
    last = bytes(held[start : end - 1])
    while start > 0:
        before = held.rfind(b"\n", 0, start - 1) + 1
        if not same_group(bytes(held[before : start - 1]), last):
            break
        start = before
    return start
