from __future__ import annotations

import gzip
import json
import multiprocessing
import os
import pickle
import random
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssp_env import storage
from ssp_env.corpus import JsonlCorpus, MemoryCorpus, open_corpus
from ssp_env.errors import ConfigError, CorpusError
from ssp_env.protocols import Corpus
from ssp_env.types import Passage

GOOD = '{"id": "a", "title": "A", "text": "first"}'
PASSAGES = [Passage(str(n), f"Title {n}", f"Text ü {n} 東京\nsecond line") for n in range(50)]


def row(passage: Passage) -> str:
    return json.dumps({"id": passage.id, "title": passage.title, "text": passage.text, "extra": [1]})


def write(path: Path, *rows: str | bytes) -> Path:
    path.write_bytes(b"".join(r if isinstance(r, bytes) else r.encode() + b"\n" for r in rows))
    return path


def everything(corpus: Corpus) -> list[Passage]:
    return [corpus.at(position) for position in range(len(corpus))]


@pytest.fixture
def corpus(tmp_path: Path) -> JsonlCorpus:
    return open_corpus([write(tmp_path / "c.jsonl", *map(row, PASSAGES))])


def test_passages_are_found_by_position_and_by_id(corpus: JsonlCorpus) -> None:
    assert isinstance(corpus, Corpus)
    assert len(corpus) == 50
    assert everything(corpus) == PASSAGES
    assert [corpus.get(p.id) for p in PASSAGES] == PASSAGES
    for absent in ("50", "", "\ud800"):
        with pytest.raises(KeyError):
            corpus.get(absent)
    for outside in (-1, 50):
        with pytest.raises(IndexError):
            corpus.at(outside)


def test_memory_and_files_agree_in_content_and_fingerprint(corpus: JsonlCorpus) -> None:
    memory = MemoryCorpus(PASSAGES)
    assert isinstance(memory, Corpus)
    assert memory.fingerprint == corpus.fingerprint
    assert everything(memory) == everything(corpus)
    assert memory.get("7") == corpus.get("7")
    for outside in (-1, 50):
        with pytest.raises(IndexError):
            memory.at(outside)
    with pytest.raises(KeyError):
        memory.get("50")


@pytest.mark.parametrize(
    "other",
    [
        [Passage("a", "bc", "d")],
        [Passage("ab", "", "cd")],
        [Passage("a", "b", "c d")],
        [Passage("x", "y", "z"), Passage("a", "b", "cd")],
        [Passage("a", "b", "cd"), Passage("x", "y", "z")],
    ],
)
def test_any_other_content_has_another_fingerprint(other: list[Passage]) -> None:
    assert MemoryCorpus(other).fingerprint != MemoryCorpus([Passage("a", "b", "cd")]).fingerprint


def test_order_counts_in_the_fingerprint() -> None:
    assert MemoryCorpus(PASSAGES).fingerprint != MemoryCorpus(PASSAGES[::-1]).fingerprint


@given(st.lists(st.tuples(st.text(min_size=1), st.text(), st.text(min_size=1)), min_size=1, unique_by=lambda f: f[0]))
def test_any_text_survives_the_way_through_a_file(fields: list[tuple[str, str, str]]) -> None:
    passages = [Passage(*f) for f in fields if f[0].strip() and f[2].strip()] or PASSAGES
    with TemporaryDirectory() as folder:
        corpus = open_corpus([write(Path(folder) / "c.jsonl", *map(row, passages))])
        assert everything(corpus) == passages
        assert [corpus.get(passage.id) for passage in passages] == passages
        assert corpus.fingerprint == MemoryCorpus(passages).fingerprint


