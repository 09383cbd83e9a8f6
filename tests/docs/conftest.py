"""A folder with the files that the examples of the pages name."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.docs.pages import ANSWERS, PASSAGES, QUESTIONS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, rows in (("passages", PASSAGES), ("questions", QUESTIONS), ("answers", ANSWERS)):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path
