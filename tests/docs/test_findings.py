"""``docs/findings.md``: every interval in it stands in a card; its links lead somewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

from tests.docs.pages import missing_links

OF_TWO_CARDS = ("+.313 [+.257, +.366]",)
"""Differences that are paired over the seeds of two cards, so that neither card has them."""


def intervals(figures: object) -> Iterator[tuple[float, float, float]]:
    """Yield every mean with its bootstrap interval."""
    if isinstance(figures, dict):
        if figures.keys() >= {"mean", "low", "high"}:
            yield figures["mean"], figures["low"], figures["high"]
        for part in figures.values():
            yield from intervals(part)


def test_every_interval_stands_in_a_card(repository: Path) -> None:
    page = " ".join((repository / "docs" / "findings.md").read_text(encoding="utf-8").split())
    paths = (repository / "benchmarks" / "results").glob("ablation_*.json")
    cards = [json.loads(path.read_text(encoding="utf-8")) for path in paths]
    known = [found for card in cards for found in intervals(card["figures"])]
    told = re.findall(r"[+-]?\d?\.\d{3}(?: is)? \[[^]]*\d\]", page)
    assert len(told) > 80
    assert [text for text in told if text not in OF_TWO_CARDS and not is_among(numbers(text), known)] == []


def numbers(text: str) -> list[float]:
    return [float(number) for number in re.findall(r"[+-]?\d?\.\d+", text)]


def is_among(told: list[float], known: list[tuple[float, float, float]]) -> bool:
    """Return whether these are figures of a card, rounded; a difference may be told the other way round."""
    turned = [-told[0], -told[2], -told[1]]
    return any(
        all(abs(a - b) < 0.00051 for a, b in zip(way, found, strict=True)) for way in (told, turned) for found in known
    )


def test_every_linked_file_and_heading_exists(repository: Path) -> None:
    assert missing_links(repository / "docs" / "findings.md") == []
