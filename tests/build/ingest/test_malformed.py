"""What is wrong with a source ends in one clear error with its place, or in a counted skip; never half accepted."""

from __future__ import annotations

import bz2
import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from ssp_env.build.ingest import BuildOptions, build_corpus
from ssp_env.corpus import open_corpus
from ssp_env.errors import CorpusError, SSPError, StaleIndexError
from tests.build.ingest.samples import FOOT, HEAD, dump_xml, multistream, page_xml, prose, write_rows

pytest.importorskip("mwparserfromhell")
GOOD = {"id": "good", "title": "Good", "text": "A good row."}
Make = Callable[[Path], object]


def _rows(name: str, *rows: object) -> Make:
    return lambda folder: write_rows(folder / name, rows)


def _bytes(name: str, data: bytes) -> Make:
    return lambda folder: (folder / name).write_bytes(data)


def _pages(*pages: str) -> Make:
    return _bytes("d.xml", (HEAD + page_xml(1, prose(1)) + "".join(pages) + FOOT).encode())


def _parquet(columns: dict[str, list[object]], cut: int | None = None) -> Make:
    def make(folder: Path) -> None:
        pa = pytest.importorskip("pyarrow")
        parquet = pytest.importorskip("pyarrow.parquet")
        path = folder / "s.parquet"
        parquet.write_table(pa.table(columns), path)
        path.write_bytes(path.read_bytes()[:cut])

    return make


def _files(**files: bytes) -> Make:
    def make(folder: Path) -> None:
        (folder / "texts").mkdir()
        for name, data in files.items():
            (folder / "texts" / f"{name}.txt").write_bytes(data)

    return make


