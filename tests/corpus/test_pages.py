from __future__ import annotations

import gzip
import json
import os
import pickle
from collections.abc import Sequence
from pathlib import Path

import pytest

from ssp_env.corpus import Page, PageStore, Section, only_section, open_pages
from ssp_env.errors import CorpusError
from ssp_env.types import Passage

OXLEY = {
    "id": "1",
    "title": "Oxley",
    "sections": [
        {"heading": "", "level": 1, "text": "Oxley is a town.", "links": ["River Elm"]},
        {"heading": "History", "level": 2, "text": "It is old."},
        {"heading": "Middle ages", "level": 3, "text": "A mill \u00e9."},
        {"heading": "Sports", "level": 2, "text": "Chess."},
    ],
    "links": ["Chess", "River Elm"],
    "kind": "article",
}
ROWS: list[dict[str, object]] = [
    OXLEY,
    {"id": 2, "title": "River Elm", "sections": [{"heading": "", "level": 1, "text": "A river."}]},
    {"id": "3", "title": "RED", "sections": [{"heading": "", "level": 1, "text": "An acronym."}]},
    {"id": "4", "title": "Red", "sections": [{"heading": "", "level": 1, "text": "A colour."}]},
]
REDIRECTS = [
    {"title": "Elm (river)", "target": "River_Elm"},
    {"title": "The Elm", "target": "Elm (river)"},
    {"title": "oxley", "target": "Red"},
    {"title": "Loop", "target": "Pool"},
    {"title": "Pool", "target": "Loop"},
    {"title": "Nowhere", "target": "No such page"},
]


def write(path: Path, rows: Sequence[object]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    return path


@pytest.fixture
def store(tmp_path: Path) -> PageStore:
    return open_pages(write(tmp_path / "pages.jsonl", ROWS), redirects=write(tmp_path / "redirects.jsonl", REDIRECTS))


def test_page_comes_whole(store: PageStore) -> None:
    assert len(store) == 4
    assert store.by_title("Oxley") == Page(
        "1",
        "Oxley",
        (
            Section("", 1, "Oxley is a town."),
            Section("History", 2, "It is old."),
            Section("Middle ages", 3, "A mill \u00e9."),
            Section("Sports", 2, "Chess."),
        ),
        ("Chess", "River Elm"),
    )


def test_section_comes_with_its_subsections(store: PageStore) -> None:
    page = only_section(store.by_title("Oxley"), " history ")
    assert [section.heading for section in page.sections] == ["History", "Middle ages"]
    assert [section.heading for section in only_section(store.by_title("Oxley"), "Sports").sections] == ["Sports"]
    with pytest.raises(KeyError):
        only_section(page, "Sports")


def test_page_is_found_by_id_and_by_passage(store: PageStore) -> None:
    assert store.by_id("2").title == "River Elm"
    assert store.of_passage(Passage("p", "River Elm", "A river.")).id == "2"
    with pytest.raises(KeyError):
        store.by_id("5")


@pytest.mark.parametrize(
    ("title", "page_id"),
    [
        ("Red", "4"),
        ("RED", "3"),
        ("red", "3"),
        ("river_elm", "2"),
        ("Elm (river)", "2"),
        ("the elm", "2"),
        ("oxley", "1"),
    ],
)
def test_spelling_and_redirects_lead_to_one_page(store: PageStore, title: str, page_id: str) -> None:
    assert store.by_title(title).id == page_id


@pytest.mark.parametrize("title", ["Loop", "Nowhere", "unknown", "", "\ud800"])
def test_title_that_leads_nowhere_is_a_key_error(store: PageStore, title: str) -> None:
    with pytest.raises(KeyError):
        store.by_title(title)


def test_second_opening_reads_no_page(store: PageStore, tmp_path: Path) -> None:
    tables = tmp_path / "pages.jsonl.ssp-index" / "pages"
    before = (tables / "manifest.json").stat().st_mtime_ns
    open_pages(tmp_path / "pages.jsonl", redirects=tmp_path / "redirects.jsonl")
    assert (tables / "manifest.json").stat().st_mtime_ns == before


def test_changed_file_is_read_anew(store: PageStore, tmp_path: Path) -> None:
    write(tmp_path / "pages.jsonl", [{**OXLEY, "title": "Marlow"}])
    assert open_pages(tmp_path / "pages.jsonl").by_title("Marlow").id == "1"


def test_change_under_an_open_store_is_an_error(store: PageStore, tmp_path: Path) -> None:
    with open(tmp_path / "pages.jsonl", "r+b") as handle:
        handle.write(b"garbage" * 20)
    with pytest.raises(CorpusError, match="as when opened"):
        store.by_title("Oxley")


def test_half_written_table_is_built_anew(store: PageStore, tmp_path: Path) -> None:
    os.remove(tmp_path / "pages.jsonl.ssp-index" / "pages" / "keys.npy")
    assert open_pages(tmp_path / "pages.jsonl").by_title("Oxley").id == "1"


def test_packed_pages_and_redirects_read_like_plain_ones(store: PageStore, tmp_path: Path) -> None:
    files = [tmp_path / "pages.jsonl", tmp_path / "redirects.jsonl"]
    packed = [file.with_name(f"{file.name}.gz") for file in files]
    for plain, file in zip(files, packed, strict=True):
        file.write_bytes(gzip.compress(plain.read_bytes()))
    assert open_pages(packed[0], redirects=packed[1]).by_title("The Elm") == store.by_title("The Elm")


def test_pickled_store_opens_the_files_again(store: PageStore) -> None:
    assert pickle.loads(pickle.dumps(store)).by_title("The Elm").id == "2"


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{", "one JSON object"),
        ("[1]", "a JSON object"),
        ('{"id": "", "title": "T", "sections": [{"heading": "", "level": 1, "text": ""}]}', "'id'"),
        ('{"id": "9", "title": " ", "sections": [{"heading": "", "level": 1, "text": ""}]}', "'title'"),
        ('{"id": "9", "title": "T", "sections": []}', "'sections'"),
        ('{"id": "9", "title": "T", "sections": ["text"]}', r"'sections\[0\]' of a page, got 'text'"),
        (
            '{"id": "9", "title": "T", "sections": [{"heading": "", "level": "1", "text": ""}]}',
            "'sections.0..level'",
        ),
        ('{"id": "9", "title": "T", "sections": [{"heading": "", "level": 1, "text": ""}], "links": "x"}', "'links'"),
    ],
)
def test_malformed_row_is_named_by_file_and_line(tmp_path: Path, line: str, problem: str) -> None:
    path = write(tmp_path / "pages.jsonl", ROWS)
    path.write_text(f"{path.read_text()}\n{line}\n")
    with pytest.raises(CorpusError, match=rf"pages\.jsonl:6: .*{problem}"):
        open_pages(path)


