"""Dumps read the same however they are packed, and keep redirects, kinds and links as data."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path

import pytest

pytest.importorskip("mwparserfromhell")

from ssp_env.build.ingest import dump, parts  # noqa: E402
from ssp_env.build.ingest.parts import Item, Page, Redirect, Removed, Skip  # noqa: E402
from tests.build.ingest.samples import FOOT, HEAD, cut_anywhere, dump_xml, multistream, page_xml  # noqa: E402

XML = dump_xml()


def items_of(path: Path) -> list[Item]:
    return [item for chunk in dump.plan(path) for item in dump.read(chunk) if not isinstance(item, Removed)]


def write(folder: Path, data: bytes) -> Path:
    path = folder / "d.xml.bz2"
    path.write_bytes(data)
    return path


def test_pages_redirects_and_other_namespaces_are_told_apart(tmp_path: Path) -> None:
    items = items_of(write(tmp_path, XML.encode()))
    pages = [item for item in items if isinstance(item, Page)]
    assert [page.id for page in pages] == [str(n) for n in range(1, 41)]
    assert [section.heading for section in pages[0].sections] == ["", "History"]
    assert pages[0].links == ("Page", "Page 2")
    assert [item for item in items if isinstance(item, Redirect)] == [Redirect("Old name", "Page 1")]
    assert [item.reason for item in items if isinstance(item, Skip)] == ["page of another namespace"]


@pytest.mark.parametrize("chunk", [1, 5000, 1 << 19])
def test_packing_and_cutting_change_nothing(chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = items_of(write(tmp_path, XML.encode()))
    monkeypatch.setattr(parts, "MIN_CHUNK_BYTES", chunk)
    packed = [XML.encode(), gzip.compress(XML.encode()), bz2.compress(XML.encode()), multistream(XML)]
    packed += [cut_anywhere(XML, n_bytes) for n_bytes in (97, 1000, 4096, 30_000)]
    for data in packed:
        assert items_of(write(tmp_path, data)) == expected


def test_multistream_dumps_are_cut_at_streams_and_read_by_the_workers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MIN_CHUNK_BYTES", 1)
    chunks = list(dump.plan(write(tmp_path, multistream(XML))))
    assert len(chunks) > 5
    assert all(chunk.data is None for chunk in chunks)
    assert sum(chunk.n_bytes for chunk in chunks) == (tmp_path / "d.xml.bz2").stat().st_size


def test_streams_too_large_for_a_worker_are_unpacked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = items_of(write(tmp_path, XML.encode()))
    monkeypatch.setattr(dump, "MAX_STREAM_BYTES", 100)
    path = write(tmp_path, multistream(XML))
    assert all(chunk.data is not None for chunk in dump.plan(path))
    assert items_of(path) == expected


def test_a_text_redirect_without_the_element_is_a_redirect(tmp_path: Path) -> None:
    path = write(tmp_path, (HEAD + page_xml(1, "#REDIRECT [[Aim#Part]]", title="A & B") + FOOT).encode())
    assert items_of(path) == [Redirect("A & B", "Aim")]


def test_a_page_tag_in_the_text_opens_no_page(tmp_path: Path) -> None:
    path = write(tmp_path, (HEAD + page_xml(1, "The tag <page> and </page> in text. </mediawiki>") + FOOT).encode())
    assert [item.title for item in items_of(path) if isinstance(item, Page)] == ["Page 1"]


def test_the_real_cut_has_106_articles_without_residue(data_dir: Path) -> None:
    (path,) = (data_dir / "raw" / "gensim").glob("*.bz2")
    items = items_of(path)
    pages = [item for item in items if isinstance(item, Page)]
    assert len(pages) == 106
    assert sum(page.kind == "disambiguation" for page in pages) == 8
    assert sum(isinstance(item, Redirect) for item in items) == 99
    texts = [section.text for page in pages for section in page.sections]
    for residue in (
        "thumb|",
        "{{",
        "}}",
        "[[",
        "]]",
        "{|",
        "Category:",
        "File:",
        "'''",
        "<ref",
        "</",
        "http://",
        "&nbsp;",
    ):
        assert not [text for text in texts if residue in text], residue
    assert not [line for text in texts for line in text.split("\n") if line.startswith(("|", "!", "*", "#"))]
    assert sum(len(page.links) for page in pages) > 15_000
    assert 420_000 < sum(len(text.split()) for text in texts) < 460_000
