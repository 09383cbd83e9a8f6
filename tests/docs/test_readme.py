"""The README's code runs as shown, and what it names exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.pages import blocks_of, missing_links, run_block, shown_in


@pytest.fixture(scope="module")
def readme(repository: Path) -> str:
    return (repository / "README.md").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def blocks(readme: str) -> list[str]:
    return blocks_of(readme)


def test_the_environment_answers_as_the_comments_say(blocks: list[str], folder: Path) -> None:
    question, reward = re.findall(r"# (Which .*\?|reward [\d.]+)$", blocks[0], re.MULTILINE)
    shown = run_block(f"{blocks[0]}print(prompt, f'reward {{reward}}')", folder)
    assert f"Question: {question}" in shown
    assert shown.endswith(f"{reward}\n")


def test_the_agent_plays_over_passages_from_a_file(blocks: list[str], folder: Path) -> None:
    shown = run_block(blocks[1], folder)
    assert shown == "Into which lake does the river of Oxley flow? -> Lake Tarn\n"


def test_the_game_that_is_shown_is_the_one_that_its_code_plays(readme: str, repository: Path, folder: Path) -> None:
    (code,) = [block for block in blocks_of(repository / "docs" / "environments.md") if "ExpertAgent" in block]
    (game,) = re.findall(r"^```text\n(answer .*?)^```", readme, re.DOTALL | re.MULTILINE)
    said = [line.strip() for line in re.findall(r"<\w+> [^<]* </\w+>|^ {12}[A-Z].*\.(?= \.\.\.$)", game, re.MULTILINE)]
    assert len(said) >= 10
    assert shown_in(said, run_block(code, folder))


def test_every_linked_file_and_heading_exists(repository: Path) -> None:
    assert missing_links(repository / "README.md") == []


def test_the_files_of_the_tree_exist(readme: str, repository: Path) -> None:
    (tree,) = re.findall(r"^```text\n(ssp_env/.*?)^```", readme, re.DOTALL | re.MULTILINE)
    folder, missing = "", []
    for line in tree.splitlines():
        names = re.findall(r"(?:^ *|(?<=/ ))(\w+/)", line)
        folder = "" if not line.startswith(" ") else "ssp_env/"
        missing += [folder + name for name in names if not (repository / folder / name).is_dir()]
    assert tree.count("/ ") > 10 and missing == []


def test_the_make_targets_exist(readme: str, repository: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (repository / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert set(re.findall(r"^make ([a-z-]+)", readme, re.MULTILINE)) <= targets
