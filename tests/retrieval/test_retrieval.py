from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from ssp_env.corpus import open_corpus
from ssp_env.errors import ConfigError
from ssp_env.retrieval import make_retriever
from ssp_env.retrieval.ranking import index_folder, rank
from ssp_env.schema import parse
from tests.retrieval_fakes import small_corpus


def test_an_unknown_name_is_refused_with_the_closest_one() -> None:
    with pytest.raises(ConfigError, match="got 'bm52'; did you mean 'bm25'"):
        make_retriever("bm52", small_corpus())
    with pytest.raises(ConfigError, match="choose one of .*'hybrid'"):
        make_retriever("zzz", small_corpus())


def test_an_unknown_setting_is_refused_with_the_closest_one() -> None:
    with pytest.raises(ConfigError, match="'bm25', got 'langauge'; did you mean 'language'"):
        make_retriever("bm25", small_corpus(), {"langauge": "english"})
    with pytest.raises(ConfigError, match="expected a setting of 'rank-bm25'"):
        make_retriever("rank-bm25", small_corpus(), {"k1": 2.0})


@dataclass(frozen=True)
class Settings:
    share: float = 0.5
    n: int = 1
    names: tuple[str, ...] = ()


@pytest.mark.parametrize("config", [{"n": True}, {"n": 1.0}, {"n": "1"}, {"share": "x"}, {"share": None}])
def test_settings_of_another_type_are_refused(config: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match="expected a (whole )?number for"):
        parse(Settings, config, what="'x'")


def test_an_integer_serves_as_a_float_setting() -> None:
    assert parse(Settings, {"share": 1, "n": 2}, what="'x'") == Settings(share=1, n=2)


def test_settings_name_index_folders() -> None:
    folders = {index_folder(Path("x"), "bm25", {"a": value}) for value in (1, 2, "1", None)}
    assert len(folders) == 4
    assert index_folder(Path("x"), "bm25", {"a": 1, "b": 2}) == index_folder(Path("x"), "bm25", {"b": 2, "a": 1})


def test_ranking_asks_for_more_until_the_cut_is_no_tie() -> None:
    corpus = small_corpus()
    scores = [3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, 1.0]
    limits = []

    def fetch(limit: int) -> list[tuple[float, int]]:
        limits.append(limit)
        return [(score, len(corpus) - 1 - n) for n, score in enumerate(scores)][:limit]

    results = rank(corpus, fetch, k=2)
    tied = sorted(corpus.at(len(corpus) - 1 - n).id for n in range(1, 6))
    assert [result.passage.id for result in results] == [corpus.at(len(corpus) - 1).id, tied[0]]
    assert limits == [3, 6, 12]


def test_an_index_is_kept_beside_the_corpus_unless_told_otherwise(tmp_path: Path) -> None:
    path = tmp_path / "c.jsonl"
    path.write_text('{"id": "a", "title": "T", "text": "x"}\n')
    corpus = open_corpus([path])
    make_retriever("bm25", corpus)
    assert len(list((tmp_path / "c.jsonl.ssp-index").glob("bm25-*"))) == 1
    make_retriever("bm25", corpus, index_dir=tmp_path / "mine")
    assert len(list((tmp_path / "mine").glob("bm25-*"))) == 1


def test_importing_the_package_loads_no_engine(repository: Path) -> None:
    script = (
        "import sys, ssp_env.retrieval, ssp_env.corpus, ssp_env.retrieval.bm25, ssp_env.retrieval.dense\n"
        "import ssp_env.retrieval.hybrid, ssp_env.retrieval.rank_bm25\n"
        "heavy = {'tantivy', 'faiss', 'torch', 'sentence_transformers', 'rank_bm25', 'zstandard', 'transformers'}\n"
        "print(sorted(heavy & set(sys.modules)))"
    )
    child = subprocess.run([sys.executable, "-c", script], cwd=repository, capture_output=True, text=True, timeout=60)
    assert child.stdout.strip() == "[]", child.stderr
