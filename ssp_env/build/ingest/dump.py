"""MediaWiki exports (``pages-articles``): XML, plain or packed, and multistream bzip2 spread over processes.

A multistream file is many small bzip2 streams in a row. Workers find the streams that begin in their range of the file
by themselves and finish the page that crosses into the next range, so files whose streams are cut anywhere (parallel
compressors make such) read the same. Any other file is unpacked in the main process and handed out in whole pages.
Left out: the history of a page (its last revision in the file counts), talk and other namespaces.
"""

from __future__ import annotations

import bz2
import os
import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from ssp_env.build.ingest.parts import (
    Chunk,
    Format,
    Item,
    Page,
    PageKind,
    Redirect,
    Removed,
    Skip,
    blocks,
    chunk_bytes,
    head,
)
from ssp_env.build.ingest.wikitext import clean_page, redirect_target
from ssp_env.errors import CorpusError

MAX_PAGE_BYTES = 64 << 20
MAX_STREAM_BYTES = 16 << 20
SCAN_BYTES = 4 << 20
MAGIC_BYTES = 10
XML_PER_BZIP2 = 4
"""About how many bytes of XML a byte of bzip2 holds; only for the size of chunks."""
_STREAM = re.compile(rb"BZh[1-9]1AY&SY")
_PAGE = re.compile(rb"<page>.*?</page>", re.S)
_OPEN, _CLOSE, _FOOT = b"<page>", b"</page>", b"</mediawiki>"


def plan(path: Path) -> Iterator[Chunk]:
    """Yield the chunks of a dump."""
    starts = _small_streams(path) if head(path).startswith(b"BZh") else []
    if starts:
        yield from _plan_ranges(path, starts)
    else:
        yield from _plan_pages(path)


def read(chunk: Chunk) -> Iterator[Item]:
    """Yield the pages, redirects and skips of a chunk."""
    data = _range_bytes(chunk) if chunk.data is None else chunk.data
    for element in _elements(data):
        if isinstance(element, Skip):
            yield element
        else:
            yield from _page_items(element)


def _plan_pages(path: Path) -> Iterator[Chunk]:
    size = path.stat().st_size
    wanted = chunk_bytes(size * XML_PER_BZIP2 if head(path).startswith(b"BZh") else size)
    held = bytearray()
    done = position = 0
    for piece, position in blocks(path):
        held += piece
        if len(held) < wanted:
            continue
        cut = held.rfind(_CLOSE)
        if cut >= 0:
            cut += len(_CLOSE)
            yield Chunk(path, position - done, bytes(held[:cut]))
            done = position
            del held[:cut]
        elif len(held) > MAX_PAGE_BYTES:
            raise CorpusError(f"expected </page> within {MAX_PAGE_BYTES} bytes, got none in {path}; get the dump anew")
    _require_foot(path, bytes(held[held.rfind(_CLOSE) + 1 :]))
    yield Chunk(path, position - done, bytes(held))


def _require_foot(path: Path, tail: bytes) -> None:
    if _FOOT not in tail:
        last = tail.decode("utf-8", "replace")[-60:]
        raise CorpusError(f"expected </mediawiki> at the end of {path}, got {last!r}: it is cut off; get it anew")


def _small_streams(path: Path) -> list[int]:
    """Return where the bzip2 streams of a file start; an empty list when one of them is too large for a worker."""
    with open(path, "rb") as handle:
        starts = list(_stream_starts(handle, 0))
    ends = [*starts[1:], path.stat().st_size]
    is_small = all(end - start <= MAX_STREAM_BYTES for start, end in zip(starts, ends, strict=True))
    return starts if len(starts) > 1 and is_small else []


def _stream_starts(handle: IO[bytes], position: int) -> Iterator[int]:
    """Yield where streams start, from a position in the file on."""
    size = os.fstat(handle.fileno()).st_size
    while position < size:
        piece = os.pread(handle.fileno(), SCAN_BYTES + MAGIC_BYTES - 1, position)
        for match in _STREAM.finditer(piece):
            yield position + match.start()
        position += SCAN_BYTES


def _plan_ranges(path: Path, starts: list[int]) -> Iterator[Chunk]:
    size = path.stat().st_size
    wanted = chunk_bytes(size * XML_PER_BZIP2) // XML_PER_BZIP2
    with open(path, "rb") as handle:
        tail = _unpack(handle, path, (starts[-1], size))
    _require_foot(path, tail[tail.rfind(_CLOSE) + 1 :])
    begin = 0
    for end in [*starts[1:], size]:
        if end - begin >= wanted or end == size:
            yield Chunk(path, end - begin, start=begin, end=end)
            begin = end


