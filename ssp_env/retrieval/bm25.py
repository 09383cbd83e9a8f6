"""BM25 with tantivy: stemmed, accent-blind, deterministic, on disk or in memory.

Title and text go into one field, the title twice, so that a passage about a thing ranks above one that mentions it.
Queries are sets of words: they have no syntax, and no text is an error. Only the position of a passage is stored.
The formula is Robertson and Zaragoza 2009, with tantivy's fixed k1 = 1.2 and b = 0.75.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from ssp_env.errors import ConfigError, RetrievalError, StaleIndexError
from ssp_env.protocols import Corpus
from ssp_env.retrieval.ranking import Found, check_arguments, index_folder, rank
from ssp_env.schema import parse
from ssp_env.storage import ensure_folder
from ssp_env.types import Passage, SearchResult

if TYPE_CHECKING:
    import tantivy

INDEX_VERSION = 1
MAX_QUERY_TERMS = 256
"""Of longer queries only this many distinct words count, the first ones."""
MAX_WORD_BYTES = 80
MAX_THREADS = 256
SCORE_DECIMALS = 4
HEAP_BYTES = 256_000_000

_UNSPACED = re.compile("([\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])")


@dataclass(frozen=True, slots=True)
class Bm25Settings:
    """What can be set from a configuration; ``language`` names the stop words and the stemmer."""

    language: str = "english"
    n_threads: int = 1
    rebuild: bool = False


def make_bm25(corpus: Corpus, config: Mapping[str, object], index_dir: Path | None) -> Bm25Retriever:
    """Make the retriever from a plain configuration with the keys of ``Bm25Settings``."""
    settings = parse(Bm25Settings, config, what="'bm25'")
    if not 1 <= settings.n_threads <= MAX_THREADS:
        raise ConfigError(f"expected n_threads in 1 .. {MAX_THREADS} for 'bm25', got {settings.n_threads!r}; change it")
    return Bm25Retriever(corpus, settings, index_dir=index_dir)


class Bm25Retriever:
    """Finds passages that share words with the query; see ``protocols.Retriever``.

    Passages that share no word with the query are left out. Scores are positive, rounded to 4 decimals, and
    comparable within one query only. Safe to use from several threads and in forked or spawned processes.
    """

    def __init__(self, corpus: Corpus, settings: Bm25Settings | None = None, *, index_dir: Path | None = None) -> None:
        """Open the index of this corpus in ``index_dir``, or build it; None keeps it in memory.

        Raises:
            StaleIndexError: If the index there was built from another corpus and ``rebuild`` is not set.
            ConfigError: If the language is unknown, or ``index_dir`` has to be written to and cannot be.
        """
        import tantivy

        self._arguments = (corpus, settings or Bm25Settings(), index_dir)
        self._corpus, self._settings, _ = self._arguments
        self._analyzer = _analyzer(self._settings.language)
        self._schema = _schema()
        if index_dir is None:
            index = tantivy.Index(self._schema)
            self._fill(index)
        else:
            index = self._open(Path(index_dir))
        index.config_reader(reload_policy="manual")  # the index never changes: no thread has to watch its folder
        index.reload()
        self._searcher = index.searcher()

    def __reduce__(self) -> tuple[Callable[..., Bm25Retriever], tuple[object, ...]]:
        """Pickle what it was made from; unpickling opens the index again, or builds it again in memory."""
        return (_remake, self._arguments)

    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        """Return the best passages for each query, best first, ties by passage id; may be fewer than ``k``."""
        check_arguments(queries, k)
        if self._settings.n_threads <= 1 or len(queries) <= 1:
            return [self._search_one(query, k) for query in queries]
        with ThreadPoolExecutor(self._settings.n_threads) as pool:
            return list(pool.map(lambda query: self._search_one(query, k), queries))

    def _search_one(self, query: str, k: int) -> list[SearchResult]:
        from tantivy import Occur, Query

        words = list(dict.fromkeys(self._analyzer.analyze(_clean(query))))[:MAX_QUERY_TERMS]
        if not words:
            return []
        terms = [(Occur.Should, Query.term_query(self._schema, "text", word, "freq")) for word in words]
        wanted = Query.boolean_query(terms)

        def fetch(limit: int) -> Found:
            try:
                hits = self._searcher.search(wanted, limit, count=False).hits
                positions = self._searcher.fast_field_values("position", [address for _, address in hits])
            except (OSError, ValueError) as error:
                raise RetrievalError(f"expected an answer from the index, got {error}; rebuild it") from error
            return [
                (round(score, SCORE_DECIMALS), int(position))
                for (score, _), position in zip(hits, positions, strict=True)
                if position is not None
            ]

        return rank(self._corpus, fetch, k=k)

    def _open(self, index_dir: Path) -> tantivy.Index:
        import tantivy

        settings = {"language": self._settings.language}
        folder = index_folder(index_dir, "bm25", settings)
        ensure_folder(
            folder,
            {"kind": "bm25", "version": INDEX_VERSION, "settings": settings, "corpus": self._corpus.fingerprint},
            build=self._build,
            on_mismatch="replace" if self._settings.rebuild else "refuse",
        )
        if not tantivy.Index.is_compatible(str(folder)):
            raise StaleIndexError(
                f"expected an index of tantivy {version('tantivy')}, got an older one; delete {folder}"
            )
        return tantivy.Index.open(str(folder))

    def _build(self, folder: Path) -> dict[str, object]:
        import tantivy

        self._fill(tantivy.Index(self._schema, path=str(folder)))
        return {"n_passages": len(self._corpus), "engine": f"tantivy {version('tantivy')}"}

    def _fill(self, index: tantivy.Index) -> None:
        """Index in one thread and commit once, so that the same corpus gives the same index."""
        from tantivy import Document

        index.register_tokenizer("words", self._analyzer)
        writer = index.writer(heap_size=HEAP_BYTES, num_threads=1)
        for position in range(len(self._corpus)):
            document = Document()
            document.add_text("text", _indexed_text(self._corpus.at(position)))
            document.add_unsigned("position", position)
            writer.add_document(document)
        writer.commit()
        writer.wait_merging_threads()


def _remake(corpus: Corpus, settings: Bm25Settings, index_dir: Path | None) -> Bm25Retriever:
    if settings.rebuild:
        settings = Bm25Settings(**{**asdict(settings), "rebuild": False})
    return Bm25Retriever(corpus, settings, index_dir=index_dir)


def _schema() -> tantivy.Schema:
    from tantivy import SchemaBuilder

    builder = SchemaBuilder().add_text_field("text", tokenizer_name="words", index_option="freq")
    return builder.add_unsigned_field("position", fast=True).build()


def _analyzer(language: str) -> tantivy.TextAnalyzer:
    from tantivy import Filter, TextAnalyzerBuilder, Tokenizer

    builder = TextAnalyzerBuilder(Tokenizer.simple()).filter(Filter.remove_long(MAX_WORD_BYTES))
    builder = builder.filter(Filter.lowercase()).filter(Filter.ascii_fold())
    try:
        return builder.filter(Filter.stopword(language)).filter(Filter.stemmer(language)).build()
    except ValueError as error:
        raise ConfigError(f"expected a language of tantivy, got {language!r} ({error}); try 'english'") from error


def _indexed_text(passage: Passage) -> str:
    return _clean(f"{passage.title}\n{passage.title}\n{passage.text}")


def _clean(text: str) -> str:
    """Compose accents, part the characters of scripts without spaces, and replace what is no Unicode text."""
    if text.isascii():
        return text
    text = text.encode("utf-8", "replace").decode("utf-8")
    return _UNSPACED.sub(r" \1 ", unicodedata.normalize("NFKC", text))
