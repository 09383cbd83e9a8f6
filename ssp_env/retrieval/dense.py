"""Dense retrieval: an embedder and an exact FAISS index of inner products.

Any object with ``embed`` is an embedder; ``SentenceTransformerEmbedder`` loads one from a folder. Vectors are checked
and normalised here, so a score is a cosine. Models trained with prefixes (E5: ``"query: "``, ``"passage: "``, arXiv
2212.03533) get them through the settings. Approximate indexes are left out; ``_new_index`` is the place for them.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from types import ModuleType
from typing import Protocol

import numpy as np
import numpy.typing as npt

from ssp_env.artefacts import ensure_folder
from ssp_env.errors import ConfigError, RetrievalError
from ssp_env.protocols import Corpus, Embedder
from ssp_env.retrieval.ranking import Found, check_arguments, index_folder, rank, read_settings
from ssp_env.types import SearchResult

_LOG = logging.getLogger(__name__)

INDEX_VERSION = 1
CHUNK_PASSAGES = 2048
SCORE_DECIMALS = 5
Vectors = npt.NDArray[np.float32]


class _Index(Protocol):
    """The part of a FAISS index that is used."""

    d: int
    ntotal: int

    def add(self, vectors: Vectors) -> None: ...

    def search(self, vectors: Vectors, k: int) -> tuple[Vectors, npt.NDArray[np.int64]]: ...


@dataclass(frozen=True, slots=True)
class DenseSettings:
    """What can be set from a configuration.

    ``model`` is the folder of a sentence-transformers model and is needed unless an embedder is passed in code.
    """

    model: str = ""
    query_prefix: str = ""
    passage_prefix: str = ""
    device: str = "cpu"
    batch_size: int = 32
    rebuild: bool = False


def make_dense(corpus: Corpus, config: Mapping[str, object], index_dir: Path | None) -> DenseRetriever:
    """Make the retriever from a plain configuration with the keys of ``DenseSettings``."""
    settings = read_settings(DenseSettings(), config, owner="dense")
    if not settings.model:
        raise ConfigError("expected 'model' for 'dense', got none; set it to a sentence-transformers model folder")
    embedder = SentenceTransformerEmbedder(settings.model, device=settings.device, batch_size=settings.batch_size)
    return DenseRetriever(corpus, embedder, settings=settings, embedder_id=embedder.identity, index_dir=index_dir)


class SentenceTransformerEmbedder:
    """A sentence-transformers model from a folder; see ``protocols.Embedder``.

    ``identity`` tells models apart: folder name, digest of the configuration and weight sizes, and dimension.
    """

    def __init__(self, model: str | Path, *, device: str = "cpu", batch_size: int = 32) -> None:
        """Load the model; nothing is downloaded.

        Raises:
            ConfigError: If the folder is missing or holds no such model.
            ImportError: If sentence-transformers is missing.
        """
        folder = Path(model)
        if not (folder / "config.json").is_file():
            raise ConfigError(f"expected a sentence-transformers model folder, got {str(model)!r}; check the path")
        try:
            from sentence_transformers import SentenceTransformer
        except ImportError as error:
            raise ImportError(_extra_message("sentence-transformers")) from error
        self._model = SentenceTransformer(str(folder), device=device, local_files_only=True)
        self._batch_size = batch_size
        self._arguments = (folder.absolute(), device, batch_size)
        self.identity = f"{folder.name}-{_model_digest(folder)}-{self.embed(['']).shape[1]}"

    def __reduce__(self) -> tuple[Callable[[Path, str, int], SentenceTransformerEmbedder], tuple[Path, str, int]]:
        """Pickle the path only; unpickling loads the model again."""
        return (_load_embedder, self._arguments)

    def embed(self, texts: Sequence[str]) -> Vectors:
        """Return unit-length vectors, float32, shape ``(len(texts), d)``."""
        clean = [text.encode("utf-8", "replace").decode("utf-8") for text in texts]
        vectors: Vectors = self._model.encode(
            clean, batch_size=self._batch_size, normalize_embeddings=True, show_progress_bar=False
        )
        return vectors


class DenseRetriever:
    """Finds the passages nearest in meaning; see ``protocols.Retriever``.

    There is always a nearest passage, so only a blank query has no result. Scores are cosines in -1 .. 1, rounded
    to 5 decimals. Unpickling copies the embedder, and the index too when it is in memory only.
    """

    def __init__(
        self,
        corpus: Corpus,
        embedder: Embedder,
        *,
        settings: DenseSettings | None = None,
        embedder_id: str = "",
        index_dir: Path | None = None,
    ) -> None:
        """Open the index of this corpus in ``index_dir``, or build it; None keeps it in memory.

        Raises:
            ValueError: If the index is to be saved and ``embedder_id`` does not say whose vectors it holds.
            StaleIndexError: If the index there is of another corpus and ``rebuild`` is not set.
            RetrievalError: If the embedder returns anything but finite vectors of one shape.
            ImportError: If FAISS is missing.
        """
        if index_dir is not None and not embedder_id:
            raise ValueError("expected an embedder_id for a saved index, got none; name the model and its version")
        self._corpus, self._embedder = corpus, embedder
        self._settings = settings or DenseSettings()
        self._embedder_id = embedder_id
        self._folder = None if index_dir is None else self._ensure(Path(index_dir))
        self._index = self._build_index() if self._folder is None else _read_index(self._folder)

    def __getstate__(self) -> dict[str, object]:
        """Leave a saved index out of pickles; it is read again from its folder."""
        return {**self.__dict__, "_index": None if self._folder else _to_bytes(self._index)}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore from ``__getstate__``."""
        self.__dict__.update(state)
        self._index = _read_index(self._folder) if self._folder else _from_bytes(state["_index"])

    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        """Return the nearest passages for each query, best first, ties by passage id.

        Raises:
            TypeError: If ``queries`` is a single string.
            ValueError: If ``k`` is not positive.
            RetrievalError: If the embedder returns anything but finite vectors of the index's dimension.
        """
        check_arguments(queries, k)
        asked = [number for number, query in enumerate(queries) if query.strip()]
        results: list[list[SearchResult]] = [[] for _ in queries]
        if not asked:
            return results
        prefix = self._settings.query_prefix
        vectors = self._vectors([f"{prefix}{queries[number]}" for number in asked])
        first = min(k + 1, len(self._corpus))
        found = self._nearest(vectors, first)
        for row, number in enumerate(asked):

            def fetch(limit: int, row: int = row) -> Found:
                return found[row] if limit == first else self._nearest(vectors[row : row + 1], limit)[0]

            results[number] = rank(self._corpus, fetch, k=k)
        return results

    def _nearest(self, vectors: Vectors, limit: int) -> list[Found]:
        scores, positions = self._index.search(vectors, limit)
        return [
            [(round(float(s), SCORE_DECIMALS), int(p)) for s, p in zip(*row, strict=True) if p >= 0]
            for row in zip(scores, positions, strict=True)
        ]

    def _ensure(self, index_dir: Path) -> Path:
        settings = {"embedder": self._embedder_id, "passage_prefix": self._settings.passage_prefix, "index": "FlatIP"}
        folder = index_folder(index_dir, "dense", settings)
        ensure_folder(
            folder,
            {"kind": "dense", "version": INDEX_VERSION, "settings": settings, "corpus": self._corpus.fingerprint},
            build=self._save,
            on_mismatch="replace" if self._settings.rebuild else "refuse",
        )
        return folder

    def _save(self, folder: Path) -> dict[str, object]:
        index = self._build_index()
        _faiss().write_index(index, str(folder / "index.faiss"))
        return {"n_passages": index.ntotal, "dimension": index.d}

    def _build_index(self) -> _Index:
        prefix = self._settings.passage_prefix
        index: _Index | None = None
        for start in range(0, len(self._corpus), CHUNK_PASSAGES):
            chunk = range(start, min(start + CHUNK_PASSAGES, len(self._corpus)))
            passages = [self._corpus.at(position) for position in chunk]
            vectors = self._vectors([f"{prefix}{passage.title}\n{passage.text}" for passage in passages])
            index = _new_index(vectors.shape[1]) if index is None else index
            index.add(vectors)
            _LOG.info("embedded %d of %d passages", chunk.stop, len(self._corpus))
        if index is None:
            raise RetrievalError("expected at least one passage, got an empty corpus; check the paths")
        return index

    def _vectors(self, texts: Sequence[str]) -> Vectors:
        """Embed, check and normalise; a vector of zeros stays one."""
        vectors = np.ascontiguousarray(self._embedder.embed(texts))
        wanted = f"({len(texts)}, d)"
        if vectors.dtype != np.float32 or vectors.ndim != 2 or len(vectors) != len(texts):
            got = f"{vectors.dtype} {vectors.shape}"
            raise RetrievalError(f"expected float32 vectors of shape {wanted}, got {got}; fix the embedder")
        if not np.isfinite(vectors).all():
            raise RetrievalError("expected finite vectors, got NaN or infinity; check the model and its precision")
        index: _Index | None = self.__dict__.get("_index")
        if index is not None and index.d != vectors.shape[1]:
            raise RetrievalError(f"expected {index.d} dimensions, got {vectors.shape[1]}; use the index's own embedder")
        norms = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.divide(vectors, np.where(norms > 0, norms, 1.0), dtype=np.float32)


