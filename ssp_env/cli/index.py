"""``ssp index build``: a plan of what the indexes of a corpus take, then the indexes.

The plan and the progress go to standard error. What is printed on standard output names the configuration with which
``make_retriever`` and ``ssp serve`` open what was built.
"""

from __future__ import annotations

import argparse
import sys
import time
from contextlib import redirect_stdout
from dataclasses import replace
from functools import partial
from pathlib import Path

from ssp_env.build.indexes import BuildOptions, Encode, build_dense, vector_spec
from ssp_env.build.plans import IndexPlan, check_plan, free_room, plan_bm25, plan_dense
from ssp_env.build.ray_encode import encode_on_ray
from ssp_env.build.vectors import DTYPES, encode_shards, n_missing, vectors_folder
from ssp_env.corpus import JsonlCorpus, open_corpus
from ssp_env.errors import ConfigError
from ssp_env.ray_cluster import require_ray
from ssp_env.retrieval import make_retriever
from ssp_env.retrieval.dense import DenseSettings, load_embedder
from ssp_env.retrieval.encoders import PRESETS, EncoderFacts, describe_encoder, preset
from ssp_env.retrieval.faiss_index import KINDS, IndexShape, index_shape, resolve_kind

PASSAGES_FILE = "passages.jsonl"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of ``ssp index build``."""
    parser.add_argument("corpus", nargs="+", type=Path, metavar="CORPUS", help="passage files, or one corpus folder")
    parser.add_argument("--retriever", choices=("bm25", "dense", "hybrid"), default="bm25", help="(%(default)s)")
    parser.add_argument(
        "--index-dir", type=Path, metavar="DIR", help="folder of tables and indexes (default: beside the corpus)"
    )
    parser.add_argument("--encoder", default="", metavar="PATH", help="folder of a model, or 'minilm'")
    parser.add_argument("--preset", choices=tuple(PRESETS), default="", help="prefixes and pooling of the encoder")
    parser.add_argument("--kind", choices=("auto", *KINDS), default="auto", help="(default: %(default)s, by size)")
    parser.add_argument("--dtype", choices=DTYPES, default="", help="of the saved vectors (default: by kind)")
    parser.add_argument(
        "--device", default="auto", help="where to encode (default: %(default)s, a GPU if there is one)"
    )
    parser.add_argument("--batch-size", type=int, default=32, help="passages a forward pass (default: %(default)s)")
    parser.add_argument("--ray-workers", type=int, default=0, help="encode on workers of a Ray cluster, 0 for none")
    parser.add_argument("--threads", type=int, default=0, help="of FAISS (default: as many as it takes)")
    parser.add_argument("--plan", action="store_true", help="print the plan and stop")
    parser.add_argument("--force", action="store_true", help="build although the plan does not fit")
    parser.add_argument("--rebuild", action="store_true", help="replace indexes of another corpus")


def run(parsed: argparse.Namespace) -> dict[str, object]:
    """Plan, check and build; return the report.

    Raises:
        ConfigError: If the plan does not fit, or an option is wrong.
        CorpusError: If the corpus cannot be read.
        StaleIndexError: If there are indexes of another corpus and ``--rebuild`` is not given.
        ImportError: If an optional package is missing.
    """
    is_dense = parsed.retriever != "bm25"
    settings = _settings(parsed)
    if is_dense and not parsed.encoder:
        raise ConfigError("expected --encoder for a dense index, got none; pass the folder of a model, or 'minilm'")
    facts = describe_encoder(parsed.encoder, pooling=preset(parsed.preset).pooling) if is_dense else None
    encode = _encode(parsed)
    corpus = open_corpus(_files(parsed.corpus), index_dir=parsed.index_dir)
    index_dir = parsed.index_dir or corpus.index_dir
    plans = _plan(parsed, corpus, facts=facts, settings=settings, index_dir=index_dir)
    report: dict[str, object] = {"n_passages": len(corpus), "corpus": corpus.fingerprint, "index_dir": str(index_dir)}
    if parsed.plan:
        return {**report, "plan": plans}
    if parsed.retriever != "dense":
        report["bm25"] = _build_bm25(corpus, index_dir, rebuild=parsed.rebuild)
    if facts is not None:
        with redirect_stdout(sys.stderr):  # Ray prints there what it says about workers
            report["dense"] = build_dense(
                corpus,
                partial(load_embedder, _independent(settings)),
                embedder_id=facts.identity,
                settings=settings,
                index_dir=index_dir,
                options=BuildOptions(dtype=parsed.dtype, encode=encode),
                say=_say,
            )
    return {**report, "retriever": _opening(parsed, settings)}


def _settings(parsed: argparse.Namespace) -> DenseSettings:
    return DenseSettings(
        model=parsed.encoder,
        preset=parsed.preset,
        device=parsed.device,
        batch_size=parsed.batch_size,
        kind=parsed.kind,
        n_threads=parsed.threads,
        rebuild=parsed.rebuild,
    )


def _independent(settings: DenseSettings) -> DenseSettings:
    """Make the model's folder independent of the working directory, which is another one on workers of a cluster."""
    folder = Path(settings.model)
    return replace(settings, model=str(folder.absolute())) if folder.is_dir() else settings


