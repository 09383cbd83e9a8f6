"""Dense retrieval: an embedder and a FAISS index of inner products, exact or approximate by size.

Any object with ``embed`` is an embedder; ``encoders`` loads one from a folder. Vectors are checked and normalised, so a
score is a cosine (up to the rounding of an approximate index). Exact indexes are built here when they are missing;
the others are built by ``ssp index build``, and are only opened here.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ssp_env.errors import ConfigError, RetrievalError, StaleIndexError
from ssp_env.protocols import Corpus, Embedder
from ssp_env.retrieval.encoders import SentenceTransformerEmbedder, Vectors, embed_checked, embed_passages, preset
from ssp_env.retrieval.faiss_index import (
    FLAT_BELOW,
    VectorIndex,
    flat_index,
    from_bytes,
    index_shape,
    open_index,
    require_gpu_kind,
    resolve_kind,
    set_threads,
    to_bytes,
    to_gpu,
    write_index,
)
from ssp_env.retrieval.ranking import Found, check_arguments, index_folder, rank
from ssp_env.schema import parse
from ssp_env.storage import ensure_folder, read_manifest
from ssp_env.types import SearchResult

_LOG = logging.getLogger(__name__)

INDEX_VERSION = 1
SCORE_DECIMALS = 5
FLAT_BYTES_PER_S = 14e9
"""How fast one thread compares a query with vectors in memory (384 dimensions, AVX2)."""


@dataclass(frozen=True, slots=True)
class DenseSettings:
    """What can be set from a configuration.

    Attributes:
        model: Folder of a sentence-transformers model, or ``minilm``; needed unless an embedder is passed in code.
        preset: ``e5``, ``bge`` or ``minilm``: prefixes and pooling of a family of models.
        query_prefix: Put before queries; empty takes that of the preset.
        passage_prefix: Put before passages; empty takes that of the preset.
        device: Where texts are encoded, as in torch; ``auto`` takes a GPU when there is one.
        batch_size: Texts a forward pass.
        kind: One of ``faiss_index.KINDS``, or ``auto``: exact below 100,000 passages. Exact in memory.
        effort: Lists or graph candidates looked at, a query; 0 takes the default of the kind.
        search_device: ``cpu``, or ``cuda`` to copy the index to a GPU.
        n_threads: Threads of FAISS for a search; 0 leaves them as they are.
        rebuild: Whether an index of another corpus is replaced.
    """

    model: str = ""
    preset: str = ""
    query_prefix: str = ""
    passage_prefix: str = ""
    device: str = "cpu"
    batch_size: int = 32
    kind: str = "auto"
    effort: int = 0
    search_device: str = "cpu"
    n_threads: int = 0
    rebuild: bool = False


def with_prefixes(settings: DenseSettings) -> DenseSettings:
    """Return the settings with the prefixes of the preset filled in."""
    chosen = preset(settings.preset)
    return replace(
        settings,
        query_prefix=settings.query_prefix or chosen.query_prefix,
        passage_prefix=settings.passage_prefix or chosen.passage_prefix,
    )


def load_embedder(settings: DenseSettings) -> SentenceTransformerEmbedder:
    """Load the model of the settings."""
    pooling = preset(settings.preset).pooling
    return SentenceTransformerEmbedder(
        settings.model, device=settings.device, batch_size=settings.batch_size, pooling=pooling
    )


def dense_folder(
    index_dir: Path, corpus: Corpus, *, embedder_id: str, settings: DenseSettings
) -> tuple[Path, dict[str, object]]:
    """Return the folder of an index and what its manifest must say; settings have their prefixes filled in."""
    kind = resolve_kind(settings.kind, len(corpus))
    own: dict[str, object] = {
        "embedder": embedder_id,
        "passage_prefix": settings.passage_prefix,
        "index": "FlatIP" if kind == "flat" else kind,
    }
    expected = {"kind": "dense", "version": INDEX_VERSION, "settings": own, "corpus": corpus.fingerprint}
    return index_folder(index_dir, "dense", own), expected


def make_dense(corpus: Corpus, config: Mapping[str, object], index_dir: Path | None) -> DenseRetriever:
    """Make the retriever from a plain configuration with the keys of ``DenseSettings``."""
    settings = parse(DenseSettings, config, what="'dense'")
    if not settings.model:
        raise ConfigError("expected 'model' for 'dense', got none; set it to a sentence-transformers model folder")
    embedder = load_embedder(settings)
    return DenseRetriever(corpus, embedder, settings=settings, embedder_id=embedder.identity, index_dir=index_dir)


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
            StaleIndexError: If the index there is of another corpus and ``rebuild`` is not set, or an approximate one
                is missing.
            ConfigError: If the kind needs a folder and there is none, or it cannot be searched where it should.
            RetrievalError: If the embedder returns anything but finite vectors of one shape.
            ImportError: If FAISS is missing.
        """
        if index_dir is not None and not embedder_id:
            raise ValueError("expected an embedder_id for a saved index, got none; name the model and its version")
        self._corpus, self._embedder = corpus, embedder
        self._settings = with_prefixes(settings or DenseSettings())
        self._embedder_id = embedder_id
        self._kind = self._resolve(index_dir)
        self._folder = None if index_dir is None else self._ensure(Path(index_dir))
        self._load(None)

    def __getstate__(self) -> dict[str, object]:
        """Leave a saved index out of pickles; it is opened again from its folder."""
        return {**self.__dict__, "_index": None if self._folder else to_bytes(self._index)}

    def __setstate__(self, state: dict[str, object]) -> None:
        """Restore from ``__getstate__``."""
        self.__dict__.update(state)
        self._load(None if self._folder else from_bytes(state["_index"]))

    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        """Return the nearest passages for each query, best first, ties by passage id."""
        check_arguments(queries, k)
        asked = [number for number, query in enumerate(queries) if query.strip()]
        results: list[list[SearchResult]] = [[] for _ in queries]
        if not asked:
            return results
        prefix = self._settings.query_prefix
        texts = [f"{prefix}{queries[number]}" for number in asked]
        vectors = embed_checked(self._embedder, texts, dimension=self._index.d)  # (asked, d) float32
        first = min(k + 1, len(self._corpus))
        found = self._nearest(vectors, first)  # one call for all queries: FAISS shares the work among them
        for row, number in enumerate(asked):

            def fetch(limit: int, row: int = row) -> Found:
                return found[row] if limit == first else self._nearest(vectors[row : row + 1], limit)[0]

            results[number] = rank(self._corpus, fetch, k=k)
        return results

    def _nearest(self, vectors: Vectors, limit: int) -> list[Found]:
        set_threads(self._settings.n_threads)  # OpenMP keeps it by thread, and this may be another one than loaded
        scores, positions = self._index.search(vectors, limit)  # both (q, limit), positions padded with -1
        return [
            [(round(float(s), SCORE_DECIMALS), int(p)) for s, p in zip(*row, strict=True) if p >= 0]
            for row in zip(scores, positions, strict=True)
        ]

    def _resolve(self, index_dir: Path | None) -> str:
        """Return the kind of index, and refuse what cannot be searched before anything is loaded."""
        settings = self._settings
        if settings.search_device not in ("cpu", "cuda"):
            raise ConfigError(f"expected 'cpu' or 'cuda' for 'search_device', got {settings.search_device!r}")
        n = len(self._corpus)
        kind = "flat" if index_dir is None and settings.kind == "auto" else resolve_kind(settings.kind, n)
        if index_dir is None and kind != "flat":
            raise ConfigError(f"expected an index_dir for {kind!r}, got none; give one, or use kind='flat'")
        if settings.search_device == "cuda":
            require_gpu_kind(kind)
        return kind

    def _ensure(self, index_dir: Path) -> Path:
        folder, expected = dense_folder(index_dir, self._corpus, embedder_id=self._embedder_id, settings=self._settings)
        ensure_folder(
            folder,
            expected,
            build=self._save if self._kind == "flat" else self._refuse,
            on_mismatch="replace" if self._settings.rebuild else "refuse",
        )
        return folder

    def _save(self, folder: Path) -> dict[str, object]:
        index = self._build_index()
        write_index(index, folder)
        return {"n_passages": index.ntotal, "dimension": index.d}

    def _refuse(self, folder: Path) -> dict[str, object]:
        wanted = f"a built index of kind {self._kind!r} for {len(self._corpus):,} passages"
        remedy = "run 'ssp index build' with the same encoder, or set kind='flat'"
        raise StaleIndexError(f"expected {wanted} in {folder.parent}, got none; {remedy}")

    def _build_index(self) -> VectorIndex:
        everything = range(len(self._corpus))
        prefix = self._settings.passage_prefix
        index = flat_index(embed_passages(self._embedder, self._corpus, everything, prefix=prefix))
        if index is None:
            raise RetrievalError("expected at least one passage, got an empty corpus; check the paths")
        return index

    def _load(self, index: VectorIndex | None) -> None:
        """Take an index in memory, build one, or open the saved one; then prepare it for searching."""
        settings = self._settings
        set_threads(settings.n_threads)
        if self._folder is not None:
            manifest = read_manifest(self._folder) or {}
            shape = index_shape(self._kind, len(self._corpus), int(str(manifest["dimension"])))
            index = open_index(self._folder, shape, effort=settings.effort)
        self._index = self._build_index() if index is None else index
        n_bytes = 4 * self._index.d * self._index.ntotal
        if settings.search_device == "cuda":
            self._index = to_gpu(self._index, n_bytes=n_bytes)
        elif self._kind == "flat" and self._index.ntotal >= FLAT_BELOW:
            _LOG.warning(
                "exact search over %d passages takes about %.0f ms a query on one thread; use kind='ivf-sq8' or a GPU",
                self._index.ntotal,
                1000 * n_bytes / FLAT_BYTES_PER_S,
            )
