"""Plain text pages: a folder of ``.txt`` and ``.md`` files, and the text column of Parquet files.

Empty lines separate paragraphs; a file's name is its title and its path in the folder its id. Markup is not read.
Parquet needs ``pyarrow`` (extra ``ingest``) and the columns ``id``, ``title`` and ``text`` (``wikimedia/wikipedia``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ssp_env.build.ingest.parts import MAX_LINE_BYTES, Chunk, Format, Item, Skip, chunk_bytes, text_page
from ssp_env.errors import CorpusError, needs

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

SUFFIXES = (".md", ".txt")
COLUMNS = ("id", "title", "text")
BATCH_ROWS = 256


def plan_folder(path: Path) -> Iterator[Chunk]:
    """Yield chunks of file names, sorted."""
    names = sorted(file.relative_to(path).as_posix() for file in path.rglob("*") if file.suffix in SUFFIXES)
    if not names:
        raise CorpusError(f"expected {' or '.join(SUFFIXES)} files in {path}, got none; name data files one by one")
    held: list[str] = []
    n_held = 0
    wanted = chunk_bytes(0)
    for name in names:
        held.append(name)
        n_held += (path / name).stat().st_size
        if n_held >= wanted:
            yield Chunk(path, n_held, json.dumps(held).encode())
            held, n_held = [], 0
    if held:
        yield Chunk(path, n_held, json.dumps(held).encode())


def read_folder(chunk: Chunk) -> Iterator[Item]:
    """Yield a page for each file of a chunk."""
    for name in json.loads(chunk.data or b"[]"):
        file = chunk.path / name
        try:
            if file.stat().st_size > MAX_LINE_BYTES:
                yield Skip(f"file larger than {MAX_LINE_BYTES >> 20} MiB", what=name)
                continue
            text = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            yield Skip("file is not UTF-8", what=f"{name}: {error}")
            continue
        except OSError as error:
            raise CorpusError(
                f"expected a readable file, got {error.strerror!r} for {str(file)!r}; check it"
            ) from error
        if text.strip():
            yield text_page(name, file.stem, text)
        else:
            yield Skip("file without text", what=name)


def plan_parquet(path: Path) -> Iterator[Chunk]:
    """Yield a chunk for each row group."""
    with _opened(path) as file:
        missing = [name for name in COLUMNS if name not in file.schema_arrow.names]
        if missing:
            got = sorted(file.schema_arrow.names)
            raise CorpusError(f"expected the columns {COLUMNS!r} in {path}, got {got!r}; rename them")
        n_groups = file.num_row_groups
    size = path.stat().st_size
    for group in range(n_groups):
        n_bytes = size * (group + 1) // n_groups - size * group // n_groups
        yield Chunk(path, n_bytes, start=group, end=group + 1)


def read_parquet(chunk: Chunk) -> Iterator[Item]:
    """Yield a page for each row of a row group."""
    from pyarrow import ArrowException

    with _opened(chunk.path) as file:
        try:
            for batch in file.iter_batches(BATCH_ROWS, row_groups=[chunk.start], columns=list(COLUMNS)):
                for row in batch.to_pylist():
                    yield _row_page(row, chunk.start)
        except (ArrowException, OSError) as error:
            message = f"expected readable rows, got {error} in row group {chunk.start} of {chunk.path}; get it anew"
            raise CorpusError(message) from error


def _row_page(row: dict[str, object], group: int) -> Item:
    page_id, title, text = (row[name] for name in COLUMNS)
    what = f"row group {group}, id {page_id!r}"
    if isinstance(page_id, int):
        page_id = str(page_id)
    if not isinstance(page_id, str) or not page_id.strip():
        return Skip("row without an id", what=what)
    if not isinstance(title, str) or not title.strip():
        return Skip("row without a title", what=what)
    if not isinstance(text, str) or not text.strip():
        return Skip("row with empty text", what=what)
    return text_page(page_id, title.strip(), text)


def _opened(path: Path) -> ParquetFile:
    with needs("pyarrow", extra="ingest", use="a Parquet file"):
        from pyarrow import ArrowException
        from pyarrow.parquet import ParquetFile
    try:
        return ParquetFile(path)
    except (ArrowException, OSError) as error:
        raise CorpusError(f"expected a Parquet file, got {error} for {str(path)!r}; get it anew") from error


FOLDER = Format("a folder of plain text files (.txt, .md)", plan_folder, read_folder)
PARQUET = Format("Parquet with the columns id, title, text (wikimedia/wikipedia)", plan_parquet, read_parquet)
