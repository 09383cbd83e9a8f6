"""Building: the same bytes for any number of workers and after any interruption, in memory that does not grow."""

from __future__ import annotations

import io
import json
import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mwparserfromhell")

from ssp_env.build.ingest import BuildOptions, build_corpus, parts  # noqa: E402
from ssp_env.corpus import (
    open_corpus,  # noqa: E402
    open_pages,  # noqa: E402
)
from ssp_env.errors import ConfigError, CorpusError, StaleIndexError  # noqa: E402
from tests.build.ingest.samples import cut_anywhere, dump_xml, multistream, write_rows  # noqa: E402

HERE = BuildOptions(n_workers=0)
FILES = ("passages.jsonl", "pages.jsonl", "redirects.jsonl")
BUILD = [sys.executable, "-m", "ssp_env", "corpus", "build"]
MEASURE = """
import re, resource, sys
from pathlib import Path
from ssp_env.build.ingest import BuildOptions, build_corpus
if __name__ == "__main__":
    build_corpus([Path(sys.argv[1])], Path(sys.argv[2]), options=BuildOptions(n_workers=1))
    print(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "d.xml.bz2"
    path.write_bytes(multistream(dump_xml()))
    return path


def content(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_the_files_open_as_corpus_and_pages(source: Path, tmp_path: Path) -> None:
    report = build_corpus([source], tmp_path / "c", options=HERE)
    corpus = open_corpus([tmp_path / "c" / "passages.jsonl"])
    assert report["counts"] == {
        "pages": 40,
        "passages": len(corpus),
        "redirects": 1,
        "disambiguations": 0,
        "words": sum(len(corpus.at(n).text.split()) for n in range(len(corpus))),
    }
    lines = (tmp_path / "c" / "passages.jsonl").read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["id"] for row in rows[:2]] == ["1-0", "1-1"]
    assert {row["section"] for row in rows} == {"", "History"}
    assert all(row["id"].rpartition("-")[0] == row["page_id"] for row in rows)
    pages = open_pages(tmp_path / "c" / "pages.jsonl", redirects=tmp_path / "c" / "redirects.jsonl")
    assert pages.by_title("old name").title == "Page 1"
    assert pages.of_passage(corpus.get("7-0")).id == "7"


def test_any_number_of_workers_gives_the_same_bytes(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "MIN_CHUNK_BYTES", 4000)
    for n_workers in (0, 1, 3):
        build_corpus([source], tmp_path / str(n_workers), options=BuildOptions(n_workers=n_workers))
    assert content(tmp_path / "0") == content(tmp_path / "1") == content(tmp_path / "3")
    assert sorted(path.name for path in tmp_path.iterdir() if path.is_dir()) == ["0", "1", "3"]


def test_packing_changes_no_passage(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    build_corpus([source], tmp_path / "a", options=HERE)
    monkeypatch.setattr(parts, "MIN_CHUNK_BYTES", 3000)
    source.write_bytes(cut_anywhere(dump_xml(), 777))
    build_corpus([source], tmp_path / "b", options=HERE)
    a, b = content(tmp_path / "a"), content(tmp_path / "b")
    assert [a[name] for name in FILES] == [b[name] for name in FILES]


def test_a_killed_build_goes_on_where_it_was_and_its_workers_end(tmp_path: Path) -> None:
    rows = [{"id": n, "title": f"T{n // 3}", "text": f"Text {n} " + "word " * 90} for n in range(20_000)]
    path = write_rows(tmp_path / "s.jsonl", rows)
    build_corpus([path], tmp_path / "whole", options=HERE)
    out = tmp_path / "killed"
    shards = tmp_path / ".killed.shards"
    for timeout_s in (1.2, 1.6):
        process = subprocess.Popen([*BUILD, str(path), "--out", str(out)], stdout=subprocess.DEVNULL)
        try:
            process.wait(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            watched = [os.pidfd_open(int(child)) for child in children]
            process.kill()
            process.wait()
            for handle in watched:
                assert select.select([handle], [], [], 30)[0], "a worker outlived its parent"
                os.close(handle)
    build_corpus([path], out, options=BuildOptions(n_workers=2))
    assert content(out) == content(tmp_path / "whole")
    assert not shards.exists() and not list(tmp_path.glob(".killed.tmp-*"))


def test_finished_chunks_are_not_read_again(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "MIN_CHUNK_BYTES", 4000)
    build_corpus([source], tmp_path / "whole", options=HERE)
    from ssp_env.build.ingest import folder

    def dying(job: folder.Job) -> None:
        if job.number == 3:
            raise KeyboardInterrupt
        write_shard(job)

    write_shard = folder.write_shard
    with monkeypatch.context() as patch:
        patch.setattr(folder, "write_shard", dying)
        with pytest.raises(KeyboardInterrupt):
            build_corpus([source], tmp_path / "c", options=HERE)
    numbers: list[int] = []
    monkeypatch.setattr(folder, "write_shard", lambda job: (numbers.append(job.number), write_shard(job))[1])
    build_corpus([source], tmp_path / "c", options=HERE)
    assert numbers[0] == 3
    assert content(tmp_path / "c") == content(tmp_path / "whole")


def test_a_half_written_shard_is_made_again(source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from ssp_env.build.ingest import folder

    build_corpus([source], tmp_path / "whole", options=HERE)

    def refuse(*args: object, **kwargs: object) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr(folder, "merge_shards", refuse)
        with pytest.raises(OSError, match="no space"):
            build_corpus([source], tmp_path / "c", options=HERE)
    (first, *_) = sorted((tmp_path / ".c.shards").glob("*.passages"))
    first.write_bytes(first.read_bytes()[:-5])
    build_corpus([source], tmp_path / "c", options=HERE)
    assert content(tmp_path / "c") == content(tmp_path / "whole")


def test_shards_of_other_options_are_not_used(source: Path, tmp_path: Path) -> None:
    options = BuildOptions(n_workers=0, n_words=20)
    build_corpus([source], tmp_path / "c", options=HERE)
    with pytest.raises(StaleIndexError, match="n_words"):
        build_corpus([source], tmp_path / "c", options=options)
    report = build_corpus([source], tmp_path / "c", options=BuildOptions(n_workers=0, n_words=20, rebuild=True))
    assert report == build_corpus([source], tmp_path / "d", options=options)


def test_a_page_in_two_sources_is_kept_once(source: Path, tmp_path: Path) -> None:
    other = tmp_path / "again.xml"
    other.write_text(dump_xml(50), encoding="utf-8")
    once = build_corpus([other], tmp_path / "a", options=HERE)
    twice = build_corpus([source, other], tmp_path / "b", options=HERE)
    assert twice["duplicates"] == {"same as one before": 41}
    assert twice["counts"] == once["counts"]


def test_memory_does_not_grow_with_the_source(tmp_path: Path) -> None:
    peaks = []
    for n_times in (1, 20):
        rows = [{"id": n, "title": f"T{n // 3}", "text": f"Text {n} " + "word " * 90} for n in range(3000 * n_times)]
        path = write_rows(tmp_path / f"{n_times}.jsonl", rows)
        done = subprocess.run(
            [sys.executable, "-c", MEASURE, str(path), str(tmp_path / f"c{n_times}")],
            check=True,
            capture_output=True,
            text=True,
        )
        peaks.append([int(kib) / 1024 for kib in done.stdout.split()])
    assert all(large - small < 16 for small, large in zip(*peaks, strict=True)), peaks


def test_progress_says_share_rate_and_time_left(source: Path, tmp_path: Path) -> None:
    stream = io.StringIO()
    build_corpus([source], tmp_path / "c", options=HERE, progress=stream)
    assert "100.0 %" in stream.getvalue() and "left" in stream.getvalue()


def test_an_error_of_a_worker_arrives_with_its_place(tmp_path: Path) -> None:
    data = multistream(dump_xml())
    path = tmp_path / "d.xml.bz2"
    path.write_bytes(data[:700] + bytes(byte ^ 255 for byte in data[700:760]) + data[760:])
    with pytest.raises(CorpusError, match=r"bzip2 data.*d\.xml\.bz2"):
        build_corpus([path], tmp_path / "c", options=BuildOptions(n_workers=2))


def test_wrong_options_are_refused() -> None:
    with pytest.raises(ConfigError, match="did you mean 'dump'"):
        BuildOptions(format="dumb")
    with pytest.raises(ConfigError, match="n_words"):
        BuildOptions(n_words=0)
    with pytest.raises(CorpusError, match="at least one source"):
        build_corpus([], Path("x"))
