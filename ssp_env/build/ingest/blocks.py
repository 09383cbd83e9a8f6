"""Bytes of a source, unpacked as they stream by, and cut where records end.

Compression is recognised by content, not by name. Memory: one block, the chunk being filled, and at most
``MAX_LINE_BYTES`` of a line.
"""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from ssp_env.build.ingest.parts import Chunk
from ssp_env.corpus.scan import gzip_chunks, zstd_chunks
from ssp_env.errors import CorpusError

BLOCK_BYTES = 1 << 18
MAX_LINE_BYTES = 16 << 20
OVERLONG = b"\0overlong"
"""Stands for a line above the limit; it is no valid row of any format."""
MIN_CHUNK_BYTES = 1 << 19
MAX_CHUNK_BYTES = 4 << 20
N_CHUNKS = 64
"""Chunks that a source is cut into, as far as the limits allow: by its size alone, never by the number of workers."""


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
    """Yield pieces of the unpacked content, each with the position reached in the file on disk.

    Raises:
        CorpusError: If the file cannot be read, or its compressed data is broken or cut off.
        ImportError: If it is a zstd file and ``zstandard`` is missing.
    """
    kind, pieces = _unpacker(head(path))
    n_unpacked = 0
    try:
        with open(path, "rb") as handle:
            for piece in pieces(handle):
                n_unpacked += len(piece)
                yield piece, handle.tell()
    except (OSError, EOFError, zlib.error) as error:
        where = f"after {n_unpacked} unpacked bytes of {path}"
        raise CorpusError(f"expected a whole {kind} file, got {error} {where}; get the file anew") from error


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


def _unpacker(magic: bytes) -> tuple[str, Callable[[IO[bytes]], Iterator[bytes]]]:
    if magic.startswith(b"\x1f\x8b"):
        return "gzip", gzip_chunks
    if magic.startswith(b"\x28\xb5\x2f\xfd"):
        return "zstd", zstd_chunks
    if magic.startswith(b"BZh"):
        return "bzip2", _bzip2_pieces
    return "plain", _plain_pieces


def _plain_pieces(handle: IO[bytes]) -> Iterator[bytes]:
    while piece := handle.read(BLOCK_BYTES):
        yield piece


def _bzip2_pieces(packed: IO[bytes]) -> Iterator[bytes]:
    """Decompress stream after stream; one that does not end was cut off."""
    stream = bz2.BZ2Decompressor()
    data = packed.read(BLOCK_BYTES)
    is_open = False
    while data:
        while data or not stream.needs_input:
            is_open = True
            yield stream.decompress(data, BLOCK_BYTES * 4)
            data = b""
            if stream.eof:
                data, stream, is_open = stream.unused_data, bz2.BZ2Decompressor(), False
        data = packed.read(BLOCK_BYTES)
    if is_open:
        raise EOFError("an end before the end-of-stream mark")
