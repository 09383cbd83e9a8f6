"""What encoding on a cluster does without a cluster; the rest is in ``tests/ray``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ssp_env.build.ray_encode import encode_on_ray
from ssp_env.build.vectors import VectorShards, encode_shards
from ssp_env.cli.main import main
from ssp_env.corpus import MemoryCorpus
from ssp_env.errors import ConfigError, StaleIndexError
from tests.build.test_vectors import SPEC, N, never
from tests.retrieval_fakes import PASSAGES, WordEmbedder, small_corpus


@pytest.fixture(autouse=True)
def no_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)


def test_whole_shards_need_no_cluster(tmp_path: Path) -> None:
    encode_shards(small_corpus(), WordEmbedder, SPEC, folder=tmp_path)
    assert encode_on_ray(small_corpus(), never, SPEC, folder=tmp_path) == VectorShards(tmp_path, N, 64, 4)


def test_what_cannot_be_encoded_is_refused_before_a_cluster_is_asked(tmp_path: Path) -> None:
    encode_shards(small_corpus(), WordEmbedder, SPEC, folder=tmp_path)
    with pytest.raises(StaleIndexError, match="delete"):
        encode_on_ray(MemoryCorpus(PASSAGES), never, SPEC, folder=tmp_path)
    with pytest.raises(ConfigError, match="expected a positive number of workers, got -1"):
        encode_on_ray(small_corpus(), never, SPEC, folder=tmp_path, n_workers=-1)


def test_a_missing_ray_names_the_extra_before_the_corpus_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ImportError, match=r"pip install 'ssp-env\[ray\]'"):
        encode_on_ray(small_corpus(), never, SPEC, folder=tmp_path)
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "config.json").write_text('{"hidden_size": 32}')
    options = ["--retriever", "dense", "--encoder", str(tmp_path / "m"), "--ray-workers", "2"]
    assert main(["index", "build", str(tmp_path / "none.jsonl"), *options]) == 1
    assert "ssp-env[ray]" in capsys.readouterr().err
