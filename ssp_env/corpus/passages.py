"""One row of a corpus file: parsing, checks and digests.

Two shapes are read: ``{id, title, text}``, and ``{id, contents}`` as Search-R1 and FlashRAG publish Wikipedia, where
``contents`` is the title (in quotes, inner quotes doubled), a newline, and the text. Other keys are ignored.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b

from ssp_env.schema import load, shown
from ssp_env.text import split_contents
from ssp_env.types import Passage

CONTENT_DIGEST_BYTES = 16


class RowError(ValueError):
    """Says what is wrong with a row; callers add where it is and raise ``CorpusError``."""


@dataclass(frozen=True, slots=True)
class _Row:
    id: str | int
    title: str | None = None
    text: str | None = None
    contents: str | None = None


def parse_row(line: bytes) -> Passage:
    """Parse and check one line of a corpus file.

    Raises:
        RowError: If the line is not UTF-8, not a JSON object, or lacks a usable id, title or text.
    """
    row = load(_Row, line, what="a row {id, title, text} or {id, contents}", error=RowError)
    if row.text is None and row.contents is not None:
        title, text = split_contents(row.contents)
    elif row.title is None or row.text is None:
        missing = "title" if row.title is None else "text"
        raise RowError(f"expected 'id', 'title' and 'text', or 'id' and 'contents', got no {missing!r}; add it")
    else:
        title, text = row.title, row.text
    return check_passage(Passage(str(row.id), title, text))


def check_passage(passage: Passage) -> Passage:
    """Return the passage if it is usable.

    Raises:
        RowError: If id or text is empty, or a field is not well-formed Unicode text.
    """
    for name in ("id", "title", "text"):
        value = getattr(passage, name)
        if not isinstance(value, str):
            raise RowError(f"expected a string for {name!r}, got {shown(value)}; fix the row")
        if name != "title" and not value.strip():
            raise RowError(f"expected a non-empty {name!r}, got {shown(value)}; remove the row")
        try:
            value.encode("utf-8")
        except UnicodeEncodeError as error:
            raise RowError(f"expected Unicode text for {name!r}, got a lone surrogate ({error}); fix it") from error
    return passage


def content_digest(passage: Passage) -> bytes:
    """Return 16 bytes that stand for a whole passage; field lengths are hashed too, so fields cannot run together."""
    digest = blake2b(digest_size=CONTENT_DIGEST_BYTES)
    for field in (passage.id, passage.title, passage.text):
        data = field.encode("utf-8")
        digest.update(len(data).to_bytes(8, "little"))
        digest.update(data)
    return digest.digest()


def fingerprint(content_digests: bytes) -> str:
    """Return the fingerprint of a corpus from the joined content digests of its passages, in order."""
    return blake2b(content_digests, digest_size=16).hexdigest()
