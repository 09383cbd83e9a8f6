"""The formats a corpus is built from, and how a source's format is told from its content."""

from __future__ import annotations

from difflib import get_close_matches
from pathlib import Path

from ssp_env.build.ingest import dump, plain, row_files, zim
from ssp_env.build.ingest.parts import MAX_LINE_BYTES, Format, blocks, head
from ssp_env.errors import ConfigError, CorpusError

FORMATS: dict[str, Format] = {
    "dump": dump.DUMP,
    row_files.JSON_PASSAGES: row_files.PASSAGES,
    row_files.JSON_PAGES: row_files.PAGES,
    row_files.KILT_PAGES: row_files.KILT,
    row_files.TSV_PASSAGES: row_files.TSV,
    "parquet": plain.PARQUET,
    "text": plain.FOLDER,
    "zim": zim.ZIM,
}


def check_format(name: str) -> str:
    """Return the name if it is one of ``FORMATS``."""
    if name not in FORMATS:
        close = get_close_matches(name, FORMATS, n=1)
        hint = f"did you mean {close[0]!r}?" if close else "choose one of them"
        raise ConfigError(f"expected a format of {sorted(FORMATS)}, got {name!r}; {hint}")
    return name


def detect_format(path: Path) -> str:
    """Return the name of a source's format, told from its content."""
    if path.is_dir():
        return "text"
    magic = head(path)
    if not magic:
        raise CorpusError(f"expected a source with content, got the empty file {path}; get it anew")
    if magic == b"PAR1":
        return "parquet"
    if magic == b"ZIM\x04":
        return "zim"
    line = _first_line(path)
    if line.startswith((b"<mediawiki", b"<?xml")):
        return "dump"
    if line.startswith(b"{"):
        return row_files.sniff_row(path, line)
    if line.count(b"\t") == len(row_files.TSV_HEADER) - 1:
        return row_files.TSV_PASSAGES
    known = "; ".join(f"{name}: {known.describes}" for name, known in FORMATS.items())
    start = line[:60].decode("utf-8", "replace")
    raise CorpusError(f"expected a known format, got {path} that starts with {start!r}; name one of these: {known}")


def _first_line(path: Path) -> bytes:
    """Return the first line that is not blank, or the start of one that is too long."""
    held = b""
    for piece, _ in blocks(path):
        held = (held + piece).removeprefix(b"\xef\xbb\xbf").lstrip()
        if b"\n" in held or len(held) > MAX_LINE_BYTES:
            break
    if not held:
        raise CorpusError(f"expected a source with content, got only blank space in {path}; get it anew")
    return held.partition(b"\n")[0].rstrip(b"\r")