def _range_bytes(chunk: Chunk) -> bytes:
    """Return the content of the streams of a range, and of following ones as far as the last page needs them."""
    found = bytearray()
    with open(chunk.path, "rb") as handle:
        found += _unpack(handle, chunk.path, (chunk.start, chunk.end))
        size = os.fstat(handle.fileno()).st_size
        position = chunk.end
        while position < size and _is_inside_page(found):
            following = next((s for s in _stream_starts(handle, position) if s > position), size)
            piece = _unpack(handle, chunk.path, (position, following))
            stop = _end_of_page(found, piece)
            found += piece if stop is None else piece[:stop]
            position = following if stop is None else size
    return bytes(found)


def _is_inside_page(data: bytearray) -> bool:
    """Tell whether the data ends inside a page, or inside a tag that may open one."""
    tail = data[data.rfind(_CLOSE) + 1 :]
    return _OPEN in tail or any(tail.endswith(_OPEN[:n]) for n in range(1, len(_OPEN)))


def _end_of_page(found: bytearray, piece: bytes) -> int | None:
    """Return how much of a piece of the next range is still wanted; None for all of it and more."""
    if len(found) > MAX_PAGE_BYTES * 2:
        raise CorpusError(f"expected </page> within {MAX_PAGE_BYTES} bytes, got none; get the dump anew")
    joint = found[-len(_CLOSE) :]
    close = (joint + piece).find(_CLOSE, 1)
    return None if close < 0 else max(close + len(_CLOSE) - len(joint), 0)


def _unpack(handle: IO[bytes], path: Path, span: tuple[int, int]) -> bytes:
    """Unpack the streams of a span; padding after the last one is ignored, as bzip2 does."""
    packed = os.pread(handle.fileno(), span[1] - span[0], span[0])
    parts: list[bytes] = []
    while packed.startswith(b"BZh"):
        stream = bz2.BZ2Decompressor()
        try:
            parts.append(stream.decompress(packed))
            if not stream.eof:
                raise EOFError("an early end")
        except (OSError, EOFError) as error:
            where = f"after byte {span[0]} of {path}"
            raise CorpusError(f"expected whole bzip2 data, got {error} {where}; get it anew") from error
        packed = stream.unused_data
    return b"".join(parts)


def _elements(data: bytes) -> Iterator[ElementTree.Element | Skip]:
    """Parse page by page; a page that is not well-formed is skipped alone."""
    for match in _PAGE.finditer(data):
        try:
            yield ElementTree.fromstring(match[0])
        except (ElementTree.ParseError, ValueError) as error:
            title = re.search(rb"<title>([^<]*)", match[0])
            name = title[1].decode("utf-8", "replace") if title else "untitled"
            yield Skip("page is not well-formed XML", what=f"page {name!r}: {error}")


def _page_items(element: ElementTree.Element) -> Iterator[Item]:
    title = (element.findtext("title") or "").strip()
    page_id = (element.findtext("id") or "").strip()
    what = f"page {page_id} {title!r}"
    revisions = element.findall("revision")
    if not title or not page_id or not revisions:
        yield Skip("page lacks title, id or revision", what=what)
        return
    if (element.findtext("ns") or "0").strip() != "0":
        yield Skip("page of another namespace", what=what)
        return
    text = revisions[-1].findtext("text") or ""
    redirect = element.find("redirect")
    target = redirect.get("title", "").partition("#")[0].strip() if redirect is not None else redirect_target(text)
    if target:
        yield Redirect(title, target)
    elif (revisions[-1].findtext("model") or "wikitext") != "wikitext":
        yield Skip("page is not wikitext", what=what)
    elif not text.strip():
        yield Skip("page without text", what=what)
    else:
        yield from _article(page_id, title, text)


def _article(page_id: str, title: str, text: str) -> Iterator[Item]:
    cleaned = clean_page(text)
    yield Removed(tuple(sorted(cleaned.removed.items())))
    if any(section.text for section in cleaned.sections):
        kind: PageKind = "disambiguation" if cleaned.is_disambiguation else "article"
        yield Page(page_id, title, tuple(cleaned.sections), tuple(cleaned.links), kind)
    else:
        yield Skip("page without prose", what=f"page {page_id} {title!r}")


DUMP = Format("MediaWiki XML (pages-articles), plain or packed", plan, read)