def _load_embedder(folder: Path, device: str, batch_size: int) -> SentenceTransformerEmbedder:
    return SentenceTransformerEmbedder(folder, device=device, batch_size=batch_size)


def _faiss() -> ModuleType:
    try:
        import faiss
    except ImportError as error:
        raise ImportError(_extra_message("faiss")) from error
    module: ModuleType = faiss
    return module


def _extra_message(package: str) -> str:
    return f"dense retrieval needs {package}: pip install 'ssp-env[dense]'"


def _new_index(dimension: int) -> _Index:
    index: _Index = _faiss().IndexFlatIP(dimension)
    return index


def _read_index(folder: Path) -> _Index:
    index: _Index = _faiss().read_index(str(folder / "index.faiss"))
    return index


def _to_bytes(index: _Index) -> npt.NDArray[np.uint8]:
    data: npt.NDArray[np.uint8] = _faiss().serialize_index(index)
    return data


def _from_bytes(data: object) -> _Index:
    index: _Index = _faiss().deserialize_index(data)
    return index


def _model_digest(folder: Path) -> str:
    """Digest what defines a model without reading its weights: every JSON file, and the sizes of weight files."""
    digest = blake2b(digest_size=4)
    for file in sorted(folder.rglob("*")):
        name = file.relative_to(folder).as_posix()
        if file.suffix == ".json":
            digest.update(json.dumps([name, file.read_text(encoding="utf-8")]).encode())
        elif file.suffix in (".safetensors", ".bin"):
            digest.update(json.dumps([name, file.stat().st_size]).encode())
    return digest.hexdigest()