PACKED = multistream(dump_xml())
PLAIN = dump_xml().encode()
FLIPPED = bytearray(bz2.compress(PLAIN))
FLIPPED[len(FLIPPED) // 2] ^= 0xFF
TEXTS: dict[str, list[object]] = {"id": ["1"], "url": ["u"], "title": ["T"], "text": ["Some text."]}

ERRORS: dict[str, tuple[Make, str]] = {
    "missing file": (lambda folder: None, r"does not exist"),
    "empty file": (_bytes("s.jsonl", b""), r"empty file .*s\.jsonl"),
    "blank file": (_bytes("s.jsonl", b"\n \n\t\n"), r"only blank space in .*s\.jsonl"),
    "unknown format": (_bytes("s.bin", b"\x89PNG\r\n\x1a\n" + b"x" * 99), r"known format.*s\.bin"),
    "html instead of a file": (_bytes("s.jsonl", b"<!DOCTYPE html><html>404</html>"), r"known format.*DOCTYPE"),
    "git lfs pointer": (_bytes("s.jsonl", b"version https://git-lfs.github.com/spec/v1\n"), r"known format.*git-lfs"),
    "utf-16": (_bytes("s.jsonl", json.dumps(GOOD).encode("utf-16")), r"known format"),
    "json array": (_bytes("s.json", json.dumps([GOOD]).encode()), r"known format"),
    "wrong columns": (_rows("s.jsonl", {"key": "1", "body": "x"}), r"s\.jsonl:1: .*columns.*'body', 'key'"),
    "first row is broken": (_bytes("s.jsonl", b'{"id": "1", \n'), r"s\.jsonl:1: .*not valid JSON"),
    "every row is broken": (
        _rows("s.jsonl", {"id": "1", "title": "T", "text": ""}),
        r"passage from .*s\.jsonl.*row with empty text.*:1:",
    ),
    "truncated gzip": (
        _bytes("s.jsonl.gz", gzip.compress(json.dumps(GOOD).encode() * 99)[:-9]),
        r"whole gzip.*s\.jsonl\.gz",
    ),
    "gzip with a bad sum": (
        _bytes("s.jsonl.gz", gzip.compress(json.dumps(GOOD).encode())[:-8] + b"12345678"),
        r"whole gzip.*s\.jsonl\.gz",
    ),
    "truncated bzip2": (_bytes("d.xml.bz2", bz2.compress(PLAIN)[:-40]), r"whole bzip2.*d\.xml\.bz2"),
    "damaged bzip2": (_bytes("d.xml.bz2", bytes(FLIPPED)), r"whole bzip2.*d\.xml\.bz2"),
    "truncated multistream": (
        _bytes("d.xml.bz2", PACKED[: len(PACKED) * 2 // 3]),
        r"bzip2.*early end after byte \d+ of",
    ),
    "multistream without its last stream": (
        _bytes("d.xml.bz2", PACKED[: PACKED.rfind(b"BZh")]),
        r"</mediawiki>.*d\.xml",
    ),
    "damaged stream": (
        lambda f: (f / "d.xml.bz2").write_bytes(PACKED[:700] + bytes(b ^ 255 for b in PACKED[700:760]) + PACKED[760:]),
        r"bzip2 data.*after byte \d+ of",
    ),
    "dump cut inside a page": (_bytes("d.xml", PLAIN[: len(PLAIN) // 2]), r"</mediawiki> at the end of .*d\.xml"),
    "dump cut between pages": (_bytes("d.xml", PLAIN[: PLAIN.rfind(b"</mediawiki")]), r"</mediawiki> at the end"),
    "dump without pages": (_bytes("d.xml", (HEAD + FOOT).encode()), r"at least one passage.*d\.xml"),
    "dump in latin-1": (
        _bytes("d.xml", (HEAD + page_xml(1, "Café au lait.") + FOOT).encode("latin-1")),
        r"at least one passage.*not well-formed XML.*Page 1",
    ),
    "xml that is no dump": (_bytes("d.xml", b"<?xml version='1.0'?>\n<rss></rss>"), r"</mediawiki>"),
    "other content under a used id": (
        _rows("s.jsonl", GOOD, {**GOOD, "text": "Something else.", "title": "Other"}),
        r"unused id, got 'good' of s\.jsonl.*keep-first",
    ),
    "tsv with columns swapped": (_bytes("s.tsv", b"id\ttitle\ttext\n1\tT\tSome text.\n"), r"s\.tsv:1: .*this order"),
    "tsv with two columns": (_bytes("s.tsv", b"1\tSome text.\n"), r"known format.*s\.tsv"),
    "parquet with wrong columns": (_parquet({"id": ["1"], "content": ["x"]}), r"columns.*got \['content', 'id'\]"),
    "truncated parquet": (_parquet(TEXTS, cut=-20), r"Parquet file.*s\.parquet"),
    "folder without texts": (lambda folder: (folder / "texts").mkdir(), r"\.txt files in .*texts"),
    "truncated zstd": (_bytes("s.jsonl.zst", b"\x28\xb5\x2f\xfd\x04\x58"), r"whole zstd.*s\.jsonl\.zst"),
}

SKIPS: dict[str, tuple[Make, str, str]] = {
    "broken json": (_rows("s.jsonl", GOOD, b'{"id": "2", "tit'), "row is not valid JSON", "s.jsonl:2:"),
    "deep json": (_rows("s.jsonl", GOOD, b"[" * 100_000), "row is not valid JSON", "s.jsonl:2:"),
    "json that is no object": (_rows("s.jsonl", GOOD, ["2", "T", "x"]), "row is not a JSON object", "s.jsonl:2:"),
    "bad utf-8": (_rows("s.jsonl", GOOD, b'{"id": "2", "title": "T", "text": "\xff\xfe"}'), "row is not UTF-8", ":2:"),
    "lone surrogate": (
        _rows("s.jsonl", GOOD, b'{"id": "2", "title": "T", "text": "a \\ud800 b"}'),
        "row is not Unicode text",
        "s.jsonl:2:",
    ),
    "empty text": (_rows("s.jsonl", GOOD, {"id": "2", "title": "T", "text": " \n"}), "row with empty text", ":2:"),
    "no id": (_rows("s.jsonl", GOOD, {"title": "T", "text": "x"}), "row without an id", "s.jsonl:2:"),
    "null id": (_rows("s.jsonl", GOOD, {"id": None, "title": "T", "text": "x"}), "row without an id", "s.jsonl:2:"),
    "text is a number": (
        _rows("s.jsonl", GOOD, {"id": "2", "title": "T", "text": 7}),
        "row without a string for 'text'",
        ":2:",
    ),
    "no title": (_rows("s.jsonl", GOOD, {"id": "2", "text": "x"}), "row without a string for 'title'", "s.jsonl:2:"),
    "a line of 50 MB": (
        _rows("s.jsonl", GOOD, b'{"id": "2", "title": "T", "text": "' + b"x" * 50_000_000 + b'"}', {**GOOD, "id": "3"}),
        "line longer than 16 MiB",
        "s.jsonl:2:",
    ),
    "tsv with a missing cell": (
        _bytes("s.tsv", b"id\ttext\ttitle\n1\tSome text.\tT\n2\tSome text.\n"),
        "row has the wrong number of columns",
        "s.tsv:3:",
    ),
    "kilt text as a string": (
        _rows("k.jsonl", {"wikipedia_title": "T", "text": ["A."]}, {"wikipedia_title": "U", "text": "B."}),
        "row without a list of paragraphs",
        "k.jsonl:2:",
    ),
    "kilt page with a title only": (
        _rows("k.jsonl", {"wikipedia_title": "T", "text": ["T", "A."]}, {"wikipedia_title": "U", "text": ["U"]}),
        "row with empty text",
        "k.jsonl:2:",
    ),
    "page that is not XML": (
        _pages(page_xml(2, prose(2)).replace("<ns>", "<ns><b>")),
        "page is not well-formed XML",
        "'Page 2'",
    ),
    "control character in XML": (_pages(page_xml(2, "a\x01b")), "page is not well-formed XML", "'Page 2'"),
    "page without an id": (
        _pages(page_xml(2, "x").replace("<id>2</id>", "")),
        "page lacks title, id or revision",
        "Page 2",
    ),
    "page without a title": (_pages(page_xml(2, "x", title="")), "page lacks title, id or revision", "page 2"),
    "page with a bad id": (
        _pages(page_xml(2, "x").replace("<id>2</id>", "<id/>")),
        "page lacks title, id or revision",
        "Page 2",
    ),
    "page without a revision": (
        _pages("  <page><title>T</title><ns>0</ns><id>2</id></page>\n"),
        "page lacks title, id or revision",
        "page 2 'T'",
    ),
    "page without text": (_pages(page_xml(2, "  ")), "page without text", "page 2"),
    "page of templates": (_pages(page_xml(2, "{{Infobox|a=b}}\n[[Category:X]]")), "page without prose", "page 2"),
    "script page": (
        _pages(page_xml(2, "x").replace("<text", "<model>css</model><text")),
        "page is not wikitext",
        "page 2",
    ),
    "the same page twice": (_pages(page_xml(1, prose(1))), "", ""),
    "parquet with an empty text": (
        _parquet({"id": ["1", "2"], "title": ["T", "U"], "text": ["Some text.", ""]}),
        "row with empty text",
        "id '2'",
    ),
    "parquet with a null title": (
        _parquet({"id": ["1", "2"], "title": ["T", None], "text": ["Some text.", "x"]}),
        "row without a title",
        "id '2'",
    ),
    "text file that is not UTF-8": (_files(a=b"Some text.", b=b"\xff\xfe\x00"), "file is not UTF-8", "b.txt"),
    "empty text file": (_files(a=b"Some text.", b=b" \n"), "file without text", "b.txt"),
}


def _source(folder: Path) -> Path:
    return next(iter(folder.iterdir()), folder / "missing.jsonl")


@pytest.mark.parametrize("name", ERRORS)
def test_a_broken_source_is_one_error_with_its_place_and_leaves_no_corpus(name: str, tmp_path: Path) -> None:
    make, message = ERRORS[name]
    sources = tmp_path / "sources"
    sources.mkdir()
    make(sources)
    if name == "truncated zstd":
        pytest.importorskip("zstandard")
    with pytest.raises(CorpusError, match=message):
        build_corpus([_source(sources)], tmp_path / "corpus", options=BuildOptions(n_workers=0))
    assert not (tmp_path / "corpus").exists()


@pytest.mark.parametrize("name", SKIPS)
def test_an_unusable_row_or_page_is_skipped_counted_and_named(name: str, tmp_path: Path) -> None:
    make, reason, place = SKIPS[name]
    sources = tmp_path / "sources"
    sources.mkdir()
    make(sources)
    out = tmp_path / "corpus"
    report = build_corpus([_source(sources)], out, options=BuildOptions(n_workers=0))
    skipped, counts = report["skipped"], report["counts"]
    assert isinstance(skipped, dict) and isinstance(counts, dict)
    if reason:
        assert skipped[reason]["count"] == 1
        assert place in skipped[reason]["examples"][0]
    else:
        assert report["duplicates"] == {"same as one before": 1}
    assert len(open_corpus([out / "passages.jsonl"])) == counts["passages"] > 0


def test_there_are_thirty_kinds_and_more() -> None:
    assert len(ERRORS) + len(SKIPS) >= 30


def test_a_row_after_an_overlong_line_is_read(tmp_path: Path) -> None:
    make, _, _ = SKIPS["a line of 50 MB"]
    make(tmp_path)
    report = build_corpus([tmp_path / "s.jsonl"], tmp_path / "corpus", options=BuildOptions(n_workers=0))
    assert report["counts"] == {"pages": 2, "passages": 2, "words": 6, "redirects": 0, "disambiguations": 0}


def test_an_output_folder_with_other_content_is_refused_and_kept(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "s.jsonl", [GOOD])
    out = tmp_path / "thesis"
    out.mkdir()
    (out / "chapter.txt").write_text("years of work")
    with pytest.raises(StaleIndexError, match="other content"):
        build_corpus([source], out, options=BuildOptions(n_workers=0, rebuild=True))
    assert (out / "chapter.txt").read_text() == "years of work"


def test_a_damaged_corpus_is_not_taken_for_a_whole_one(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "s.jsonl", [GOOD])
    build_corpus([source], tmp_path / "corpus", options=BuildOptions(n_workers=0))
    with open(tmp_path / "corpus" / "passages.jsonl", "r+b") as handle:
        handle.truncate(10)
    with pytest.raises(SSPError, match="complete corpus"):
        build_corpus([source], tmp_path / "corpus", options=BuildOptions(n_workers=0))


def test_the_first_of_two_clashing_pages_stays_on_request(tmp_path: Path) -> None:
    source = write_rows(tmp_path / "s.jsonl", [GOOD, {**GOOD, "text": "Something else.", "title": "Other"}])
    options = BuildOptions(n_workers=0, on_clash="keep-first")
    report = build_corpus([source], tmp_path / "corpus", options=options)
    assert report["duplicates"] == {"other content under a used id": 1}
    assert open_corpus([tmp_path / "corpus" / "passages.jsonl"]).get("good").text == "A good row."
