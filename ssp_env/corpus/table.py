"""Lines of JSON Lines files with random access: where each one lies, and what it is found by.

A table holds two numbers a row, the start of its line (in all files laid end to end) and its length, and for each kind
of key a sorted column of 64-bit digests with the rows they belong to: 16 bytes a row and 16 a key, opened as memory
maps. The text is read on demand and never held. Building takes about 100 bytes of memory a row. Compressed files are
unpacked beside the table first.

A table lies beside its files (``<file>.ssp-index``) and follows them: it can be deleted at any time and comes back.
"""

from __future__ import annotations

import os
import weakref
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ssp_env.errors import CorpusError
from ssp_env.storage import ensure_folder, read_manifest, unpacked

Parsed = TypeVar("Parsed")
Digests = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

TABLE_VERSION = 2
PACKINGS = {".gz": "gzip", ".zst": "zstd"}
CHUNK_BYTES = 1 << 20


def beside(sources: Sequence[Path]) -> Path:
    """Return the folder next to the first file for everything derived from these files."""
    first = sources[0]
    if len(sources) == 1:
        return first.with_name(f"{first.name}.ssp-index")
    return first.with_name(f"{first.name}+{len(sources) - 1}-{_short(source.name for source in sources)}.ssp-index")


def key_digest(key: str) -> int:
    """Return 64 bits that stand for a key."""
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class LineTable:
    """The rows of some files; safe to use from several threads and in forked processes.

    ``facts`` is what the first reading of the files found out.
    """

    def __init__(
        self,
        kind: str,
        sources: Sequence[Path],
        *,
        index_dir: Path | None,
        scan: Callable[[Scan], Mapping[str, object]],
    ) -> None:
        """Open the table of these files, or make it.

        Args:
            kind: Names the table in its folder.
            sources: The files, in order; the table is made for this order.
            index_dir: Folder that several corpora may share; None is the one beside the first file.
            scan: Reads all files and saves their rows; called when there is no table, or the files have changed.

        Raises:
            CorpusError: If a file is missing, changes meanwhile or is refused by ``scan``.
            ConfigError: If the folder for the table is not writable.
        """
        self._sources = sources
        folder = beside(sources[:1]) / kind if index_dir is None else index_dir / f"{kind}-{_short(map(str, sources))}"
        before = _describe(sources)
        self.facts = ensure_folder(
            folder,
            {"kind": kind, "version": TABLE_VERSION, "sources": before},
            build=lambda into: scan(Scan(sources, into)),
            on_mismatch="replace",
        )
        self._columns = {file.stem: np.load(file, mmap_mode="r") for file in folder.glob("*.npy")}
        self._starts, self._lengths = self._columns["starts"], self._columns["lengths"]
        files = [_plain_file(source, number, folder) for number, source in enumerate(sources)]
        self._handles = [os.open(file, os.O_RDONLY | os.O_CLOEXEC) for file in files]
        weakref.finalize(self, _close, self._handles)
        self._bases = np.cumsum([0, *(os.fstat(handle).st_size for handle in self._handles[:-1])])
        if _describe(sources) != before or read_manifest(folder) != self.facts:
            raise CorpusError(f"expected files at rest, got a change while reading {sources!r}; open them again")

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._starts)

    def read(self, row: int, parse: Callable[[bytes], Parsed]) -> Parsed:
        """Parse the line of a row; raises ``CorpusError`` if it is no longer what it was."""
        start = int(self._starts[row])
        number = int(np.searchsorted(self._bases, start, side="right")) - 1
        line = os.pread(self._handles[number], int(self._lengths[row]), start - int(self._bases[number]))
        try:
            return parse(line)
        except ValueError as error:
            source = self._sources[number]
            raise CorpusError(f"expected {source} as it was when opened, got a change ({error}); reopen it") from error

    def find(self, kind: str, key: str) -> Iterator[int]:
        """Yield the rows with a key, in order; now and then also one of another key with the same digest."""
        digests, rows = self._columns[kind], self._columns[f"{kind}_rows"]
        wanted = np.uint64(key_digest(key))
        for entry in range(int(np.searchsorted(digests, wanted)), len(digests)):
            if digests[entry] != wanted:
                return
            yield int(rows[entry])


