"""Sources with a record a line: passages (Search-R1, FlashRAG, DPR), whole pages, and KILT.

Passages keep their ids and their cuts; neighbours with the same title make one page for browsing. Whole pages (rows
with a ``url``, as Hugging Face exports Wikipedia, or KILT's paragraph lists) are cut later. A row that cannot be used
is skipped and counted with its line.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeAlias

from ssp_env.build.ingest.parts import (
    MAX_LINE_BYTES,
    OVERLONG,
    Chunk,
    Format,
    Item,
    Page,
    Row,
    Skip,
    lines,
    text_page,
)
from ssp_env.errors import CorpusError
from ssp_env.text import split_contents
from ssp_env.types import Section

Fields: TypeAlias = tuple[str, str, str]
"""Id, title, text."""
JSON_PASSAGES, JSON_PAGES, KILT_PAGES, TSV_PASSAGES = "jsonl", "pages", "kilt", "tsv"
TSV_HEADER = ("id", "text", "title")
_HEADER = "header"


class _Unusable(ValueError):
    """Why a row is skipped."""


def _require(is_usable: bool, why_not: str) -> None:
    if not is_usable:
        raise _Unusable(why_not)


def sniff_row(path: Path, line: bytes) -> str:
    """Return the name of the format of a JSON row."""
    try:
        row = _object(line)
    except _Unusable as error:
        raise CorpusError(
            f"{path}:1: expected a row of JSON Lines, got {_short(line)} ({error}); fix the file"
        ) from error
    keys = set(row)
    if {"wikipedia_title", "text"} <= keys or {"title", "paragraphs"} <= keys:
        return KILT_PAGES
    if {"title", "text", "url"} <= keys:
        return JSON_PAGES
    if {"id", "contents"} <= keys or {"id", "title", "text"} <= keys:
        return JSON_PASSAGES
    wanted = "'id' with 'contents' or with 'title' and 'text'; or KILT's 'wikipedia_title' and 'text'"
    raise CorpusError(f"{path}:1: expected the columns {wanted}, got {sorted(keys)!r}; rename them")


def _plan_tsv(path: Path) -> Iterator[Chunk]:
    with open(path, "rb") as handle:
        cells = tuple(handle.readline(256).strip().decode("utf-8", "replace").split("\t"))
    if cells != TSV_HEADER and sorted(cells) == sorted(TSV_HEADER):
        raise CorpusError(f"{path}:1: expected the columns {TSV_HEADER!r} in this order, got {cells!r}; reorder them")
    return lines(path, _same_group(_tsv_fields))


def _same_group(fields: Callable[[bytes], Fields]) -> Callable[[bytes, bytes], bool]:
    def same(line: bytes, other: bytes) -> bool:
        try:
            title = fields(line)[1]
            return bool(title) and title == fields(other)[1]
        except _Unusable:
            return False

    return same


def _grouped(chunk: Chunk, fields: Callable[[bytes], Fields]) -> Iterator[Item]:
    """Yield pages made of the rows that follow each other under one title."""
    title, rows = "", list[Row]()
    for number, line in _lines(chunk):
        try:
            row_id, row_title, text = fields(line)
        except _Unusable as error:
            if not (chunk.first_line == number == 1 and str(error) == _HEADER):
                yield Skip(str(error), number, _short(line))
            continue
        if rows and (row_title != title or not title):
            yield _page_of(title, rows)
            rows = []
        title = row_title
        rows.append(Row(row_id, text))
    if rows:
        yield _page_of(title, rows)


def _each(chunk: Chunk, page_of: Callable[[bytes], Page]) -> Iterator[Item]:
    """Yield a page a row."""
    for number, line in _lines(chunk):
        try:
            yield page_of(line)
        except _Unusable as error:
            yield Skip(str(error), number, _short(line))


def _page_of(title: str, rows: list[Row]) -> Page:
    text = "\n".join(row.text for row in rows)
    return Page(rows[0].id, title, (Section("", 1, text),), rows=tuple(rows))


def _lines(chunk: Chunk) -> Iterator[tuple[int, bytes]]:
    """Yield (line number in the file, line) for lines that are not blank."""
    data = chunk.data or b""
    for number, line in enumerate(data.split(b"\n"), start=chunk.first_line):
        if line.strip():
            yield number, line.rstrip(b"\r")


def _json_fields(line: bytes) -> Fields:
    row = _object(line)
    row_id = row.get("id")
    if isinstance(row_id, int) and not isinstance(row_id, bool):
        row_id = str(row_id)
    if "contents" in row and "text" not in row:
        title, text = split_contents(_string(row, "contents"))
    else:
        title, text = _string(row, "title"), _string(row, "text")
    return _checked(row_id, title, text)


def _tsv_fields(line: bytes) -> Fields:
    try:
        cells = next(csv.reader([_text(line)], delimiter="\t"), [])
    except csv.Error as error:
        raise _Unusable("row is not tab-separated text") from error
    _require(len(cells) == len(TSV_HEADER), "row has the wrong number of columns")
    _require(tuple(cells) != TSV_HEADER, _HEADER)
    return _checked(cells[0], cells[2], cells[1])


def _checked(row_id: object, title: str, text: str) -> Fields:
    if not isinstance(row_id, str) or not row_id.strip():
        raise _Unusable("row without an id")
    _require(bool(text.strip()), "row with empty text")
    try:
        f"{row_id}{title}{text}".encode()
    except UnicodeEncodeError as error:
        raise _Unusable("row is not Unicode text") from error
    return row_id, title.strip(), text


def _text(line: bytes) -> str:
    _require(line != OVERLONG and len(line) <= MAX_LINE_BYTES, f"line longer than {MAX_LINE_BYTES >> 20} MiB")
    try:
        return line.removeprefix(b"\xef\xbb\xbf").decode("utf-8")
    except UnicodeDecodeError as error:
        raise _Unusable("row is not UTF-8") from error


def _object(line: bytes) -> dict[str, object]:
    text = _text(line)
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _Unusable("row is not valid JSON") from error
    if not isinstance(row, dict):
        raise _Unusable("row is not a JSON object")
    return row


def _string(row: dict[str, object], name: str) -> str:
    value = row.get(name)
    if not isinstance(value, str):
        raise _Unusable(f"row without a string for {name!r}")
    return value


def _whole_page(line: bytes) -> Page:
    return text_page(*_json_fields(line))


def _kilt_page(line: bytes) -> Page:
    """Return the page of a row; without an id the title is the id."""
    row = _object(line)
    title = _string(row, "wikipedia_title" if "wikipedia_title" in row else "title").strip()
    paragraphs = row.get("text" if "wikipedia_title" in row else "paragraphs")
    if not isinstance(paragraphs, list) or not all(isinstance(p, str) for p in paragraphs):
        raise _Unusable("row without a list of paragraphs")
    page_id = str(row.get("wikipedia_id") or row.get("_id") or title)
    sections = _kilt_sections(title, [p.strip() for p in paragraphs])
    _checked(page_id, title, "".join(section.text for section in sections))
    _require(bool(title), "row without a title")
    return Page(page_id, title, sections, _kilt_links(row))


def _kilt_sections(title: str, paragraphs: list[str]) -> tuple[Section, ...]:
    sections: list[Section] = []
    heading, level, held = "", 1, list[str]()
    for number, paragraph in enumerate(paragraphs):
        if paragraph.startswith("Section::::"):
            sections.append(Section(heading, level, "\n".join(held)))
            path = paragraph.removeprefix("Section::::").rstrip(".").split(".:")
            heading, level, held = path[-1].strip(), len(path) + 1, []
        elif paragraph and not (number == 0 and paragraph == title):
            held.append(" ".join(_without_bullet(paragraph).split()))
    sections.append(Section(heading, level, "\n".join(line for line in held if line)))
    return tuple(sections)


def _without_bullet(paragraph: str) -> str:
    return paragraph.removeprefix("BULLET::::").lstrip("- ") if paragraph.startswith("BULLET::::") else paragraph


def _kilt_links(row: dict[str, object]) -> tuple[str, ...]:
    anchors = row.get("anchors")
    titles = [a.get("wikipedia_title") for a in anchors if isinstance(a, dict)] if isinstance(anchors, list) else []
    return tuple(dict.fromkeys(t for t in titles if isinstance(t, str) and t))


def _short(line: bytes) -> str:
    text = line[:60].decode("utf-8", "replace")
    return text if len(line) <= 60 else f"{text}…"


PASSAGES = Format(
    "JSON Lines of passages: {id, contents} or {id, title, text}",
    partial(lines, same_group=_same_group(_json_fields)),
    partial(_grouped, fields=_json_fields),
)
PAGES = Format("JSON Lines of whole pages: {id, url, title, text}", lines, partial(_each, page_of=_whole_page))
KILT = Format(
    "KILT pages: {wikipedia_title, text: [...]} or {title, paragraphs: [...]}",
    lines,
    partial(_each, page_of=_kilt_page),
)
TSV = Format("DPR tab-separated passages: id, text, title", _plan_tsv, partial(_grouped, fields=_tsv_fields))
