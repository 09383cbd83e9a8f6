"""One row of a corpus file: parsing, checks and digests.

Two shapes are read: ``{id, title, text}``, and ``{id, contents}`` as Search-R1 and FlashRAG publish Wikipedia, where
``contents`` is the title (in quotes, inner quotes doubled), a newline, and the text. Other keys are ignored.
"""

from __future__ import annotations

import json
from hashlib import blake2b

from ssp_env.text import split_contents
from ssp_env.types import Passage

CONTENT_DIGEST_BYTES = 16


class RowError(ValueError):
    """Says what is wrong with a row; callers add where it is and raise ``CorpusError``."""


def parse_row(line: bytes) -> Passage:
    """Parse and check one line of a corpus file.

    Raises:
        RowError: If the line is not UTF-8, not a JSON object, or lacks a usable id, title or text.
    """
    try:
        row = json.loads(line.removeprefix(b"\xef\xbb\xbf").decode("utf-8"))
    except UnicodeDecodeError as error:
        raise RowError(f"expected UTF-8 text, got {error}; save the file as UTF-8") from error
    except (ValueError, RecursionError) as error:
        raise RowError(f"expected one JSON object a line, got {_short(line)} ({error}); fix or remove it") from error
    if not isinstance(row, dict):
        raise RowError(f"expected a JSON object, got {_short(row)}; fix or remove the row")
    if "contents" in row and "text" not in row:
        title, text = split_contents(_string(row, "contents"))
    else:
        title, text = _string(row, "title"), _string(row, "text")
    return check_passage(Passage(id=_id(row), title=title, text=text))


def check_passage(passage: Passage) -> Passage:
    """Return the passage if it is usable.

    Raises:
        RowError: If id or text is empty, or a field is not well-formed Unicode text.
    """
    for name in ("id", "title", "text"):
        value = getattr(passage, name)
        if not isinstance(value, str):
            raise RowError(f"expected a string for {name!r}, got {_short(value)}; fix the row")
        if name != "title" and not value.strip():
            raise RowError(f"expected a non-empty {name!r}, got {_short(value)}; remove the row")
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


def _id(row: dict[str, object]) -> str:
    value = row.get("id")
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    return _string(row, "id")


def _string(row: dict[str, object], name: str) -> str:
    if name not in row:
        shapes = "'id', 'title' and 'text', or 'id' and 'contents'"
        raise RowError(f"expected the keys {shapes}, got {sorted(row)!r}; add {name!r}")
    value = row[name]
    if not isinstance(value, str):
        raise RowError(f"expected a string for {name!r}, got {_short(value)}; fix the row")
    return value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
