"""Pages in a JSON Lines file, opened by title, page id or a passage of theirs.

Beside the pages lies a table of line positions (``<file>.ssp-index``), which follows the files and can be deleted at
any time: 48 bytes a page, mapped into memory. The text is read on demand.
"""

from __future__ import annotations

import os
import weakref
from array import array
from collections.abc import Callable, Iterator
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ssp_env.corpus.pages import Page, parse_page, parse_redirect
from ssp_env.corpus.passages import RowError
from ssp_env.errors import CorpusError
from ssp_env.storage import ensure_folder, table_folder
from ssp_env.text import title_key
from ssp_env.types import Passage

Parsed = TypeVar("Parsed")

TABLE_VERSION = 1
MAX_REDIRECTS = 4
"""Redirects followed in a row; a longer chain, or a circle, leads nowhere."""


def open_pages(path: Path, *, redirects: Path | None = None, index_dir: Path | None = None) -> PageStore:
    """Open a file of pages; the first opening reads and checks every row.

    Args:
        path: The pages, plain JSON Lines.
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
        beside = self._path.with_name(f"{self._path.name}.ssp-index")
        table = table_folder("pages", files, beside=beside, index_dir=self._given_dir)
        expected = {"kind": "pages", "version": TABLE_VERSION, "sources": [_describe(file) for file in files]}
        ensure_folder(table, expected, build=lambda into: _build_table(files, into), on_mismatch="replace")
        self._columns = {name: np.load(table / f"{name}.npy", mmap_mode="r") for name in _COLUMNS}
        self._handles = [os.open(file, os.O_RDONLY | os.O_CLOEXEC) for file in files]
        weakref.finalize(self, _close, self._handles)

    def __reduce__(self) -> tuple[Callable[..., PageStore], tuple[Path, Path | None, Path | None]]:
        """Pickle the paths only; unpickling opens the files again."""
        return (_reopen, (self._path, self._redirects, self._given_dir))

    def __len__(self) -> int:
        """Return the number of pages."""
        return int(self._columns["n_pages"][0])

    def by_id(self, page_id: str) -> Page:
        """Return the page with this id; raises ``KeyError`` when there is none."""
        for row in self._rows("ids", _digest(page_id)):
            page = self._parse(row, parse_page)
            if page.id == page_id:
                return page
        raise KeyError(page_id)

    def by_title(self, title: str) -> Page:
        """Return the page with this title, following redirects.

        The exact title wins over one in another spelling (see ``titles.title_key``), a page over a redirect, and
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
        for row in self._rows("keys", _digest(key)):
            if row < len(self):
                pages.append(self._parse(row, parse_page))
            else:
                targets.append(self._parse(row, parse_redirect))
        pages = [page for page in pages if title_key(page.title) == key]
        targets = [(source, target) for source, target in targets if title_key(source) == key]
        if pages:
            return next((page for page in pages if page.title == title), pages[0])
        return next((target for source, target in targets if source == title), targets[0][1] if targets else None)

    def _rows(self, column: str, digest: int) -> Iterator[int]:
        """Yield the rows whose digest this is, in file order."""
        digests, rows = self._columns[column], self._columns[f"{column}_rows"]
        wanted = np.uint64(digest)
        for entry in range(int(np.searchsorted(digests, wanted)), len(digests)):
            if digests[entry] != wanted:
                return
            yield int(rows[entry])

    def _parse(self, row: int, parse: Callable[[bytes], Parsed]) -> Parsed:
        number = 0 if row < len(self) else 1
        start, length = int(self._columns["starts"][row]), int(self._columns["lengths"][row])
        try:
            return parse(os.pread(self._handles[number], length, start))
        except RowError as error:
            raise CorpusError(f"expected {self._path} as when opened, got a change ({error}); reopen it") from error


_COLUMNS = ("n_pages", "starts", "lengths", "ids", "ids_rows", "keys", "keys_rows")


def _build_table(files: list[Path], folder: Path) -> dict[str, object]:
    starts, lengths, ids, keys = array("q"), array("q"), array("Q"), array("Q")
    for number, file in enumerate(files):
        start = 0
        for line_number, line in enumerate(_lines(file), start=1):
            if line.strip():
                try:
                    if number == 0:
                        page = parse_page(line)
                        ids.append(_digest(page.id))
                        title = page.title
                    else:
                        title, _ = parse_redirect(line)
                except RowError as error:
                    raise CorpusError(f"{file}:{line_number}: {error}") from error
                starts.append(start)
                lengths.append(len(line))
                keys.append(_digest(title_key(title)))
            start += len(line)
    if not ids:
        raise CorpusError(f"expected at least one page, got none in {files[0]}; check the path")
    _require_unique(files[0], np.frombuffer(ids, np.uint64))
    columns: dict[str, npt.NDArray[np.generic]] = {
        "n_pages": np.array([len(ids)], np.int64),
        "starts": np.frombuffer(starts, np.int64),
        "lengths": np.frombuffer(lengths, np.int64),
        **_sorted("ids", np.frombuffer(ids, np.uint64)),
        **_sorted("keys", np.frombuffer(keys, np.uint64)),
    }
    for name in _COLUMNS:
        np.save(folder / f"{name}.npy", columns[name])
    return {"n_pages": len(ids), "n_redirects": len(starts) - len(ids)}


def _sorted(name: str, digests: npt.NDArray[np.uint64]) -> dict[str, npt.NDArray[np.generic]]:
    order = np.argsort(digests, kind="stable")
    return {name: digests[order], f"{name}_rows": order.astype(np.int64)}


def _require_unique(file: Path, ids: npt.NDArray[np.uint64]) -> None:
    unique, first, counts = np.unique(ids, return_index=True, return_counts=True)
    if len(unique) < len(ids):
        row = int(first[np.flatnonzero(counts > 1)[0]])
        raise CorpusError(f"expected unique page ids in {file}, got that of page {row} twice; rename or remove one")


def _lines(file: Path) -> Iterator[bytes]:
    try:
        with open(file, "rb") as handle:
            yield from handle
    except OSError as error:
        raise CorpusError(f"expected a readable file, got {error} for {str(file)!r}; check the path") from error


def _describe(file: Path) -> dict[str, object]:
    try:
        status = file.stat()
    except OSError as error:
        raise CorpusError(f"expected a file, got {error.strerror!r} for {str(file)!r}; check the path") from error
    return {"name": file.name, "size": status.st_size, "mtime_ns": status.st_mtime_ns}


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def _reopen(path: Path, redirects: Path | None, index_dir: Path | None) -> PageStore:
    return PageStore(path, redirects=redirects, index_dir=index_dir)


def _close(handles: list[int]) -> None:
    for handle in handles:
        os.close(handle)