def test_several_files_are_one_corpus_in_the_order_given(tmp_path: Path) -> None:
    first = write(tmp_path / "1.jsonl", *map(row, PASSAGES[:20]))
    second = write(tmp_path / "2.jsonl", *map(row, PASSAGES[20:]))
    assert everything(open_corpus([first, second])) == PASSAGES
    assert everything(open_corpus([second, first])) == PASSAGES[20:] + PASSAGES[:20]


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_compressed_files_read_like_plain_ones(tmp_path: Path, corpus: JsonlCorpus, suffix: str) -> None:
    path = compressed(tmp_path / f"c.jsonl{suffix}", "\n".join(map(row, PASSAGES)).encode())
    packed = open_corpus([path])
    assert everything(packed) == PASSAGES
    assert packed.fingerprint == corpus.fingerprint


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
def test_a_cut_off_compressed_file_is_refused(tmp_path: Path, suffix: str) -> None:
    path = compressed(tmp_path / f"c.jsonl{suffix}", "\n".join(map(row, PASSAGES)).encode())
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(CorpusError, match="whole"):
        open_corpus([path])
    path.write_bytes(b"not compressed at all")
    with pytest.raises(CorpusError, match="whole"):
        open_corpus([path])


def compressed(path: Path, data: bytes) -> Path:
    """Two members or frames, as tools write them when files are joined."""
    half = data.index(b"\n", len(data) // 2) + 1
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(data[:half]) + gzip.compress(data[half:]))
    else:
        zstandard = pytest.importorskip("zstandard")
        path.write_bytes(zstandard.compress(data[:half]) + zstandard.compress(data[half:]))
    return path


