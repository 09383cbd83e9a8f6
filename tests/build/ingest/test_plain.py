"""Folders of text and Parquet files."""

from __future__ import annotations

from pathlib import Path

import pytest

from ssp_env.build.ingest import plain
from ssp_env.build.ingest.formats import detect_format
from ssp_env.build.ingest.parts import Page
from ssp_env.corpus import Section


def test_a_folder_gives_a_page_a_file_in_sorted_order(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "b.txt").write_text("Second.")
    (tmp_path / "a.md").write_text("\ufeffFirst\nline.\r\n\r\nNext.", encoding="utf-8")
    (tmp_path / "c.jpg").write_bytes(b"\xff")
    assert detect_format(tmp_path) == "text"
    assert [item for chunk in plain.plan_folder(tmp_path) for item in plain.read_folder(chunk)] == [
        Page("a.md", "a", (Section("", 1, "First line.\nNext."),)),
        Page("sub/b.txt", "b", (Section("", 1, "Second."),)),
    ]


def test_parquet_row_groups_are_read_one_by_one(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "p.parquet"
    n = 10
    columns = {name: [f"{name} {i}" for i in range(n)] for name in ("url", "text", "title")}
    parquet.write_table(pa.table({"id": list(range(n)), **columns}), path, row_group_size=4)
    assert detect_format(path) == "parquet"
    chunks = list(plain.plan_parquet(path))
    assert len(chunks) == 3 and sum(chunk.n_bytes for chunk in chunks) == path.stat().st_size
    pages = [item for chunk in chunks for item in plain.read_parquet(chunk)]
    assert pages == [Page(str(i), f"title {i}", (Section("", 1, f"text {i}"),)) for i in range(n)]
