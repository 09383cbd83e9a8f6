from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from ssp_env.errors import ConfigError
from ssp_env.retrieval.wrappers import BlockedRetriever, Blocklist, read_blocklist
from tests.fakes import PASSAGES, FakeRetriever

RIVER = [result.passage.id for result in FakeRetriever().search(["river"], 8)[0]]


def ids(retriever: BlockedRetriever, query: str, k: int) -> list[str]:
    return [result.passage.id for result in retriever.search([query], k)[0]]


def test_blocked_ids_and_titles_are_left_out_and_the_next_best_moves_up() -> None:
    blocked = Blocklist.of(ids=[RIVER[0]], titles=["  elm "])
    expected = [i for i in RIVER if i != RIVER[0] and i != "p2"]
    retriever = BlockedRetriever(FakeRetriever(), blocked)
    assert ids(retriever, "river", 2) == expected[:2]
    assert [result.rank for result in retriever.search(["river"], 2)[0]] == [0, 1]


def test_only_queries_that_lost_passages_are_asked_again() -> None:
    inner = FakeRetriever()
    BlockedRetriever(inner, Blocklist.of(ids=[RIVER[0]])).search(["metal", "river"], 1)
    assert inner.batches == [["metal", "river"], ["river"]]


def test_blocking_everything_ends_with_nothing() -> None:
    retriever = BlockedRetriever(FakeRetriever(), Blocklist.of(titles=[p.title for p in PASSAGES]))
    assert retriever.search(["river", "town", "xyzzy"], 3) == [[], [], []]


def test_empty_blocklist_changes_nothing() -> None:
    queries = ["river", "town", "", "metal"]
    assert BlockedRetriever(FakeRetriever(), Blocklist()).search(queries, 3) == FakeRetriever().search(queries, 3)


def test_k_must_be_positive() -> None:
    with pytest.raises(ValueError, match="positive k"):
        BlockedRetriever(FakeRetriever(), Blocklist()).search([], 0)


def test_blocked_retriever_pickles() -> None:
    retriever = pickle.loads(pickle.dumps(BlockedRetriever(FakeRetriever(), Blocklist.of(ids=[RIVER[0]]))))
    assert ids(retriever, "river", 1) == RIVER[1:2]


def test_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "block.json"
    file.write_text('{"ids": ["p1"], "titles": ["Elm"]}')
    blocklist = read_blocklist(file)
    assert [p.id for p in PASSAGES if blocklist.blocks(p)] == ["p1", "p2"]
    assert blocklist.blocks_title("ELM") and not blocklist.blocks_title("Oxley")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "fix the file"),
        ("[" * 200_000, "fix the file"),
        ("[]", "got a list"),
        ('{"id": []}', "did you mean 'ids'"),
        ('{"ids": "p1"}', "list strings"),
        ('{"titles": [1]}', "list strings"),
    ],
)
def test_malformed_file_is_refused(tmp_path: Path, content: str, problem: str) -> None:
    file = tmp_path / "block.json"
    file.write_text(content)
    with pytest.raises(ConfigError, match=problem):
        read_blocklist(file)


def test_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="fix the file"):
        read_blocklist(tmp_path / "none.json")
