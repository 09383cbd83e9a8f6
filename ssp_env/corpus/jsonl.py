"""A corpus in JSON Lines files, read in place.

The indexes of retrievers lie beside the files too (``<file>.ssp-index``). Unlike the table of lines they do not follow
the files: they are refused when stale.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np

from ssp_env.corpus.passages import CONTENT_DIGEST_BYTES, content_digest, fingerprint, parse_row
from ssp_env.corpus.table import LineTable, Scan, beside, first_of_each, key_digest
from ssp_env.errors import CorpusError
from ssp_env.types import Passage


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
        self.index_dir = self._given_dir or beside(self._sources)
        self._table = LineTable("passages", self._sources, index_dir=self._given_dir, scan=_scan)
        self.n_duplicates = int(str(self._table.facts["n_duplicates"]))

    def __reduce__(self) -> tuple[partial[JsonlCorpus], tuple[list[Path]]]:
        """Pickle the paths only; unpickling opens the files again."""
        return partial(JsonlCorpus, index_dir=self._given_dir), (self._sources,)

    @property
    def fingerprint(self) -> str:
        """Hex digest of ids, titles and texts in order."""
        return str(self._table.facts["fingerprint"])

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self._table)

    def at(self, position: int) -> Passage:
        """Return the passage at a position."""
        if not 0 <= position < len(self._table):
            raise IndexError(f"expected a position below {len(self)}, got {position!r}")
        return self._table.read(position, parse_row)

    def get(self, passage_id: str) -> Passage:
        """Return the passage with this id; raises ``KeyError`` when there is none."""
        for position in self._table.find("ids", passage_id):
            if (passage := self.at(position)).id == passage_id:
                return passage
        raise KeyError(passage_id)


def _scan(scan: Scan) -> dict[str, object]:
    """Read all passages; one that occurs again unchanged is dropped, one with the id of another is refused."""
    digests, joined = array("Q"), bytearray()
    for number in range(len(scan.sources)):
        for passage in scan.rows(number, parse_row):
            digests.append(key_digest(passage.id))
            joined += content_digest(passage)
    if not digests:
        files = ", ".join(map(str, scan.sources))
        raise CorpusError(f"expected at least one passage, got none in {files}; check the paths")
    ids = np.frombuffer(digests, np.uint64)  # (n,)
    contents = np.frombuffer(joined, np.uint8).reshape(-1, CONTENT_DIGEST_BYTES)  # (n, 16)

    def is_repeat(first: int, row: int) -> bool:
        if np.array_equal(contents[first], contents[row]):
            return True
        passage_id = parse_row(scan.line(row)).id
        if parse_row(scan.line(first)).id == passage_id:
            where = f"the different passage at {scan.place(first)}"
            raise CorpusError(
                f"{scan.place(row)}: expected an unused id, got {passage_id!r} of {where}; rename or remove one"
            )
        return False

    kept = first_of_each(ids, is_repeat)
    scan.save(kept, ids=ids[kept])
    return {"n_duplicates": int((~kept).sum()), "fingerprint": fingerprint(contents[kept].tobytes())}
