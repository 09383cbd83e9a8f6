"""Reads corpus files once, checks every row, and writes the table that gives random access to them.

The table holds, a passage: where its line starts (in all files laid end to end) and how long it is, and for the ids a
sorted column of 64-bit digests with their positions: 32 bytes on disk, opened as memory maps. Building takes about 100
bytes of memory a passage. Compressed files are unpacked beside the table first. The text itself is never held.
"""

from __future__ import annotations

import gzip
import os
import zlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from ssp_env.corpus.passages import CONTENT_DIGEST_BYTES, RowError, content_digest, fingerprint, id_digest, parse_row
from ssp_env.errors import CorpusError

CHUNK_BYTES = 1 << 20
Ints = npt.NDArray[np.int64]


@dataclass(slots=True)
class _Columns:
    """What the scan collects, one entry a row, duplicates included."""

    starts: array[int] = field(default_factory=lambda: array("q"))
    lengths: array[int] = field(default_factory=lambda: array("q"))
    ids: array[int] = field(default_factory=lambda: array("Q"))
    contents: bytearray = field(default_factory=bytearray)


def text_file(source: Path, number: int, folder: Path) -> Path:
    """Return the plain file that rows are read from: the source itself, or its unpacked copy in the table's folder."""
    return folder / f"{number}.jsonl" if source.suffix in (".gz", ".zst") else source


def build_table(sources: Sequence[Path], folder: Path) -> dict[str, object]:
    """Write the table of these files into a folder and return the facts about them.

    Raises:
        CorpusError: If a file cannot be read or a row is malformed; the message names file and line.
        ImportError: If a ``.zst`` file is given and ``zstandard`` is missing.
    """
    columns = _Columns()
    files = [text_file(source, number, folder) for number, source in enumerate(sources)]
    base = 0
    for source, file in zip(sources, files, strict=True):
        if file != source:
            _unpack(source, file)
        _scan_file(source, file, base=base, columns=columns)
        base += file.stat().st_size
    if not columns.starts:
        raise CorpusError(f"expected at least one passage, got none in {', '.join(map(str, sources))}; check the paths")
    starts, lengths = np.frombuffer(columns.starts, np.int64), np.frombuffer(columns.lengths, np.int64)
    ids = np.frombuffer(columns.ids, np.uint64)
    contents = np.frombuffer(columns.contents, np.uint8).reshape(-1, CONTENT_DIGEST_BYTES)
    kept = _without_duplicates(ids, contents, _Rows(sources, files, starts, lengths))
    order = np.argsort(ids[kept], kind="stable")
    for name, column in (
        ("starts", starts[kept]),
        ("lengths", lengths[kept]),
        ("ids", ids[kept][order]),
        ("positions", order.astype(np.int64)),
    ):
        np.save(folder / f"{name}.npy", column)
    return {
        "n_passages": int(kept.sum()),
        "n_duplicates": int((~kept).sum()),
        "fingerprint": fingerprint(contents[kept].tobytes()),
    }


def _scan_file(source: Path, file: Path, *, base: int, columns: _Columns) -> None:
    start = base
    try:
        with open(file, "rb") as handle:
            for number, line in enumerate(handle, start=1):
                if line.strip():
                    try:
                        passage = parse_row(line)
                    except RowError as error:
                        raise CorpusError(f"{source}:{number}: {error}") from error
                    columns.starts.append(start)
                    columns.lengths.append(len(line))
                    columns.ids.append(id_digest(passage.id))
                    columns.contents += content_digest(passage)
                start += len(line)
    except OSError as error:
        raise CorpusError(f"expected a readable file, got {error} for {str(source)!r}; check the path") from error


@dataclass(frozen=True, slots=True)
class _Rows:
    """Names and re-reads single rows; only wanted when ids collide."""

    sources: Sequence[Path]
    files: Sequence[Path]
    starts: Ints
    lengths: Ints

    def _locate(self, row: int) -> tuple[int, int]:
        start = int(self.starts[row])
        for number, file in enumerate(self.files):
            size = file.stat().st_size
            if start < size:
                return number, start
            start -= size
        raise IndexError(row)

    def id(self, row: int) -> str:
        number, start = self._locate(row)
        with open(self.files[number], "rb") as handle:
            return parse_row(os.pread(handle.fileno(), int(self.lengths[row]), start)).id

    def place(self, row: int) -> str:
        number, start = self._locate(row)
        n_lines = 1
        with open(self.files[number], "rb") as handle:
            while start > 0 and (chunk := handle.read(min(CHUNK_BYTES, start))):
                n_lines += chunk.count(b"\n")
                start -= len(chunk)
        return f"{self.sources[number]}:{n_lines}"


def _without_duplicates(
    ids: npt.NDArray[np.uint64], contents: npt.NDArray[np.uint8], rows: _Rows
) -> npt.NDArray[np.bool_]:
    """Return which rows stay: of rows with the same id and content the first."""
    kept = np.ones(len(ids), dtype=np.bool_)
    for run in _equal_runs(ids):
        unique: list[int] = []
        for row in run:
            if any(np.array_equal(contents[row], contents[other]) for other in unique):
                kept[row] = False
                continue
            clash = next((other for other in unique if rows.id(other) == rows.id(row)), None)
            if clash is not None:
                raise CorpusError(
                    f"{rows.place(row)}: expected an unused id, got {rows.id(row)!r} of the different passage at "
                    f"{rows.place(clash)}; rename or remove one"
                )
            unique.append(row)
    return kept


def _equal_runs(ids: npt.NDArray[np.uint64]) -> Iterator[list[int]]:
    """Yield the rows (ascending) of every digest that occurs more than once."""
    order = np.argsort(ids, kind="stable")
    ordered = ids[order]
    same = np.flatnonzero(ordered[1:] == ordered[:-1])
    if not same.size:
        return
    for run in np.split(same, np.flatnonzero(np.diff(same) > 1) + 1):
        yield [int(row) for row in order[run[0] : run[-1] + 2]]


def _unpack(source: Path, file: Path) -> None:
    chunks = zstd_chunks if source.suffix == ".zst" else gzip_chunks
    try:
        with open(source, "rb") as packed, open(file, "wb") as plain:
            for chunk in chunks(packed):
                plain.write(chunk)
    except (OSError, EOFError, zlib.error) as error:
        message = f"expected a whole {source.suffix} file, got {error} for {str(source)!r}; get it anew"
        raise CorpusError(message) from error


def gzip_chunks(packed: IO[bytes]) -> Iterator[bytes]:
    """Decompress a gzip file piece by piece; raises ``EOFError``, ``OSError`` or ``zlib.error`` when it is broken."""
    with gzip.GzipFile(fileobj=packed) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk


def zstd_chunks(packed: IO[bytes]) -> Iterator[bytes]:
    """Decompress frame after frame; a frame that does not end was cut off and raises ``EOFError``."""
    try:
        import zstandard
    except ImportError as error:
        raise ImportError("a .zst corpus needs zstandard: pip install 'ssp-env[zst]'") from error
    frame = None
    data = packed.read(CHUNK_BYTES)
    try:
        while data:
            frame = frame or zstandard.ZstdDecompressor().decompressobj()
            yield frame.decompress(data)
            data = frame.unused_data if frame.eof else b""
            frame = None if frame.eof else frame
            data = data or packed.read(CHUNK_BYTES)
    except zstandard.ZstdError as error:
        raise EOFError(str(error)) from error
    if frame is not None:
        raise EOFError("a file that ends too early")