def test_bad_utf8_is_named_by_file_and_line(tmp_path: Path) -> None:
    path = tmp_path / "pages.jsonl"
    path.write_bytes(json.dumps(OXLEY).encode() + b'\n{"id": "9\xff"}\n')
    with pytest.raises(CorpusError, match=r"pages\.jsonl:2: "):
        open_pages(path)


def test_malformed_redirect_is_named_by_file_and_line(tmp_path: Path) -> None:
    pages, redirects = write(tmp_path / "pages.jsonl", ROWS), write(tmp_path / "r.jsonl", [{"title": "x"}])
    with pytest.raises(CorpusError, match=r"r\.jsonl:1: .*'target'"):
        open_pages(pages, redirects=redirects)


def test_repeated_id_missing_file_and_empty_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="unique page ids"):
        open_pages(write(tmp_path / "twice.jsonl", [OXLEY, OXLEY]))
    with pytest.raises(CorpusError, match="check the path"):
        open_pages(tmp_path / "none.jsonl")
    with pytest.raises(CorpusError, match="at least one page"):
        open_pages(write(tmp_path / "empty.jsonl", []))


def test_real_pages_open_by_title(data_dir: Path, tmp_path: Path) -> None:
    source = (data_dir / "pages_kilt99.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in source]
    pages = [
        {
            "id": n,
            "title": row["title"],
            "sections": [{"heading": "", "level": 1, "text": "\n".join(row["paragraphs"])}],
        }
        for n, row in enumerate(rows)
    ]
    store = open_pages(write(tmp_path / "pages.jsonl", pages))
    assert [store.by_title(row["title"]).sections[0].text for row in rows] == ["\n".join(r["paragraphs"]) for r in rows]
