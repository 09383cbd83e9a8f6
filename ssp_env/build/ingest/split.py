"""Sections to passages of about a hundred words that end where sentences end.

A passage never crosses a section. It closes once another sentence would take it past the wanted length; a short rest
joins the passage before it. A sentence longer than ``LONGEST`` times the wanted length is cut between words, so no
passage is longer than ``LONGEST + SHORTEST`` times that length. Words are what white space separates.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

LONGEST = 1.2
SHORTEST = 0.4
_END = re.compile(r"[.!?…]+[\"'”’»)\]]*\s+(?=[\"'“‘«(\[]*[^\W_a-zß-öø-ÿ])|[。！？]+[」』”）]*\s*")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\"'“])(?:[^\W\d_]|dr|mr|mrs|ms|st|mt|ft|no|nos|vs|cf|ca|fl|prof|gen|col|capt|sgt|lt|maj|rev|hon|sen|rep|"
    r"gov|pres|jr|sr|vol|vols|pp|ed|eds|fig|approx|est|jan|feb|apr|aug|sept|oct|nov|dec|inc|ltd|co|corp|bros|etc|e\.g|i\.e|u\.s|u\.k|d\.c|"
    r"[^\W\d_](?:\.[^\W\d_])+)\.\s+$",
    re.I,
)


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
