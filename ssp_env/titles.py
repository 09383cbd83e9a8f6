"""Titles: how they are compared, and how they travel inside the field ``contents``.

Search-R1 and FlashRAG publish passages as ``{id, contents}``, where ``contents`` is the title in quotes (inner quotes
doubled), a newline, and the text. Standard library only.
"""

from __future__ import annotations

import unicodedata


def title_key(title: str) -> str:
    """Return what two spellings of one title share: case, width, underscores and spacing do not count."""
    return " ".join(unicodedata.normalize("NFKC", title).casefold().replace("_", " ").split())


def join_contents(title: str, text: str) -> str:
    r"""Return the field ``contents``; line breaks in a title become spaces, for the first one ends it.

    >>> join_contents('The "A" Team', "A series.")
    '"The ""A"" Team"\nA series.'
    """
    quoted = " ".join(title.split("\n")).replace('"', '""')
    return f'"{quoted}"\n{text}'


def split_contents(contents: str) -> tuple[str, str]:
    """Return title and text; contents of a single line are text without a title."""
    first, newline, rest = contents.partition("\n")
    if not newline:
        return "", contents
    if len(first) >= 2 and first[0] == first[-1] == '"':
        first = first[1:-1].replace('""', '"')
    return first, rest
