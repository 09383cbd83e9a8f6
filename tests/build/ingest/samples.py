"""Small sources made on the spot: dumps with any layout of bzip2 streams, and rows."""

from __future__ import annotations

import bz2
import json
import random
from collections.abc import Sequence
from html import escape
from pathlib import Path

HEAD = '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" xml:lang="en">\n  <siteinfo></siteinfo>\n'
FOOT = "</mediawiki>\n"
WORDS = "river stone bright Paris walked under seven old maps carry winter glass orchard naïve 東京 engine".split()


def page_xml(number: int, text: str, *, title: str | None = None, ns: int = 0, extra: str = "") -> str:
    """Return a page of a dump."""
    name = escape(f"Page {number}" if title is None else title)
    return (
        f"  <page>\n    <title>{name}</title>\n    <ns>{ns}</ns>\n    <id>{number}</id>\n{extra}    <revision>\n"
        f'      <id>9{number}</id>\n      <text xml:space="preserve">{escape(text)}</text>\n'
        "    </revision>\n  </page>\n"
    )


def prose(number: int, n_sentences: int = 30) -> str:
    """Return wikitext of an article, always the same for a number."""
    rng = random.Random(number)

    def sentence() -> str:
        return " ".join(rng.choices(WORDS, k=rng.randint(4, 16))).capitalize() + "."

    lead = f"'''Page {number}''' is a [[page]].<ref>x</ref> " + " ".join(sentence() for _ in range(n_sentences))
    return f"{{{{Infobox|a=b}}}}\n{lead}\n\n== History ==\n{sentence()} See [[Page {number + 1}|the next]].\n"


def dump_xml(n_pages: int = 40) -> str:
    """Return a whole dump with articles, redirects and a talk page."""
    pages = [page_xml(n, prose(n)) for n in range(1, n_pages + 1)]
    pages.append(page_xml(5001, "#REDIRECT [[Page 1]]", title="Old name", extra='    <redirect title="Page 1" />\n'))
    pages.append(page_xml(5002, "talk", title="Talk:Page 1", ns=1))
    return HEAD + "".join(pages) + FOOT


def multistream(xml: str, pages_a_stream: int = 5) -> bytes:
    """Return a dump packed as Wikimedia does: the head, then some pages a stream, then the foot."""
    head, *pages = xml.split("  <page>")
    last, foot = pages[-1].rsplit("</mediawiki>", 1)
    pages = ["  <page>" + page for page in [*pages[:-1], last]]
    parts = ["".join(pages[n : n + pages_a_stream]) for n in range(0, len(pages), pages_a_stream)]
    return b"".join(bz2.compress(part.encode()) for part in [head, *parts, "</mediawiki>" + foot])


def cut_anywhere(xml: str, n_bytes: int) -> bytes:
    """Return a dump packed as parallel compressors do: a stream for every so many bytes."""
    data = xml.encode()
    return b"".join(bz2.compress(data[n : n + n_bytes]) for n in range(0, len(data), n_bytes))


def write_rows(path: Path, rows: Sequence[object]) -> Path:
    """Write rows as JSON Lines; bytes are lines as they are."""
    lines = [row if isinstance(row, bytes) else json.dumps(row, ensure_ascii=False).encode() for row in rows]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path
