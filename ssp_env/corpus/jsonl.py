"""A corpus in JSON Lines files, read in place.

What lies beside the files (``<file>.ssp-index``) can be deleted at any time and comes back by itself: the table of
line positions, which follows the files, and the indexes of retrievers, which do not and are refused when stale.
"""

from __future__ import annotations

import os
import weakref
from collections.abc import Callable, Sequence
from hashlib import blake2b
from pathlib import Path

import numpy as np

from ssp_env.corpus.passages import RowError, id_digest, parse_row
from ssp_env.corpus.scan import build_table, text_file
from ssp_env.errors import CorpusError
from ssp_env.storage import ensure_folder, read_manifest, table_folder
from ssp_env.types import Passage

TABLE_VERSION = 1


def open_corpus(paths: Sequence[Path], *, index_dir: Path | None = None) -> JsonlCorpus:
    """Open JSON Lines files (plain, ``.gz`` or ``.zst``) as one corpus, in the order given.

    The first opening reads and checks every row; later ones only compare file sizes and modification times.

    Args:
        paths: One or several files with rows ``{id, title, text}`` or ``{id, contents}``.
        index_dir: Folder for everything derived from this corpus. Corpora may share it, their retrievers' indexes of
            one kind not: those of another corpus are refused. Default: next to the first file, ``<file>.ssp-index``.

    Raises:
        CorpusError: If a file is missing or a row is malformed; the message names file and line.
        ConfigError: If the folder for derived data is not writable.
        ImportError: If a ``.zst`` file is given and ``zstandard`` is missing.
    """
    return JsonlCorpus(paths, index_dir=index_dir)


class JsonlCorpus:
    """Passages in files, read on demand; safe to use from several threads and in forked or spawned processes.

    ``index_dir`` is the folder for derived data and ``n_duplicates`` the number of repeated rows left out.
    """

    def __init__(self, paths: Sequence[Path], *, index_dir: Path | None = None) -> None:
        """Open the files; see ``open_corpus``."""
        if isinstance(paths, str | Path):
            raise TypeError(f"expected a sequence of paths, got {paths!r}; pass [path]")
        self._sources = [Path(path).absolute() for path in paths]
        if not self._sources:
            raise CorpusError("expected at least one corpus file, got none; pass their paths")
        self._given_dir = None if index_dir is None else Path(index_dir).absolute()
        default = _default_dir(self._sources)
        self.index_dir = self._given_dir or default
        table = table_folder("passages", self._sources, beside=default, index_dir=self._given_dir)
        before = _describe(self._sources)
        manifest = ensure_folder(
            table,
            {"kind": "passages", "version": TABLE_VERSION, "sources": before},
            build=lambda folder: build_table(self._sources, folder),
            on_mismatch="replace",
        )
        self._fingerprint = str(manifest["fingerprint"])
        self.n_duplicates = int(str(manifest["n_duplicates"]))
        self._starts = np.load(table / "starts.npy", mmap_mode="r")
        self._lengths = np.load(table / "lengths.npy", mmap_mode="r")
        self._ids = np.load(table / "ids.npy", mmap_mode="r")
        self._positions = np.load(table / "positions.npy", mmap_mode="r")
        files = [text_file(source, number, table) for number, source in enumerate(self._sources)]
        self._handles = [os.open(file, os.O_RDONLY | os.O_CLOEXEC) for file in files]
        weakref.finalize(self, _close, self._handles)
        self._bases = np.cumsum([0, *(os.fstat(handle).st_size for handle in self._handles[:-1])])
        if _describe(self._sources) != before or read_manifest(table) != manifest:
            raise CorpusError(f"expected files at rest, got a change while reading {self._sources!r}; open them again")

    def __reduce__(self) -> tuple[Callable[..., JsonlCorpus], tuple[list[Path], Path | None]]:
        """Pickle the paths only; unpickling opens the files again."""
        return (_reopen, (self._sources, self._given_dir))

    @property
    def fingerprint(self) -> str:
        """Hex digest of ids, titles and texts in order."""
        return self._fingerprint

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self._starts)

    def at(self, position: int) -> Passage:
        """Return the passage at a position.

        Raises:
            IndexError: If the position is outside the range.
            CorpusError: If the file was changed after it was opened.
        """
        if not 0 <= position < len(self):
            raise IndexError(f"expected a position below {len(self)}, got {position!r}")
        start = int(self._starts[position])
        number = int(np.searchsorted(self._bases, start, side="right")) - 1
        line = os.pread(self._handles[number], int(self._lengths[position]), start - int(self._bases[number]))
        try:
            return parse_row(line)
        except RowError as error:
            source = self._sources[number]
            raise CorpusError(f"expected {source} as it was when opened, got a change ({error}); reopen it") from error

    def get(self, passage_id: str) -> Passage:
        """Return the passage with this id; raises ``KeyError`` when there is none."""
        digest = np.uint64(id_digest(passage_id))
        first = int(np.searchsorted(self._ids, digest))
        for entry in range(first, len(self)):
            if self._ids[entry] != digest:
                break
            passage = self.at(int(self._positions[entry]))
            if passage.id == passage_id:
                return passage
        raise KeyError(passage_id)


def _reopen(sources: list[Path], index_dir: Path | None) -> JsonlCorpus:
    return JsonlCorpus(sources, index_dir=index_dir)


def _default_dir(sources: Sequence[Path]) -> Path:
    first = sources[0]
    if len(sources) == 1:
        return first.with_name(f"{first.name}.ssp-index")
    names = "\n".join(source.name for source in sources)
    digest = blake2b(names.encode("utf-8", "surrogateescape"), digest_size=4).hexdigest()
    return first.with_name(f"{first.name}+{len(sources) - 1}-{digest}.ssp-index")


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


def _close(handles: Sequence[int]) -> None:
    for handle in handles:
        os.close(handle)
