"""What ``docs/serving.md`` says of the server is what the server has."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ssp_env.cli.main import main


@pytest.fixture(scope="module")
def document(repository: Path) -> str:
    return (repository / "docs" / "serving.md").read_text(encoding="utf-8")


def test_all_refusals_are_listed_and_no_others(document: str, repository: Path) -> None:
    source = "".join(path.read_text(encoding="utf-8") for path in (repository / "ssp_env" / "serve").glob("*.py"))
    codes = set(re.findall(r'Refusal\(\s*(?:\d+|status), "(\w+)"', source))
    table = "".join(re.findall(r"^\| [45]\d\d.*$", document, re.MULTILINE))
    assert codes and set(re.findall(r"`([a-z_]+)`", table)) - {"topk"} == codes


def test_the_options_exist(document: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["serve", "--help"])
    shown = capsys.readouterr().out
    named = set(re.findall(r"--[a-z][a-z-]+", document))
    assert {"--corpus", "--pages", "--blocklist"} <= named
    assert [option for option in sorted(named) if option not in shown] == []


def test_the_linked_part_of_the_other_document_exists(document: str, repository: Path) -> None:
    (anchor,) = re.findall(r"\(wikipedia\.md#([a-z-]+)\)", document)
    headings = re.findall(r"^## (.*)$", (repository / "docs" / "wikipedia.md").read_text("utf-8"), re.MULTILINE)
    assert anchor in [heading.lower().replace(" ", "-") for heading in headings]