def _encode(parsed: argparse.Namespace) -> Encode:
    if parsed.ray_workers:
        require_ray()
        return partial(encode_on_ray, n_workers=parsed.ray_workers, device=parsed.device)
    return encode_shards


def _files(paths: list[Path]) -> list[Path]:
    """Return passage files; a folder stands for the corpus that ``ssp corpus build`` put there."""
    return [path / PASSAGES_FILE if path.is_dir() else path for path in paths]


def _plan(
    parsed: argparse.Namespace,
    corpus: JsonlCorpus,
    *,
    facts: EncoderFacts | None,
    settings: DenseSettings,
    index_dir: Path,
) -> list[dict[str, object]]:
    """Print what each index takes, and refuse what does not fit."""
    n, room = len(corpus), free_room(index_dir)
    plans: list[tuple[IndexPlan, IndexShape | None, int]] = []
    if parsed.retriever != "dense":
        plans.append((plan_bm25(n), None, 0))
    if facts is not None:
        spec = vector_spec(settings, n, embedder_id=facts.identity, options=BuildOptions(dtype=parsed.dtype))
        shape = index_shape(resolve_kind(settings.kind, n), n, facts.dimension)
        vector_bytes = 2 if spec.dtype == "float16" else 4
        plan = plan_dense(shape, vector_bytes=vector_bytes, weight_bytes=facts.weight_bytes)
        n_done = n - n_missing(vectors_folder(index_dir, spec), n, spec.shard_passages)
        plan = replace(plan, disk=plan.disk - n_done * facts.dimension * vector_bytes)
        plans.append((plan, shape, vector_bytes))
        _say(f"{n:,} passages, {n_done:,} of them encoded already")
    for plan, _, _ in plans:
        for line in plan.lines(room):
            _say(line)
    for plan, shape_or_none, vector_bytes in plans:
        if not (parsed.force or parsed.plan):
            check_plan(plan, room, shape=shape_or_none, vector_bytes=vector_bytes)
    return [
        {"kind": p.kind, "build": p.build, "disk": p.disk, "resident": p.resident, "mapped": p.mapped}
        for p, _, _ in plans
    ]


def _build_bm25(corpus: JsonlCorpus, index_dir: Path, *, rebuild: bool) -> dict[str, object]:
    start_s = time.perf_counter()
    make_retriever("bm25", corpus, {"rebuild": rebuild}, index_dir=index_dir)
    return {"seconds": round(time.perf_counter() - start_s, 2)}


def _opening(parsed: argparse.Namespace, settings: DenseSettings) -> dict[str, object]:
    """Return the retriever that opens what was built."""
    dense: dict[str, object] = {
        "name": "dense",
        "model": settings.model,
        "preset": settings.preset,
        "kind": settings.kind,
    }
    if parsed.retriever == "hybrid":
        return {"name": "hybrid", "retrievers": ["bm25", dense]}
    return dense if parsed.retriever == "dense" else {"name": "bm25"}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