def test_errors_in_compressed_files_name_the_file_given(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl.gz"
    path.write_bytes(gzip.compress(f"{GOOD}\nnonsense\n".encode()))
    with pytest.raises(CorpusError, match=r"c\.jsonl\.gz:2: "):
        open_corpus([path])


@pytest.mark.parametrize(
    ("contents", "title", "text"),
    [
        ('"Evan Morris"\nEvan Morris was a lobbyist.\nMore.', "Evan Morris", "Evan Morris was a lobbyist.\nMore."),
        ('"""Weird Al"" Yankovic"\nA musician.', '"Weird Al" Yankovic', "A musician."),
        ("Plain title\nText.", "Plain title", "Text."),
        ('""\nText.', "", "Text."),
        ("Only text.", "", "Only text."),
    ],
)
def test_search_r1_contents_are_split_into_title_and_text(tmp_path: Path, contents: str, title: str, text: str) -> None:
    corpus = open_corpus([write(tmp_path / "c.jsonl", json.dumps({"id": 0, "contents": contents}))])
    assert corpus.at(0) == Passage("0", title, text)


def test_integer_ids_blank_lines_byte_order_marks_and_crlf_are_accepted(tmp_path: Path) -> None:
    data = b'\xef\xbb\xbf{"id": 7, "title": "", "text": "x"}\r\n\r\n  \n{"id": "8", "title": "t", "text": "y"}'
    assert everything(open_corpus([write(tmp_path / "c.jsonl", data)])) == [
        Passage("7", "", "x"),
        Passage("8", "t", "y"),
    ]


BAD_ROWS: dict[str, str | bytes] = {
    "not json": "nonsense",
    "cut off": '{"id": "b", "title": "T", "te',
    "two objects": GOOD + GOOD,
    "a list": "[1, 2]",
    "a string": '"text"',
    "null": "null",
    "not utf-8": b'{"id": "b", "title": "T", "text": "caf\xe9"}\n',
    "utf-16": '{"id": "b", "title": "T", "text": "x"}'.encode("utf-16") + b"\n",
    "deep": "[" * 100_000,
    "no id": '{"title": "T", "text": "x"}',
    "no title": '{"id": "b", "text": "x"}',
    "no text": '{"id": "b", "title": "T"}',
    "empty id": '{"id": "", "title": "T", "text": "x"}',
    "blank text": '{"id": "b", "title": "T", "text": " \\n"}',
    "null title": '{"id": "b", "title": null, "text": "x"}',
    "list text": '{"id": "b", "title": "T", "text": ["x"]}',
    "bool id": '{"id": true, "title": "T", "text": "x"}',
    "float id": '{"id": 1.5, "title": "T", "text": "x"}',
    "lone surrogate": '{"id": "b", "title": "T", "text": "\\ud800"}',
    "null contents": '{"id": "b", "contents": null}',
    "blank contents": '{"id": "b", "contents": "\\"T\\"\\n"}',
    "same id, other text": '{"id": "a", "title": "A", "text": "second"}',
    "same id, other title": '{"id": "a", "title": "B", "text": "first"}',
    "nul bytes": b"\x00\x00\x00\n",
}


@pytest.mark.parametrize("bad", BAD_ROWS.values(), ids=BAD_ROWS.keys())
def test_a_bad_row_is_refused_by_file_and_line(tmp_path: Path, bad: str | bytes) -> None:
    path = write(tmp_path / "c.jsonl", GOOD, "", bad, GOOD.replace('"a"', '"z"'))
    with pytest.raises(CorpusError, match=r"c\.jsonl:3: expected .*, got .*; ") as refusal:
        open_corpus([path])
    assert len(str(refusal.value)) < 400 + len(str(path)) * 2
    assert not (tmp_path / "c.jsonl.ssp-index" / "passages").exists()


def test_a_clash_between_files_names_both_places(tmp_path: Path) -> None:
    first = write(tmp_path / "1.jsonl", GOOD.replace('"a"', '"z"'), GOOD)
    second = write(tmp_path / "2.jsonl", GOOD, GOOD.replace("first", "other"))
    with pytest.raises(CorpusError, match=r"2\.jsonl:2: .*'a'.*1\.jsonl:2"):
        open_corpus([first, second])


def test_identical_rows_are_counted_and_left_out(tmp_path: Path) -> None:
    rows = [row(p) for p in PASSAGES]
    random.Random(0).shuffle(repeats := rows * 2)
    corpus = open_corpus([write(tmp_path / "1.jsonl", *rows), write(tmp_path / "2.jsonl", *repeats)])
    assert everything(corpus) == PASSAGES
    assert corpus.n_duplicates == 100
    assert [corpus.get(p.id) for p in PASSAGES] == PASSAGES
    memory = MemoryCorpus(PASSAGES + PASSAGES)
    assert (memory.n_duplicates, memory.fingerprint) == (50, corpus.fingerprint)


@pytest.mark.parametrize(
    "bad",
    [
        [],
        [Passage("", "t", "x")],
        [Passage("a", "t", " ")],
        [Passage("a", "t", "x"), Passage("a", "t", "y")],
        [Passage("a", "\udfff", "x")],
        [Passage(1, "t", "x")],  # type: ignore[arg-type]
    ],
)
def test_memory_makes_the_same_checks(bad: list[Passage]) -> None:
    with pytest.raises(CorpusError, match="expected .*, got .*; "):
        MemoryCorpus(bad)


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_an_empty_corpus_is_refused(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(CorpusError, match="at least one passage"):
        open_corpus([write(tmp_path / "c.jsonl", content)])


def test_paths_that_are_no_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match=r"No such file.*absent\.jsonl"):
        open_corpus([tmp_path / "absent.jsonl"])
    with pytest.raises(CorpusError, match="folder"):
        open_corpus([tmp_path])
    with pytest.raises(CorpusError, match="at least one"):
        open_corpus([])
    with pytest.raises(TypeError, match=r"pass \[path\]"):
        open_corpus(tmp_path / "c.jsonl")  # type: ignore[arg-type]


def test_opening_again_reads_no_rows(tmp_path: Path, corpus: JsonlCorpus) -> None:
    table = tmp_path / "c.jsonl.ssp-index" / "passages"
    before = table.stat().st_ino
    again = open_corpus([tmp_path / "c.jsonl"])
    assert table.stat().st_ino == before
    assert (again.fingerprint, everything(again)) == (corpus.fingerprint, PASSAGES)


def test_a_changed_file_is_read_again(tmp_path: Path, corpus: JsonlCorpus) -> None:
    path = tmp_path / "c.jsonl"
    status = path.stat()
    write(path, *map(row, PASSAGES[::-1]))
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))
    again = open_corpus([path])
    assert everything(again) == PASSAGES[::-1]
    assert again.fingerprint != corpus.fingerprint


