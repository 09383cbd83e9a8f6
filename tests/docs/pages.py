"""What the tests of the pages share: blocks of code and how to run them, links and headings."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

PASSAGES = (
    {"id": "1", "title": "Oxley", "text": "Oxley is a town on the river Elm."},
    {"id": "2", "title": "Elm", "text": "The river Elm flows into Lake Tarn."},
)
ANSWERS = ({"answer": "Lake Tarn"},)
QUESTIONS = ({"question": "Into which lake does the river of Oxley flow?", "answers": ["Lake Tarn"]},)


def blocks_of(page: str | Path, language: str = "python") -> list[str]:
    """Return the fenced blocks of a page, in order."""
    text = page.read_text(encoding="utf-8") if isinstance(page, Path) else page
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


def run_block(code: str, folder: Path) -> str:
    """Run a block in a folder, warnings being errors, and return what it printed."""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{code}\n{done.stderr}"
    return done.stdout


def shown_in(parts: Iterable[str], text: str) -> bool:
    """Return whether all parts stand in the text, in this order."""
    position = 0
    for part in parts:
        position = text.find(part, position)
        assert position >= 0, part
        position += len(part)
    return True


def missing_links(page: Path) -> list[str]:
    """Return the links of a page to files or headings that do not exist."""
    links = [link for link in re.findall(r"\]\(([^)]+)\)", page.read_text(encoding="utf-8")) if "://" not in link]
    return [link for link in links if not _leads_somewhere(page, link)]


def _leads_somewhere(page: Path, link: str) -> bool:
    name, _, anchor = link.partition("#")
    target = page.parent / name if name else page
    return target.exists() and (not anchor or anchor in _anchors(target))


def _anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading).strip().lower().replace(" ", "-") for heading in headings}
