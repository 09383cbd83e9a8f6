"""What one worker makes of one chunk: files that hold a piece of the corpus, complete once their facts are written.

A shard is four files: passages, pages and redirects as lines of the final corpus, and an index with a row for each
thing that can be dropped as a duplicate later. ``<number>.json`` names their sizes, is written last, and makes the
shard complete. All files appear by renaming, so a worker that outlives a killed builder does no harm.

Passages of about a hundred words end where sentences end and never cross a section. A passage closes once another
sentence would take it past the wanted length; a short rest joins the passage before it. A sentence longer than
``LONGEST`` times the wanted length is cut between words, so no passage is longer than ``LONGEST + SHORTEST`` times that
length. Words are what white space separates.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path

import numpy as np

from ssp_env.build.ingest.parts import Chunk, Item, Page, Redirect, Skip, row_line
from ssp_env.storage import replacing, write_json

PARTS = ("passages", "pages", "redirects", "index")
MAX_EXAMPLES = 3
INDEX_ROW = np.dtype(
    [
        ("key", "<u8"),
        ("content", "<u8"),
        ("passages", "<u4"),
        ("pages", "<u4"),
        ("redirects", "<u4"),
        ("n_passages", "<u4"),
        ("n_words", "<u4"),
        ("is_disambiguation", "<u4"),
    ]
)
"""A droppable thing: digests of its id and content (uint64), its bytes in each part, and what it adds to the counts."""
LONGEST = 1.2
SHORTEST = 0.4
_END = re.compile(r"[.!?…]+[\"'”’»)\]]*\s+(?=[\"'“‘«(\[]*[^\W_a-zß-öø-ÿ])|[。！？]+[」』”）]*\s*")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“])(?:[^\W\d_]|dr|mr|mrs|ms|st|mt|ft|no|nos|vs|cf|ca|fl|prof|gen|col|capt|sgt|lt|maj|rev|hon|sen|rep|"
    r"gov|pres|jr|sr|vol|vols|pp|ed|eds|fig|approx|est|jan|feb|apr|aug|sept|oct|nov|dec|inc|ltd|co|corp|bros|etc|e\.g|i\.e|u\.s|u\.k|d\.c|"
    r"[^\W\d_](?:\.[^\W\d_])+)\.\s+$",
    re.I,
)


@dataclass(frozen=True, slots=True)
class Job:
    """A chunk to be read, the function that reads it, where the shard goes, its number, and words a passage."""

    chunk: Chunk
    read: Callable[[Chunk], Iterator[Item]]
    folder: Path
    number: int
    n_words: int


def shard_file(folder: Path, number: int, part: str) -> Path:
    """Return the file of a part of a shard."""
    return folder / f"{number:07d}.{part}"


def shard_facts(folder: Path, number: int) -> dict[str, object] | None:
    """Return the facts of a complete shard, or None."""
    try:
        facts: dict[str, object] = json.loads(shard_file(folder, number, "json").read_text(encoding="utf-8"))
        sizes = [shard_file(folder, number, part).stat().st_size for part in PARTS]
    except (FileNotFoundError, ValueError):
        return None
    return facts if facts.get("sizes") == sizes else None


def write_shard(job: Job) -> None:
    """Read the chunk of a job and write its shard."""
    made = _Shard(job.n_words)
    for item in job.read(job.chunk):
        if isinstance(item, Page):
            made.add_page(item)
        elif isinstance(item, Redirect):
            made.add_redirect(item)
        elif isinstance(item, Skip):
            made.add_skip(item)
        else:
            made.removed.update(dict(item.counts))
    index = np.array(made.index, dtype=INDEX_ROW).tobytes()
    parts: tuple[bytes | bytearray, ...] = (made.passages, made.pages, made.redirects, index)
    for part, data in zip(PARTS, parts, strict=True):
        with replacing(shard_file(job.folder, job.number, part)) as file:
            file.write(data)
    facts = {
        "sizes": [len(data) for data in parts],
        "removed": dict(sorted(made.removed.items())),
        "skipped": {reason: [made.n_skipped[reason], made.examples[reason]] for reason in sorted(made.n_skipped)},
    }
    write_json(shard_file(job.folder, job.number, "json"), facts)


class _Shard:
    """The lines and counts of a shard while it is made."""

    def __init__(self, n_words: int) -> None:
        self._n_words = n_words
        self.passages, self.pages, self.redirects = bytearray(), bytearray(), bytearray()
        self.index: list[tuple[int, ...]] = []
        self.removed: Counter[str] = Counter()
        self.n_skipped: Counter[str] = Counter()
        self.examples: dict[str, list[list[object]]] = {}

    def add_page(self, page: Page) -> None:
        """Write a page and its passages: those of the source, or new ones cut from its sections."""
        sections = [{"heading": s.heading, "level": s.level, "text": s.text} for s in page.sections]
        row: dict[str, object] = {
            "id": page.id,
            "title": page.title,
            "kind": page.kind,
            "sections": sections,
            "links": page.links,
        }
        line = row_line(row) if page.title else b""
        self.pages += line
        is_disambiguation = int(page.kind == "disambiguation")
        if page.rows:
            for number, kept in enumerate(page.rows):
                passage = _passage(kept.id, page, "", kept.text)
                n_page_bytes = len(line) if number == 0 else 0
                self._add(passage, n_page_bytes, kept.id, (1, len(kept.text.split()), is_disambiguation))
            return
        lines, n_words = self._cut(page)
        self._add(b"".join(lines), len(line), page.id, (len(lines), n_words, is_disambiguation))

    def _cut(self, page: Page) -> tuple[list[bytes], int]:
        lines: list[bytes] = []
        n_words = 0
        for path, text in _section_paths(page):
            for passage in split_passages(text, self._n_words):
                lines.append(_passage(f"{page.id}-{len(lines)}", page, path, passage))
                n_words += len(passage.split())
        return lines, n_words

    def _add(self, passages: bytes, n_page_bytes: int, page_id: str, counts: tuple[int, int, int]) -> None:
        self.passages += passages
        self.index.append((_digest("p", page_id), _digest(passages), len(passages), n_page_bytes, 0, *counts))

    def add_redirect(self, redirect: Redirect) -> None:
        """Write a redirect."""
        line = row_line({"title": redirect.title, "target": redirect.target})
        self.redirects += line
        self.index.append((_digest("r", redirect.title), _digest(line), 0, 0, len(line), 0, 0, 0))

    def add_skip(self, skip: Skip) -> None:
        """Count a skip; the first few of a reason are kept as examples."""
        self.n_skipped[skip.reason] += 1
        examples = self.examples.setdefault(skip.reason, [])
        if len(examples) < MAX_EXAMPLES:
            examples.append([skip.line, skip.what[:200].encode("utf-8", "replace").decode()])


def _section_paths(page: Page) -> Iterator[tuple[str, str]]:
    """Yield (headings from the top down joined by `` > ``, text) of each section."""
    above: list[tuple[int, str]] = []
    for section in page.sections:
        above = [(level, heading) for level, heading in above if level < section.level]
        if section.heading:
            above.append((section.level, section.heading))
        yield " > ".join(heading for _, heading in above), section.text


def _passage(passage_id: str, page: Page, path: str, text: str) -> bytes:
    return row_line({"id": passage_id, "title": page.title, "text": text, "section": path, "page_id": page.id})


def _digest(*parts: str | bytes) -> int:
    digest = blake2b(digest_size=8)
    for part in parts:
        digest.update(part if isinstance(part, bytes) else part.encode("utf-8", "replace"))
    return int.from_bytes(digest.digest(), "little")


def split_passages(text: str, n_words: int) -> list[str]:
    """Return the passages of a section's text, in order; an empty text has none."""
    limit = max(int(n_words * LONGEST), 1)
    passages: list[str] = []
    n_held, held, n_before, joint = 0, "", 0, " "
    for n, mark, sentence in _pieces(text, limit):
        if n_held >= n_words or (n_held + n > limit and n_held >= n_words * SHORTEST):
            passages.append(held)
            n_before, n_held, held = n_held, 0, ""
        joint = joint if held else mark
        held = f"{held}{mark}{sentence}" if held else sentence
        n_held += n
    if passages and n_held < n_words * SHORTEST and n_before + n_held <= n_words * (LONGEST + SHORTEST):
        passages[-1] += joint + held
    elif held:
        passages.append(held)
    return passages


def _pieces(text: str, limit: int) -> Iterator[tuple[int, str, str]]:
    """Yield (words, separator before it, sentence) with no sentence above the limit."""
    for paragraph in text.split("\n"):
        mark = "\n"
        for sentence in sentences(paragraph):
            words = sentence.split()
            for start in range(0, len(words), limit):
                part = words[start : start + limit]
                yield len(part), mark, sentence if len(words) <= limit else " ".join(part)
                mark = " "


def sentences(paragraph: str) -> list[str]:
    """Return the sentences of a paragraph; abbreviations and initials do not end one."""
    found: list[str] = []
    start = 0
    for match in _END.finditer(paragraph):
        end = match.end()
        if paragraph[match.start()] == "." and _ABBREVIATION.search(paragraph[max(start, end - 16) : end]):
            continue
        found.append(paragraph[start:end].strip())
        start = end
    found.append(paragraph[start:].strip())
    return [sentence for sentence in found if sentence]