def test_corpora_of_one_name_share_a_folder_and_keep_their_tables(tmp_path: Path) -> None:
    shared = tmp_path / "indexes"
    paths = [tmp_path / name / "c.jsonl.gz" for name in ("one", "other")]
    for path, passages in zip(paths, (PASSAGES, PASSAGES[::-1]), strict=True):
        path.parent.mkdir()
        path.write_bytes(gzip.compress(b"".join(f"{row(p)}\n".encode() for p in passages)))
    first, second = (open_corpus([path], index_dir=shared) for path in paths)
    tables = {table.name: table.stat().st_ino for table in shared.glob("passages-*")}
    assert len(tables) == 2
    assert everything(first) == PASSAGES
    assert everything(pickle.loads(pickle.dumps(second))) == PASSAGES[::-1]
    open_corpus(paths[:1], index_dir=shared)
    assert {table.name: table.stat().st_ino for table in shared.glob("passages-*")} == tables


def test_a_table_replaced_while_it_is_opened_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "c.jsonl", *map(row, PASSAGES))

    def ensure_folder(table: Path, *args: object, **kwargs: object) -> dict[str, object]:
        manifest = storage.ensure_folder(table, *args, **kwargs)  # type: ignore[arg-type]
        storage.write_json(table / storage.MANIFEST, {**manifest, "fingerprint": "another"})
        return manifest

    monkeypatch.setattr("ssp_env.corpus.table.ensure_folder", ensure_folder)
    with pytest.raises(CorpusError, match="files at rest"):
        open_corpus([path])


def test_a_file_overwritten_while_open_is_noticed(tmp_path: Path, corpus: JsonlCorpus) -> None:
    write(tmp_path / "c.jsonl", b"x" * 10_000)
    with pytest.raises(CorpusError, match="when opened"):
        corpus.at(3)


@pytest.mark.parametrize("damage", ["no manifest", "bad manifest", "cut column", "no column"])
def test_a_damaged_table_is_built_anew(tmp_path: Path, corpus: JsonlCorpus, damage: str) -> None:
    table = tmp_path / "c.jsonl.ssp-index" / "passages"
    match damage:
        case "no manifest":
            (table / "manifest.json").unlink()
        case "bad manifest":
            (table / "manifest.json").write_text('{"kind": "pass')
        case "cut column":
            os.truncate(table / "starts.npy", 150)
        case "no column":
            (table / "ids.npy").unlink()
    assert everything(open_corpus([tmp_path / "c.jsonl"])) == PASSAGES


def test_a_killed_first_opening_leaves_nothing_that_counts(tmp_path: Path, repository: Path) -> None:
    path = write(tmp_path / "c.jsonl", *map(row, PASSAGES))
    script = (
        "import os, signal, sys; from pathlib import Path; import ssp_env.corpus.jsonl as jsonl\n"
        "scan = jsonl._scan\n"
        "jsonl._scan = lambda *a: (scan(*a), os.kill(os.getpid(), signal.SIGKILL))\n"
        "jsonl.open_corpus([Path(sys.argv[1])])"
    )
    child = subprocess.run([sys.executable, "-c", script, str(path)], cwd=repository, timeout=60)
    assert child.returncode == -signal.SIGKILL
    assert everything(open_corpus([path])) == PASSAGES
    assert not list((tmp_path / "c.jsonl.ssp-index").glob(".*.tmp-*"))


def test_a_folder_marked_read_only_is_left_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    path = write(folder / "c.jsonl", GOOD)
    folder.chmod(0o555)
    with pytest.raises(ConfigError, match="index_dir"):
        open_corpus([path])
    assert sorted(folder.iterdir()) == [path]
    assert len(open_corpus([path], index_dir=tmp_path / "elsewhere")) == 1
    folder.chmod(0o755)


def test_pickles_hold_paths_only(corpus: JsonlCorpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pickled = pickle.dumps(corpus)
    assert b"Title" not in pickled
    monkeypatch.chdir("/")
    again = pickle.loads(pickled)
    assert everything(again) == PASSAGES
    assert again.index_dir == corpus.index_dir


def test_threads_and_forked_processes_read_the_same(corpus: JsonlCorpus) -> None:
    positions = [random.Random(0).randrange(50) for _ in range(2000)]
    expected = [PASSAGES[position] for position in positions]
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(corpus.at, positions)) == expected
    if "fork" in multiprocessing.get_all_start_methods():
        child = os.fork()
        if child == 0:
            os._exit([corpus.at(position) for position in positions] != expected)
        assert [corpus.at(position) for position in positions] == expected
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
