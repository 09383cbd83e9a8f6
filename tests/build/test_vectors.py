from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ssp_env.build.vectors import VectorShards, VectorSpec, encode_shards, n_missing, shard_folder
from ssp_env.corpus import MemoryCorpus
from ssp_env.errors import ConfigError, StaleIndexError
from tests.retrieval_fakes import PASSAGES, DyingCorpus, WordEmbedder, small_corpus  # noqa: F401  (for the child)

SPEC = VectorSpec("words", "passage: ", "float16", shard_passages=4)
N = len(small_corpus())


def never() -> WordEmbedder:
    raise AssertionError("the embedder was loaded")


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.glob("0*/*"))}


def test_vectors_are_those_of_the_embedder_in_order(tmp_path: Path) -> None:
    shards = encode_shards(small_corpus(), WordEmbedder, SPEC, folder=tmp_path)
    passages = [small_corpus().at(n) for n in range(N)]
    wanted = WordEmbedder().embed([f"passage: {passage.title}\n{passage.text}" for passage in passages])
    got = np.concatenate(list(shards.batches()))
    assert got.dtype == np.float32
    np.testing.assert_allclose(got, wanted, atol=1e-3)
    assert (shards.n, shards.dimension) == (N, 64)


def test_a_sample_is_drawn_without_repetition_and_in_order(tmp_path: Path) -> None:
    shards = encode_shards(small_corpus(), WordEmbedder, SPEC, folder=tmp_path)
    everything = np.concatenate(list(shards.batches()))
    np.testing.assert_array_equal(shards.sample(N, np.random.default_rng(0)), everything)
    first, again = (shards.sample(5, np.random.default_rng(3)) for _ in range(2))
    np.testing.assert_array_equal(first, again)
    positions = np.sort(np.random.default_rng(3).choice(N, size=5, replace=False))
    np.testing.assert_array_equal(first, everything[positions])


@pytest.mark.parametrize("deadly", [0, 5, N - 1])
def test_a_killed_job_goes_on_and_gives_the_same_bytes(deadly: int, repository: Path, tmp_path: Path) -> None:
    script = (
        "import sys; from pathlib import Path; from tests.build.test_vectors import *\n"
        "corpus = DyingCorpus(small_corpus(), deadly=int(sys.argv[1]))\n"
        "encode_shards(corpus, WordEmbedder, SPEC, folder=Path(sys.argv[2]))"
    )
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    child = subprocess.run([sys.executable, "-c", script, str(deadly), str(killed)], cwd=repository, timeout=120)
    assert child.returncode == -signal.SIGKILL
    assert n_missing(killed, N, SPEC.shard_passages) == N - deadly // 4 * 4
    said: list[str] = []
    encode_shards(small_corpus(), WordEmbedder, SPEC, folder=killed, say=said.append)
    encode_shards(small_corpus(), WordEmbedder, SPEC, folder=whole)
    assert bytes_of(killed) == bytes_of(whole)
    assert len(said) == 5 - deadly // 4 and said[-1].startswith("shard 5 of 5: 100.0 %")


def test_a_long_shard_says_how_far_it_is_before_it_is_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssp_env.retrieval.encoders.CHUNK_PASSAGES", 1)
    monkeypatch.setattr("ssp_env.build.vectors.GAP_S", -1.0)
    said: list[str] = []
    encode_shards(small_corpus(), WordEmbedder, SPEC, folder=tmp_path, say=said.append)
    assert said[1].startswith(f"shard 1 of 5: {100 / N:.1f} %, ") and said[1].endswith(" left")
    assert [line.split(" %")[0] for line in said[-2:]] == ["shard 5 of 5: 100.0"] * 2


def test_whole_shards_are_not_encoded_again_and_cut_ones_are(tmp_path: Path) -> None:
    encode_shards(small_corpus(), WordEmbedder, SPEC, folder=tmp_path)
    assert isinstance(encode_shards(small_corpus(), never, SPEC, folder=tmp_path), VectorShards)
    before = bytes_of(tmp_path)
    cut = shard_folder(tmp_path, 2) / "vectors.npy"
    cut.write_bytes(cut.read_bytes()[:-3])
    encode_shards(small_corpus(), WordEmbedder, SPEC, folder=tmp_path)
    assert bytes_of(tmp_path) == before


def test_shards_of_another_corpus_are_refused_unless_replaced(tmp_path: Path) -> None:
    encode_shards(small_corpus(), WordEmbedder, SPEC, folder=tmp_path)
    other = MemoryCorpus(PASSAGES)
    with pytest.raises(StaleIndexError, match="delete"):
        encode_shards(other, WordEmbedder, SPEC, folder=tmp_path)
    shards = encode_shards(other, WordEmbedder, SPEC, folder=tmp_path, rebuild=True)
    assert len(np.concatenate(list(shards.batches()))) == len(PASSAGES)


def test_a_spec_that_cannot_be_stored_is_refused() -> None:
    for wrong in (("words", "", "int8", 1), ("words", "", "float16", 0), ("", "", "float16", 1)):
        with pytest.raises(ConfigError, match="expected a named embedder"):
            VectorSpec(*wrong)
