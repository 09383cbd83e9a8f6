"""Published row formats: ids and cuts of passages stay, KILT's markers become sections."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ssp_env import storage
from ssp_env.build.ingest import parts
from ssp_env.build.ingest.formats import FORMATS, check_format, detect_format
from ssp_env.build.ingest.parts import Item, Page, Row
from ssp_env.corpus import Section
from ssp_env.errors import CorpusError
from tests.build.ingest.samples import write_rows


def items_of(path: Path) -> list[Item]:
    known = FORMATS[detect_format(path)]
    return [item for chunk in known.plan(path) for item in known.read(chunk)]


def test_neighbouring_passages_with_one_title_make_a_page(tmp_path: Path) -> None:
    contents = [("0", "A"), ("1", "A"), ("2", "B"), ("3", "A")]
    rows = [{"id": n, "contents": f'"{title}"\nText {n}.'} for n, title in contents]
    pages = items_of(write_rows(tmp_path / "s.jsonl", rows))
    assert [(p.title, [row.id for row in p.rows]) for p in pages if isinstance(p, Page)] == [
        ("A", ["0", "1"]),
        ("B", ["2"]),
        ("A", ["3"]),
    ]
    assert pages[0] == Page(
        "0", "A", (Section("", 1, "Text 0.\nText 1."),), rows=(Row("0", "Text 0."), Row("1", "Text 1."))
    )


@pytest.mark.parametrize("chunk", [1, 100, 1 << 19])
def test_cutting_a_file_into_chunks_never_cuts_a_page(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MIN_CHUNK_BYTES", chunk)
    monkeypatch.setattr(storage, "BLOCK_BYTES", 77)
    rows = [{"id": n, "title": f"T{n // 3}", "text": f"Text {n}."} for n in range(60)]
    pages = items_of(write_rows(tmp_path / "s.jsonl", rows))
    if chunk > 1:
        assert [len(p.rows) for p in pages if isinstance(p, Page)] == [3] * 20
    assert [row.id for p in pages if isinstance(p, Page) for row in p.rows] == [str(n) for n in range(60)]


def test_dpr_rows_have_doubled_quotes_and_a_header(tmp_path: Path) -> None:
    path = tmp_path / "w.tsv"
    path.write_text('id\ttext\ttitle\n1\t"The ""A"" Team, x."\tA Team\n2\tMore.\tA Team\n')
    assert items_of(path) == [
        Page(
            "1",
            "A Team",
            (Section("", 1, 'The "A" Team, x.\nMore.'),),
            rows=(Row("1", 'The "A" Team, x.'), Row("2", "More.")),
        )
    ]


def test_kilt_markers_become_sections_and_anchors_links(tmp_path: Path) -> None:
    text = [
        "A\n",
        "Lead.\n",
        "Section::::History.\n",
        "BULLET::::- item;\n",
        "Section::::History.:Early days.\n",
        "x\n",
    ]
    row = {
        "wikipedia_id": "9",
        "wikipedia_title": "A",
        "text": text,
        "anchors": [{"wikipedia_title": "B"}, {"text": "c"}],
    }
    assert items_of(write_rows(tmp_path / "k.jsonl", [row])) == [
        Page("9", "A", (Section("", 1, "Lead."), Section("History", 2, "item;"), Section("Early days", 3, "x")), ("B",))
    ]


def test_rows_with_an_address_are_whole_pages(tmp_path: Path) -> None:
    row = {"id": "1", "url": "u", "title": "A", "text": "One\nline.\n\nTwo."}
    path = write_rows(tmp_path / "p.jsonl", [row])
    assert detect_format(path) == "pages"
    assert items_of(path) == [Page("1", "A", (Section("", 1, "One line.\nTwo."),))]


def test_formats_are_named_with_the_closest_one_suggested() -> None:
    with pytest.raises(Exception, match="did you mean 'parquet'"):
        check_format("parket")


def test_a_byte_order_mark_is_no_part_of_the_first_row(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps({"id": 1, "title": "A", "text": "x"}).encode())
    assert [page.id for page in items_of(path) if isinstance(page, Page)] == ["1"]


@pytest.mark.parametrize(
    ("name", "format_name", "n_pages"),
    [
        ("pages_kilt99.jsonl", "kilt", 99),
        ("raw/r1-searcher/filtered_kilt_sample_100.jsonl", "kilt", 99),
        ("raw/search-r1/corpus.jsonl", "jsonl", 9),
        ("raw/flashrag/sample_data.jsonl", "jsonl", None),
        ("passages_nq.jsonl", "jsonl", None),
    ],
)
def test_real_files_are_recognised_and_read_whole(
    name: str, format_name: str, n_pages: int | None, data_dir: Path
) -> None:
    path = data_dir / name
    assert detect_format(path) == format_name
    pages = [item for item in items_of(path) if isinstance(item, Page)]
    assert n_pages is None or len(pages) == n_pages
    if format_name == "jsonl":
        ids = [str(json.loads(line)["id"]) for line in path.read_text(encoding="utf-8").splitlines()]
        assert [row.id for page in pages for row in page.rows] == ids
    else:
        assert not [page for page in pages for s in page.sections if "::::" in s.text + s.heading]


def test_a_question_file_is_refused_with_its_columns(data_dir: Path) -> None:
    with pytest.raises(CorpusError, match="golden_answers"):
        detect_format(data_dir / "raw" / "flashrag" / "nq_test_17.jsonl")
