"""A corpus held in memory: generated worlds, tests, anything small."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ssp_env.corpus.passages import RowError, check_passage, content_digest, fingerprint
from ssp_env.errors import CorpusError
from ssp_env.types import Passage


class MemoryCorpus:
    """Passages in a tuple, under the checks and the fingerprint of a corpus file; see ``protocols.Corpus``."""

    index_dir: Path | None = None

    def __init__(self, passages: Iterable[Passage]) -> None:
        """Check the passages and keep them in order; a passage that occurs again unchanged is dropped.

        Raises:
            CorpusError: If there is no passage, one is malformed, or two different ones share an id.
        """
        self.n_duplicates = 0
        kept: list[Passage] = []
        digests: list[bytes] = []
        self._positions: dict[str, int] = {}
        for number, passage in enumerate(passages):
            try:
                digest = content_digest(check_passage(passage))
            except RowError as error:
                raise CorpusError(f"passage {number}: {error}") from error
            first = self._positions.setdefault(passage.id, len(kept))
            if first < len(kept):
                if digests[first] != digest:
                    clash = f"got {passage.id!r} of the different passage {first}"
                    raise CorpusError(f"passage {number}: expected an unused id, {clash}; rename one")
                self.n_duplicates += 1
                continue
            kept.append(passage)
            digests.append(digest)
        if not kept:
            raise CorpusError("expected at least one passage, got none; a corpus cannot be empty")
        self._passages = tuple(kept)
        self._fingerprint = fingerprint(b"".join(digests))

    @property
    def fingerprint(self) -> str:
        """Hex digest of ids, titles and texts in order."""
        return self._fingerprint

    def __len__(self) -> int:
        """Return the number of passages."""
        return len(self._passages)

    def at(self, position: int) -> Passage:
        """Return the passage at a position; raises ``IndexError`` outside the range."""
        if not 0 <= position < len(self._passages):
            raise IndexError(f"expected a position below {len(self._passages)}, got {position!r}")
        return self._passages[position]

    def get(self, passage_id: str) -> Passage:
        """Return the passage with this id; raises ``KeyError`` when there is none."""
        return self._passages[self._positions[passage_id]]
