"""Measures indexes by size over generated passages: build time, bytes, latency, memory, recall@10 against exact search.

Each cell (a size and a kind of index) runs in a process of its own and is saved at once, so that the job can be stopped
and started again. Vectors are random projections of the words of a passage weighted by rarity, 384 dimensions, which
share words as passages do but have less structure than those of a trained encoder: recall of inverted lists is
pessimistic. Queries are sentences of passages. Numbers at 21 million passages are straight lines through the largest
size, or plans, and are named so.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tyro

from benchmarks.card import ROOT, command_line, write_card
from benchmarks.speed.processes import memory_mib
from ssp_env.build import build_dense, plan_dense
from ssp_env.corpus import JsonlCorpus, open_corpus
from ssp_env.protocols import Retriever
from ssp_env.retrieval import make_retriever
from ssp_env.retrieval.dense import DenseRetriever, DenseSettings
from ssp_env.retrieval.faiss_index import KINDS, index_shape, set_threads
from ssp_env.storage import write_json
from ssp_env.world import World, WorldConfig

CELLS = ("bm25", *KINDS)
K = 10
DIMENSION = 384
WORD_ROWS = 1 << 16
WIKI_PASSAGES = 21_015_324


@dataclass(frozen=True)
class Config:
    """Settings of the index benchmark."""

    sizes: tuple[int, ...] = (100_000, 300_000, 1_000_000, 2_000_000)
    """Passages."""
    cells: tuple[str, ...] = CELLS
    """What to measure at each size; 'flat' first of the vector indexes, since the others are compared with it."""
    work: Path = Path("runs/index")
    """Corpora, indexes and finished cells."""
    n_queries: int = 1000
    """Queries of a cell; exact search gets a tenth."""
    limit_s: float = 3600.0
    """Seconds after which a cell is given up."""
    output: Path = Path("benchmarks/results/index.json")
    """The result card."""
    child: str = ""
    """Internal: measure this one cell of the first size, and stop."""


class TermEmbedder:
    """Adds up one random direction a word, weighted by its rarity among the first passages."""

    def __init__(self, corpus: JsonlCorpus) -> None:
        """Count words in at most 20,000 passages."""
        self._rows = np.random.default_rng(0).standard_normal((WORD_ROWS, DIMENSION)).astype(np.float32)
        n = min(len(corpus), 20_000)
        counts: Counter[int] = Counter()
        for position in range(n):
            counts.update(set(_words(corpus.at(position).text)))
        self._weights = np.full(WORD_ROWS, np.log(n + 1.0), np.float32)
        for row, count in counts.items():
            self._weights[row] = np.log((n + 1) / (count + 1)) + 0.1

    def embed(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        """Return unit-length vectors."""
        vectors = np.empty((len(texts), DIMENSION), np.float32)
        for number, text in enumerate(texts):
            words = _words(text)
            vectors[number] = self._weights[words] @ self._rows[words] if words else 0.0
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-9)
        return vectors


def main(config: Config) -> None:
    """Run the cells that are missing and write the card of those that are there."""
    if config.child:
        measure(config, config.sizes[0], config.child)
        return
    for size in config.sizes:
        for cell in config.cells:
            if not _result(config, size, cell).exists():
                print(f"{size:,} {cell}: {_run(config, size, cell)}", flush=True)
    places = {size: {cell: _result(config, size, cell) for cell in CELLS} for size in sorted(config.sizes)}
    found = {
        f"{size}": {cell: json.loads(path.read_bytes()) for cell, path in cells.items() if path.exists()}
        for size, cells in places.items()
    }
    missing = [f"{size} {cell}" for size in config.sizes for cell in config.cells if cell not in found[f"{size}"]]
    figures = {"by_size": found, "not_measured": missing, "wikipedia": extrapolate(found)}
    settings = {"k": K, "dimension": DIMENSION, "n_queries": config.n_queries, "threads_of_search": 1}
    write_card(config.output, figures, command=command_line(), seeds=[0], settings=settings)


def _run(config: Config, size: int, cell: str) -> str:
    command = [sys.executable, "-m", "benchmarks.speed.run_index", "--child", cell, "--sizes", str(size)]
    command += ["--work", str(config.work), "--n-queries", str(config.n_queries)]
    try:
        done = subprocess.run(command, cwd=ROOT, timeout=config.limit_s, check=False)
    except subprocess.TimeoutExpired:
        return f"given up after {config.limit_s:.0f} s"
    return "done" if done.returncode == 0 else f"failed with exit code {done.returncode}"


def measure(config: Config, size: int, cell: str) -> None:
    """Build and search one index, and save the figures."""
    folder = config.work / f"{size}"
    path = folder / "passages.jsonl"
    folder.mkdir(parents=True, exist_ok=True)
    if not path.exists():
        World(WorldConfig(n_entities=size)).write_jsonl(path)
    corpus = open_corpus([path])
    queries = draw_queries(corpus, config.n_queries)
    figures, retriever = build_bm25(corpus) if cell == "bm25" else build_vectors(corpus, cell)
    set_threads(0 if cell == "bm25" else 1)
    asked = queries[: max(1, len(queries) // 10)] if cell == "flat" else queries
    searched, found = search(retriever, asked)
    exact = folder / "exact.json"
    if cell == "flat":
        write_json(exact, {"ids": found})
    elif cell != "bm25" and exact.exists():
        wanted = json.loads(exact.read_text("utf-8"))["ids"]
        hits = [len(set(w) & set(f)) / len(w) for w, f in zip(wanted, found, strict=False)]
        searched["recall_at_10_against_flat"] = round(float(np.mean(hits)), 4)
    write_json(_result(config, size, cell), {**figures, **searched})


def draw_queries(corpus: JsonlCorpus, n: int) -> list[str]:
    """Return the second sentence of passages drawn at random, or the first where there is one only."""
    positions = np.random.default_rng(2).integers(0, len(corpus), size=n)
    sentences = [corpus.at(int(position)).text.split(". ") for position in positions]
    return [parts[min(1, len(parts) - 1)] for parts in sentences]


def build_bm25(corpus: JsonlCorpus) -> tuple[dict[str, object], Retriever]:
    """Build the lexical index again."""
    for old in corpus.index_dir.glob("bm25-*"):
        shutil.rmtree(old)
    start, cpu_start = time.perf_counter(), time.process_time()
    retriever = make_retriever("bm25", corpus)
    figures: dict[str, object] = {
        "build_s": round(time.perf_counter() - start, 1),
        "build_cpu_s": round(time.process_time() - cpu_start, 1),
        "peak_rss_mib": int(memory_mib("VmHWM")),
        "disk_mib": _size_mib(next(corpus.index_dir.glob("bm25-*"))),
    }
    return figures, retriever


def build_vectors(corpus: JsonlCorpus, kind: str) -> tuple[dict[str, object], Retriever]:
    """Build a vector index from shards, which kinds of one precision share."""
    settings = DenseSettings(kind=kind)
    embedder = TermEmbedder(corpus)
    identity = f"terms-{DIMENSION}"
    cpu_start = time.process_time()
    manifest = build_dense(
        corpus, lambda: embedder, embedder_id=identity, settings=settings, index_dir=corpus.index_dir
    )
    figures: dict[str, object] = {
        "seconds": manifest["seconds"],
        "cpu_s": round(time.process_time() - cpu_start, 1),
        "peak_rss_mib": int(memory_mib("VmHWM")),
        "disk_mib": _size_mib(Path(str(manifest["folder"]))),
        "n_lists": manifest["n_lists"],
        "effort": index_shape(kind, len(corpus), DIMENSION).effort,
    }
    retriever = DenseRetriever(corpus, embedder, settings=settings, embedder_id=identity, index_dir=corpus.index_dir)
    return figures, retriever


def search(retriever: Retriever, queries: Sequence[str]) -> tuple[dict[str, object], list[list[str]]]:
    """Ask one query at a time in one thread, after ten that are not counted."""
    for query in queries[:10]:
        retriever.search([query], K)
    milliseconds: list[float] = []
    found: list[list[str]] = []
    for query in queries:
        start = time.perf_counter()
        (results,) = retriever.search([query], K)
        milliseconds.append(1000 * (time.perf_counter() - start))
        found.append([result.passage.id for result in results])
    figures: dict[str, object] = {
        "n_queries": len(queries),
        "p50_ms": round(float(np.percentile(milliseconds, 50)), 2),
        "p99_ms": round(float(np.percentile(milliseconds, 99)), 2),
        "memory_after_queries_mib": {name: int(memory_mib(name)) for name in ("RssAnon", "RssFile")},
    }
    return figures, found


def extrapolate(found: dict[str, dict[str, dict[str, object]]]) -> dict[str, object]:
    """Return plans for all of Wikipedia, and the growth of the lexical index from the largest size."""
    plans: dict[str, object] = {}
    for kind in KINDS:
        plan = plan_dense(index_shape(kind, WIKI_PASSAGES, 768), vector_bytes=2 if kind != "flat" else 4)
        gib = {name: round(getattr(plan, name) / 2**30, 1) for name in ("build", "disk", "resident", "mapped")}
        plans[kind] = {"dimension": 768, "gib": gib, "fits_22_gib": max(gib["build"], gib["mapped"] + 1) <= 22}
    sizes = [int(size) for size, cells in found.items() if "bm25" in cells]
    if not sizes:
        return {"n_passages": WIKI_PASSAGES, "plans": plans}
    largest = max(sizes)
    factor = WIKI_PASSAGES / largest
    cell = found[f"{largest}"]["bm25"]
    line = {name: round(factor * float(str(cell[name]))) for name in ("build_cpu_s", "disk_mib", "p50_ms")}
    return {"n_passages": WIKI_PASSAGES, "plans": plans, "bm25_straight_line": {"from": largest, **line}}


def _words(text: str) -> list[int]:
    return [zlib.crc32(word.encode()) % WORD_ROWS for word in re.findall(r"\w+", text.lower())]


def _result(config: Config, size: int, cell: str) -> Path:
    return config.work / f"{size}" / f"{cell}.json"


def _size_mib(folder: Path) -> float:
    return round(sum(path.stat().st_size for path in folder.rglob("*") if path.is_file()) / 2**20, 1)


if __name__ == "__main__":
    main(tyro.cli(Config))
