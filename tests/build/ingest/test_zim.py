"""ZIM archives, written on the spot with the library that reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("libzim")

from ssp_env.build.ingest import zim  # noqa: E402
from ssp_env.build.ingest.formats import detect_format  # noqa: E402
from ssp_env.build.ingest.parts import Page, Redirect, Skip  # noqa: E402
from ssp_env.corpus import Section  # noqa: E402
from ssp_env.errors import CorpusError  # noqa: E402

HTML = """<html><head><title>T</title><style>p {}</style></head><body><h1>Alpha</h1><p>Lead with a
<a href="Beta_page">link
</a>.<sup>[1]</sup><br>Next &amp; last.</p><table><tr><td>cell<table><tr><td>x</td></tr></table></td></tr></table>
<h2>History</h2><ul><li>one</li><li>two</li></ul><figure><img src="a"><p>caption</p></figure></body></html>"""


def write_archive(path: Path) -> Path:
    from libzim.writer import Creator, Hint, Item, StringProvider

    class Entry(Item):
        def __init__(self, path: str, title: str, content: str, mimetype: str) -> None:
            super().__init__()
            self.entry, self.title, self.content, self.mimetype = path, title, content, mimetype

        def get_path(self) -> str:
            return self.entry

        def get_title(self) -> str:
            return self.title

        def get_mimetype(self) -> str:
            return self.mimetype

        def get_contentprovider(self) -> StringProvider:
            return StringProvider(self.content)

        def get_hints(self) -> dict[Hint, bool]:
            return {Hint.FRONT_ARTICLE: self.mimetype == "text/html"}

    with Creator(path) as creator:
        creator.set_mainpath("Alpha")
        creator.add_item(Entry("Alpha", "Alpha", HTML, "text/html"))
        creator.add_item(Entry("empty", "Empty", "<html><body></body></html>", "text/html"))
        creator.add_item(Entry("style.css", "", "p {}", "text/css"))
        creator.add_redirection("Alfa", "Alfa", "Alpha", {})
    return path


def test_articles_redirects_and_links_are_read(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "a.zim")
    assert detect_format(path) == "zim"
    items = [item for chunk in zim.plan(path) for item in zim.read(chunk)]
    sections = (Section("", 1, "Lead with a link .\nNext & last."), Section("History", 2, "one\ntwo"))
    assert Page("Alpha", "Alpha", sections, ("Beta page",)) in items
    assert Redirect("Alfa", "Alpha") in items
    reasons = [item.reason for item in items if isinstance(item, Skip)]
    assert "page without prose" in reasons and "entry is not a page" in reasons


def test_a_truncated_archive_is_an_error(tmp_path: Path) -> None:
    path = write_archive(tmp_path / "a.zim")
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(CorpusError, match=r"ZIM archive.*a\.zim"):
        list(zim.plan(path))