class Scan:
    """The first reading of some files, which notes where their rows lie."""

    def __init__(self, sources: Sequence[Path], folder: Path) -> None:
        """Unpack what is packed; the table will be saved in ``folder``."""
        self.sources = sources
        self._folder = folder
        self._files = [_plain_file(source, number, folder) for number, source in enumerate(sources)]
        for source, file in zip(sources, self._files, strict=True):
            if file != source:
                _unpack(source, file)
        self._starts, self._lengths = array("q"), array("q")
        self._bases: list[int] = []

    def rows(self, number: int, parse: Callable[[bytes], Parsed]) -> Iterator[Parsed]:
        """Yield the parsed rows of a file; files are read in order. Blank lines are no rows.

        Raises:
            CorpusError: If the file cannot be read or ``parse`` refuses a row; the message names file and line.
        """
        source, start = self.sources[number], sum(file.stat().st_size for file in self._files[:number])
        self._bases.append(start)
        try:
            with open(self._files[number], "rb") as handle:
                for n_lines, line in enumerate(handle, start=1):
                    if line.strip():
                        try:
                            parsed = parse(line)
                        except ValueError as error:
                            raise CorpusError(f"{source}:{n_lines}: {error}") from error
                        self._starts.append(start)
                        self._lengths.append(len(line))
                        yield parsed
                    start += len(line)
        except OSError as error:
            raise CorpusError(f"expected a readable file, got {error} for {str(source)!r}; check the path") from error

    def line(self, row: int) -> bytes:
        """Return the line of a row that was read already."""
        number, start = self._locate(row)
        with open(self._files[number], "rb") as handle:
            return os.pread(handle.fileno(), self._lengths[row], start)

    def place(self, row: int) -> str:
        """Return file and line of a row that was read already."""
        number, start = self._locate(row)
        n_lines = 1
        with open(self._files[number], "rb") as handle:
            while start > 0 and (chunk := handle.read(min(CHUNK_BYTES, start))):
                n_lines += chunk.count(b"\n")
                start -= len(chunk)
        return f"{self.sources[number]}:{n_lines}"

    def save(self, kept: Mask | slice = slice(None), **keys: Digests) -> None:
        """Write the table: the rows that are kept, and for each kind of key the digest of every one of the first rows.

        A kind of key may end before the rows do, where later files do not have it.
        """
        columns: dict[str, npt.NDArray[np.generic]] = {
            "starts": np.frombuffer(self._starts, np.int64)[kept],
            "lengths": np.frombuffer(self._lengths, np.int64)[kept],
        }
        for kind, digests in keys.items():
            order = np.argsort(digests, kind="stable")
            columns |= {kind: digests[order], f"{kind}_rows": order.astype(np.int64)}
        for name, column in columns.items():
            np.save(self._folder / f"{name}.npy", column)

    def _locate(self, row: int) -> tuple[int, int]:
        """Return the number of the file that holds a row, and where in it the row starts."""
        number = int(np.searchsorted(self._bases, self._starts[row], side="right")) - 1
        return number, self._starts[row] - self._bases[number]


def first_of_each(keys: Digests, is_repeat: Callable[[int, int], bool]) -> Mask:
    """Return which rows stay, bool, one a row: of those with one key the first.

    Args:
        keys: The digest of each row's key.
        is_repeat: Called for two rows with one digest: whether the later one is to be dropped. It is not where two
            keys have the same digest.
    """
    kept = np.ones(len(keys), np.bool_)
    order = np.argsort(keys, kind="stable")
    unique: list[int] = []
    last = -1
    for place in np.flatnonzero(keys[order[1:]] == keys[order[:-1]]):
        before, row = int(order[place]), int(order[place + 1])
        unique = unique if before == last else [before]
        last = row
        if any(is_repeat(first, row) for first in unique):
            kept[row] = False
        else:
            unique.append(row)
    return kept


def _plain_file(source: Path, number: int, folder: Path) -> Path:
    """Return the file that rows are read from: the source itself, or its unpacked copy in the table's folder."""
    return folder / f"{number}.jsonl" if source.suffix in PACKINGS else source


def _unpack(source: Path, file: Path) -> None:
    try:
        with open(file, "wb") as plain:
            for piece, _ in unpacked(source, PACKINGS[source.suffix]):
                plain.write(piece)
    except OSError as error:
        message = f"expected a whole {source.suffix} file, got {error} for {str(source)!r}; get it anew"
        raise CorpusError(message) from error


def _describe(sources: Sequence[Path]) -> list[dict[str, object]]:
    """Return what tells whether a source is still the one that was read."""
    described: list[dict[str, object]] = []
    for source in sources:
        try:
            status = source.stat()
        except OSError as error:
            message = f"expected a corpus file, got {error.strerror!r} for {str(source)!r}; check the path"
            raise CorpusError(message) from error
        if not source.is_file():
            raise CorpusError(f"expected a corpus file, got the folder {str(source)!r}; pass the files in it")
        described.append({"name": source.name, "size": status.st_size, "mtime_ns": status.st_mtime_ns})
    return described


def _short(names: Iterable[str]) -> str:
    return blake2b("\n".join(names).encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()


def _close(handles: Sequence[int]) -> None:
    for handle in handles:
        os.close(handle)
