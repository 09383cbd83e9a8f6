from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from ssp_env.build.ray_encode import encode_on_ray
from ssp_env.build.vectors import encode_shards, n_missing, shard_folder
from ssp_env.cli.main import main
from ssp_env.errors import RetrievalError
from tests.build.test_vectors import SPEC, N, bytes_of
from tests.ray.fakes import MetEmbedder, NanEmbedder
from tests.retrieval_fakes import DyingCorpus, WordEmbedder, small_corpus

pytestmark = [
    pytest.mark.ray,
    pytest.mark.usefixtures("cluster"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of Ray itself
]

KILLED = """
import os, sys
from pathlib import Path
from ssp_env.build.ray_encode import encode_on_ray
from tests.build.test_vectors import SPEC
from tests.retrieval_fakes import DyingCorpus, WordEmbedder, small_corpus

corpus = DyingCorpus(small_corpus(), deadly=9, other=os.getpid())
encode_on_ray(corpus, WordEmbedder, SPEC, folder=Path(sys.argv[1]), n_workers=2)
"""


@pytest.fixture
def local(tmp_path: Path) -> dict[str, bytes]:
    """The shards of one process without Ray."""
    encode_shards(small_corpus(), WordEmbedder, SPEC, folder=tmp_path / "local")
    return bytes_of(tmp_path / "local")


def tiny_model(folder: Path) -> Path:
    """Save a random sentence embedder of a few thousand weights."""
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("sentence_transformers")
    import torch

    from tests.training.models import word_tokenizer

    tokenizer = word_tokenizer()
    torch.manual_seed(0)
    shape = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    config = transformers.BertConfig(vocab_size=len(tokenizer), max_position_embeddings=64, **shape)
    transformers.BertModel(config).save_pretrained(folder)
    tokenizer.model_max_length = 64
    tokenizer.save_pretrained(folder)
    return folder


def test_the_command_builds_the_index_of_one_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ("paris", "lima", "oslo", "peru", "norway", "france", "city", "country")
    texts = (f"{words[n % 8]} lies in {words[n // 8 % 8]} {words[n // 64 % 8]}" for n in range(8200))
    rows = ({"id": f"p{n}", "title": words[n % 8], "text": text} for n, text in enumerate(texts))
    corpus = tmp_path / "passages.jsonl"
    corpus.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    arguments = ["--retriever", "dense", "--encoder", str(tiny_model(tmp_path / "tiny")), "--device", "cpu"]
    built = {}
    for name, option in (("local", []), ("ray", ["--ray-workers", "2"])):
        arguments_here = [str(corpus), *arguments, "--index-dir", str(tmp_path / name), *option]
        assert main(["index", "build", *arguments_here]) == 0, capsys.readouterr().err
        assert json.loads(capsys.readouterr().out)["n_passages"] == 8200
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.suffix in (".npy", ".faiss", ".index"))
        built[name] = {path.relative_to(tmp_path / name).as_posix(): path.read_bytes() for path in files}
    assert len(built["local"]) == 7  # the index, two shards, and the table's four columns
    assert built["ray"] == built["local"]


def test_two_workers_make_the_bytes_of_one_process(local: dict[str, bytes], tmp_path: Path) -> None:
    (met := tmp_path / "met").mkdir()
    said: list[str] = []
    load = partial(MetEmbedder, met, 2)
    shards = encode_on_ray(small_corpus(), load, SPEC, folder=tmp_path / "ray", n_workers=2, say=said.append)
    assert bytes_of(tmp_path / "ray") == local
    assert (shards.n, shards.dimension) == (N, 64)
    workers = {int(path.name) for path in met.iterdir()}
    assert len(workers) == 2 and os.getpid() not in workers
    assert len(said) == 5 and "100.0 %" in said[-1]


def test_a_worker_that_is_killed_once_costs_nothing_but_time(local: dict[str, bytes], tmp_path: Path) -> None:
    corpus = DyingCorpus(small_corpus(), deadly=9, once=tmp_path / "died")
    encode_on_ray(corpus, WordEmbedder, SPEC, folder=tmp_path / "ray", n_workers=2)
    assert (tmp_path / "died").exists()
    assert bytes_of(tmp_path / "ray") == local


@pytest.mark.usefixtures("joining")
def test_a_killed_job_keeps_its_shards_and_goes_on(local: dict[str, bytes], repository: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ray"
    child = subprocess.run([sys.executable, "-c", KILLED, str(folder)], cwd=repository, timeout=120)
    assert child.returncode == -signal.SIGKILL
    assert 0 < n_missing(folder, N, SPEC.shard_passages) < N
    kept = {path: path.stat().st_ino for path in folder.glob("0*/manifest.json")}
    encode_on_ray(small_corpus(), WordEmbedder, SPEC, folder=folder, n_workers=2)
    assert bytes_of(folder) == local
    assert {path: path.stat().st_ino for path in kept} == kept


def test_a_failure_on_a_worker_is_told_as_it_would_be_here(tmp_path: Path) -> None:
    with pytest.raises(RetrievalError, match=r"^expected finite vectors, got NaN or infinity; [^\n]*$"):
        encode_on_ray(small_corpus(), NanEmbedder, SPEC, folder=tmp_path, n_workers=2)
    assert not shard_folder(tmp_path, 0).exists()


def test_a_job_that_only_kills_its_workers_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ssp_env.build.ray_encode.NO_PROGRESS_S", 5.0)
    with pytest.raises(RetrievalError, match=r"expected shards from the workers, got ExecutionTimeoutError: .*; see"):
        encode_on_ray(DyingCorpus(small_corpus(), deadly=9), WordEmbedder, SPEC, folder=tmp_path, n_workers=1)
