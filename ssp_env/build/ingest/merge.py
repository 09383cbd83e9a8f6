"""Shards to the final files, in order, without duplicates, and the report on what they hold.

A page, passage or redirect whose id occurred before is dropped when it is the same, and refused (or dropped, on
request) when it is not. Memory: about 40 bytes for each page, passage row and redirect.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Literal, cast

import numpy as np
import numpy.typing as npt

from ssp_env.build.ingest.parts import Source
from ssp_env.build.ingest.shards import INDEX_ROW, MAX_EXAMPLES, shard_facts, shard_file
from ssp_env.corpus.table import Mask, first_of_each
from ssp_env.errors import CorpusError

OnClash = Literal["refuse", "keep-first"]
OUTPUTS = ("passages", "pages", "redirects")
COPY_BYTES = 1 << 20
Index = npt.NDArray[np.void]


@dataclass(slots=True)
class Merged:
    """What the final files hold, and how many things were dropped as duplicates, by reason."""

    counts: Counter[str] = field(default_factory=Counter)
    dropped: Counter[str] = field(default_factory=Counter)


def merge_shards(shards: Path, sources: Sequence[str], *, into: Path, on_clash: OnClash) -> Merged:
    """Write ``passages.jsonl``, ``pages.jsonl`` and ``redirects.jsonl``; ``sources`` names the source of each shard."""
    merged = Merged()
    lengths = [shard_file(shards, n, "index").stat().st_size // INDEX_ROW.itemsize for n in range(len(sources))]
    starts = np.cumsum([0, *lengths])  # (shards + 1,): where the rows of each shard begin
    kept = _kept(_Rows(shards, sources, starts), on_clash=on_clash, dropped=merged.dropped)
    with ExitStack() as stack:
        outputs = [stack.enter_context(open(into / f"{part}.jsonl", "wb")) for part in OUTPUTS]
        for number in range(len(sources)):
            index = _index(shards, number)
            is_kept = kept[starts[number] : starts[number + 1]]
            for part, output in zip(OUTPUTS, outputs, strict=True):
                _copy(shard_file(shards, number, part), output, index[part], is_kept)
            _count(index[is_kept], merged.counts)
    return merged


def _index(shards: Path, number: int) -> Index:
    return np.fromfile(shard_file(shards, number, "index"), dtype=INDEX_ROW)


def _count(index: Index, counts: Counter[str]) -> None:
    counts["pages"] += int((index["pages"] > 0).sum())
    counts["redirects"] += int((index["redirects"] > 0).sum())
    counts["passages"] += int(index["n_passages"].sum())
    counts["words"] += int(index["n_words"].sum())
    counts["disambiguations"] += int(index["is_disambiguation"].sum())


@dataclass(frozen=True, slots=True)
class _Rows:
    """The index rows of all shards laid end to end; single ones are read again only for duplicates."""

    shards: Path
    sources: Sequence[str]
    starts: npt.NDArray[np.int64]

    def keys(self) -> npt.NDArray[np.uint64]:
        """Return the id digest of every row."""
        keys = np.empty(self.starts[-1], dtype=np.uint64)
        for number in range(len(self.sources)):
            keys[self.starts[number] : self.starts[number + 1]] = _index(self.shards, number)["key"]
        return keys

    def content(self, row: int) -> int:
        """Return the content digest of a row."""
        number, local = self._place(row)
        offset = local * INDEX_ROW.itemsize
        return int(
            np.fromfile(shard_file(self.shards, number, "index"), INDEX_ROW, count=1, offset=offset)[0]["content"]
        )

    def source(self, row: int) -> str:
        """Return the name of the source that a row is from."""
        return self.sources[self._place(row)[0]]

    def names(self, row: int) -> tuple[str, ...]:
        """Return what a row is called, the most telling name first, by reading its first line."""
        number, local = self._place(row)
        index = _index(self.shards, number)
        part = "redirects" if index[local]["redirects"] else "passages"
        with open(shard_file(self.shards, number, part), "rb") as handle:
            handle.seek(int(index[part][:local].sum(dtype=np.int64)))
            line = json.loads(handle.readline())
        return (line["title"],) if part == "redirects" else (line["page_id"], line["id"])

    def _place(self, row: int) -> tuple[int, int]:
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        return number, row - int(self.starts[number])


def _kept(rows: _Rows, *, on_clash: OnClash, dropped: Counter[str]) -> Mask:
    """Return which rows stay, bool, one a row: of those with one id the first."""

    def is_repeat(first: int, row: int) -> bool:
        is_same = rows.content(first) == rows.content(row)
        if not is_same and not set(rows.names(first)) & set(rows.names(row)):
            return False  # two ids with one digest
        if not is_same and on_clash == "refuse":
            raise CorpusError(
                f"expected an unused id, got {rows.names(row)[-1]!r} of {rows.source(row)} for other content than in "
                f"{rows.source(first)}; leave one out, or keep the first with --on-clash keep-first"
            )
        dropped["same as one before" if is_same else "other content under a used id"] += 1
        return True

    return first_of_each(rows.keys(), is_repeat)


def _copy(file: Path, output: IO[bytes], sizes: npt.NDArray[np.uint32], kept: Mask) -> None:
    """Append the kept pieces of a file."""
    with open(file, "rb") as handle:
        if kept.all():
            while block := handle.read(COPY_BYTES):
                output.write(block)
            return
        for size, is_kept in zip(sizes.tolist(), kept.tolist(), strict=True):
            piece = handle.read(size)
            if is_kept:
                output.write(piece)


def report(sources: Sequence[Source], shards: Path, origins: Sequence[int], *, merged: Merged) -> dict[str, object]:
    """Return counts, what was skipped with examples, and what was removed."""
    removed: Counter[str] = Counter()
    n_skipped: Counter[str] = Counter()
    examples: dict[str, list[str]] = {}
    is_useful = [False] * len(sources)
    for number, origin in enumerate(origins):
        facts = shard_facts(shards, number)
        if facts is None:
            raise CorpusError(f"expected whole shards in {shards}, got shard {number} damaged; run again")
        removed.update(cast(dict[str, int], facts["removed"]))
        is_useful[origin] |= any(cast(list[int], facts["sizes"]))
        name = sources[origin].path.name
        for reason, (count, found) in cast(dict[str, tuple[int, list[tuple[int, str]]]], facts["skipped"]).items():
            n_skipped[reason] += count
            held = examples.setdefault(reason, [])
            held += [f"{name}:{line}: {what}" if line else f"{name}: {what}" for line, what in found]
            del held[MAX_EXAMPLES:]
    skipped = {reason: {"count": n_skipped[reason], "examples": examples[reason]} for reason in sorted(n_skipped)}
    for source, useful in zip(sources, is_useful, strict=True):
        if not useful or not merged.counts["passages"]:
            raise CorpusError(
                f"expected at least one passage from {source.path}, got none; skipped: {skipped}; leave it out"
            )
    return {
        "sources": [{"name": s.path.name, "format": s.format, "n_bytes": s.n_bytes} for s in sources],
        "counts": dict(merged.counts),
        "skipped": skipped,
        "duplicates": dict(merged.dropped),
        "removed": dict(sorted(removed.items())),
    }
