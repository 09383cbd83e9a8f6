"""``CONTRIBUTING.md`` and ``AGENTS.md`` show the layers as they are enforced, and paths that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import missing_links
from tests.test_architecture import LAYERS


@pytest.fixture(scope="module")
def guide(repository: Path) -> str:
    return (repository / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_layers_are_those_that_are_enforced(guide: str) -> None:
    (table,) = re.findall(r"lowest layer first \|[^\n]*\n\|[-|]+\|\n((?:\|.*\|\n)+)", guide)
    rows = [re.findall(r"`(\w+)`", row.split("|")[1]) for row in table.splitlines()]
    layer_of = {part: number for number, layer in enumerate(LAYERS) for part in layer}
    layers = [{layer_of[part] for part in row} for row in rows]
    assert all(len(layer) == 1 for layer in layers)
    assert [*map(min, layers)] == sorted({*map(min, layers)})


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "AGENTS.md"])
def test_the_paths_named_exist(page: str, repository: Path) -> None:
    text = (repository / page).read_text(encoding="utf-8")
    named = set(re.findall(r"`((?:ssp_env|agents|training|benchmarks|tests|docs)/[\w/.-]*)`", text))
    assert named
    assert [path for path in sorted(named) if not (repository / path).exists()] == []


def test_every_linked_file_and_heading_exists(repository: Path) -> None:
    assert missing_links(repository / "CONTRIBUTING.md") == []
