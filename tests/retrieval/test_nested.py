"""Every retriever can be named in plain JSON, alone or inside of another."""

from __future__ import annotations

import json
import pickle
from collections.abc import Mapping
from pathlib import Path

import pytest

from ssp_env.corpus import MemoryCorpus
from ssp_env.errors import ConfigError
from ssp_env.registry import build_game, clear
from ssp_env.retrieval import RETRIEVERS, make_retriever
from ssp_env.retrieval.nested import complete_spec, make_nested
from ssp_env.retrieval.remote import RemoteRetriever
from ssp_env.retrieval.wrappers import BlockedRetriever, CachedRetriever
from tests.fakes import ask
from tests.retrieval_fakes import small_corpus

BLOCKED = ["p-eiffel"]


@pytest.fixture
def blocklist(tmp_path: Path) -> str:
    path = tmp_path / "block.json"
    path.write_text(json.dumps({"ids": BLOCKED}))
    return str(path)


def ids(spec: object, query: str = "Eiffel Tower in Paris", k: int = 3) -> list[str]:
    return [result.passage.id for result in make_nested(spec, small_corpus(), None).search([query], k)[0]]


def test_a_name_and_an_object_with_it_make_the_same() -> None:
    assert ids("bm25") == ids({"name": "bm25"}) == ids({"name": "cache", "base": "bm25"})


def test_wrappers_nest_in_any_order(blocklist: str) -> None:
    inner = {"name": "blocklist", "base": "bm25", "file": blocklist}
    cached = {"name": "cache", "base": inner, "max_mb": 1}
    outer = {"name": "blocklist", "base": {"name": "cache", "base": {"name": "bm25"}}, "file": blocklist}
    assert ids(inner) == ids(cached) == ids(outer) == [name for name in ids("bm25", k=4) if name not in BLOCKED]


def test_hybrid_fuses_wrapped_retrievers(blocklist: str) -> None:
    parts = [{"name": "blocklist", "base": name, "file": blocklist} for name in ("bm25", "rank-bm25")]
    pytest.importorskip("rank_bm25")
    assert not set(BLOCKED) & set(ids({"name": "hybrid", "retrievers": parts}, k=17))


def test_settings_reach_the_wrapped_retriever() -> None:
    with pytest.raises(ConfigError, match="did you mean 'language'"):
        ids({"name": "cache", "base": {"name": "bm25", "langauge": "english"}})


def test_a_remote_retriever_can_be_wrapped() -> None:
    spec = {"name": "cache", "base": {"name": "remote", "url": "http://127.0.0.1:9"}}
    made = make_nested(spec, small_corpus(), None)
    assert isinstance(made, CachedRetriever)
    assert isinstance(make_nested(spec["base"], small_corpus(), None), RemoteRetriever)


@pytest.mark.parametrize(
    ("name", "config", "message"),
    [
        ("cache", {}, "expected 'base' for 'cache'"),
        ("cache", {"base": 3}, "the name of a retriever or {'name'"),
        ("cache", {"base": {"nmae": "bm25"}}, "the name of a retriever or {'name'"),
        ("cache", {"base": "bm52"}, "did you mean 'bm25'"),
        ("cache", {"base": "bm25", "max_mb": -1}, "at least 0"),
        ("cache", {"base": "bm25", "max_mb": "9"}, "a whole number for 'max_mb' of 'cache'"),
        ("cache", {"base": "bm25", "mx_mb": 9}, "did you mean 'max_mb'"),
        ("blocklist", {"base": "bm25"}, "expected 'file'"),
        ("blocklist", {"base": "bm25", "file": "none.json"}, "expected a blocklist"),
        ("rerank", {"base": "bm25"}, "folder of a cross-encoder"),
        ("rerank", {"base": "bm25", "model": "no-such-folder"}, "folder of a cross-encoder"),
        ("rerank", {"base": "bm25", "model": "a" * 5000}, "folder of a cross-encoder"),
        ("rerank", {"base": "bm25", "depth": 0}, "positive numbers"),
        ("dense", {"model": "a" * 5000}, "model folder"),
        ("bm25", {"n_threads": -1}, "n_threads in 1"),
        ("bm25", {"n_threads": 10**30}, "n_threads in 1"),
    ],
)
def test_mistakes_are_one_clear_error(name: str, config: Mapping[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make_retriever(name, small_corpus(), config)


def test_completed_descriptions_stay_as_they_are() -> None:
    spec = {"name": "rerank", "model": "m", "base": {"name": "hybrid", "retrievers": ["bm25", {"name": "dense"}]}}
    full = complete_spec(spec)
    assert full["base"] == {"name": "hybrid", "retrievers": [{"name": "bm25"}, {"name": "dense"}]}
    assert complete_spec(full) == full


def test_paths_become_absolute_at_every_depth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    blocked = {"name": "blocklist", "base": {"name": "dense", "model": "m"}, "file": "b.json"}
    full = complete_spec({"name": "hybrid", "retrievers": [{"name": "rerank", "base": blocked, "model": "~/r"}]})
    (rerank,) = full["retrievers"]
    assert rerank["model"] == str(Path("~/r").expanduser())
    assert rerank["base"]["file"] == str(tmp_path / "b.json")
    assert rerank["base"]["base"]["model"] == str(tmp_path / "m")
    assert complete_spec(full) == full


def test_the_packaged_encoder_is_a_name_unless_there_is_such_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    spec = {"name": "dense", "model": "minilm"}
    assert complete_spec(spec) == spec
    (tmp_path / "minilm").mkdir()
    assert complete_spec(spec)["model"] == str(tmp_path / "minilm")


def test_a_relative_blocklist_is_that_of_the_folder_where_the_game_was_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for blocked in ("p-eiffel", "p-paris"):
        folder = tmp_path / blocked
        folder.mkdir()
        (folder / "block.json").write_text(json.dumps({"ids": [blocked]}))
        monkeypatch.chdir(folder)
        game = build_game({"retriever": {"name": "blocklist", "base": "bm25", "file": "block.json"}})
        assert game.retriever is not None and game.retriever._blocklist.ids == {blocked}  # type: ignore[attr-defined]


def test_every_registered_name_is_known() -> None:
    assert [complete_spec(name)["name"] for name in RETRIEVERS] == list(RETRIEVERS)


def test_a_game_is_made_with_wrapped_retrievers(tmp_path: Path, blocklist: str) -> None:
    corpus = tmp_path / "passages.jsonl"
    rows = [{"id": p.id, "title": p.title, "text": p.text} for p in map(small_corpus().at, range(17))]
    corpus.write_text("".join(json.dumps(row) + "\n" for row in rows))
    retriever = {"name": "cache", "base": {"name": "blocklist", "base": "bm25", "file": blocklist}}
    clear()
    game = build_game({"corpus": str(corpus), "retriever": retriever})
    (output,) = ask(game.tools["search"], "tower in Paris")
    assert output.results and not {result.passage.id for result in output.results} & set(BLOCKED)
    clear()


def test_made_from_settings_they_pickle(blocklist: str) -> None:
    for spec in ({"name": "cache", "base": "bm25"}, {"name": "blocklist", "base": "bm25", "file": blocklist}):
        made = make_nested(spec, MemoryCorpus([small_corpus().at(1)]), None)
        assert isinstance(made, CachedRetriever | BlockedRetriever)
        assert pickle.loads(pickle.dumps(made)).search(["Paris"], 1) == made.search(["Paris"], 1)
