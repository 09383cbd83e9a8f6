"""``ssp index build``: a plan of what the indexes of a corpus take, then the indexes.

The plan and the progress go to standard error. What is printed on standard output names the configuration with which
``make_retriever`` and ``ssp serve`` open what was built.
"""

from __future__ import annotations

import sys
import time
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from tyro.conf import Positional

from ssp_env.build.indexes import BuildOptions, Encode, build_dense, vector_spec
from ssp_env.build.plans import IndexPlan, check_plan, free_room, plan_bm25, plan_dense
from ssp_env.build.ray_encode import encode_on_ray
from ssp_env.build.vectors import encode_shards, n_missing, vectors_folder
from ssp_env.cli.arguments import Paths
from ssp_env.corpus import JsonlCorpus, open_corpus
from ssp_env.errors import ConfigError
from ssp_env.ray_cluster import require_ray
from ssp_env.retrieval import make_retriever
from ssp_env.retrieval.dense import DenseSettings, load_embedder
from ssp_env.retrieval.encoders import EncoderFacts, describe_encoder, preset
from ssp_env.retrieval.faiss_index import IndexShape, index_shape, resolve_kind

PASSAGES_FILE = "passages.jsonl"


@dataclass(frozen=True)
class BuildIndex:
    """Plan and build the indexes of a corpus."""

    corpus: Positional[Paths]
    """Passage files, or one corpus folder."""
    retriever: Literal["bm25", "dense", "hybrid"] = "bm25"
    """Whose indexes."""
    index_dir: Path | None = None
    """Folder of tables and indexes; by default beside the corpus."""
    encoder: str = ""
    """Folder of a model, or 'minilm'."""
    preset: Literal["", "e5", "bge", "minilm"] = ""
    """Prefixes and pooling of the encoder."""
    kind: Literal["auto", "flat", "ivf-sq8", "hnsw-sq8", "ivf-pq"] = "auto"
    """Kind of vector index; auto: by size."""
    dtype: Literal["", "float16", "float32"] = ""
    """Of the saved vectors; by default by kind."""
    device: str = "auto"
    """Where to encode; auto: on a GPU if there is one."""
    batch_size: int = 32
    """Passages a forward pass."""
    ray_workers: int = 0
    """Encode on that many workers of a Ray cluster; 0: in this process."""
    threads: int = 0
    """Of FAISS; 0: as many as it takes."""
    plan: bool = False
    """Print the plan and stop."""
    force: bool = False
    """Build although the plan does not fit."""
    rebuild: bool = False
    """Replace indexes of another corpus."""

    def run(self) -> dict[str, object]:
        """Plan, check and build; return the report."""
        is_dense = self.retriever != "bm25"
        if is_dense and not self.encoder:
            raise ConfigError("expected --encoder for a dense index, got none; pass the folder of a model, or 'minilm'")
        facts = describe_encoder(self.encoder, pooling=preset(self.preset).pooling) if is_dense else None
        encode = self._encode()
        corpus = open_corpus(_files(self.corpus), index_dir=self.index_dir)
        index_dir = self.index_dir or corpus.index_dir
        plans = _plan(self, corpus, facts=facts, index_dir=index_dir)
        report: dict[str, object] = {
            "n_passages": len(corpus),
            "corpus": corpus.fingerprint,
            "index_dir": str(index_dir),
        }
        if self.plan:
            return {**report, "plan": plans}
        if self.retriever != "dense":
            report["bm25"] = _build_bm25(corpus, index_dir, rebuild=self.rebuild)
        if facts is not None:
            with redirect_stdout(sys.stderr):  # Ray prints there what it says about workers
                report["dense"] = build_dense(
                    corpus,
                    partial(load_embedder, _independent(self.settings)),
                    embedder_id=facts.identity,
                    settings=self.settings,
                    index_dir=index_dir,
                    options=BuildOptions(dtype=self.dtype, encode=encode),
                    say=_say,
                )
        return {**report, "retriever": self._opening()}

    @property
    def settings(self) -> DenseSettings:
        """Those of the dense index."""
        return DenseSettings(
            model=self.encoder,
            preset=self.preset,
            device=self.device,
            batch_size=self.batch_size,
            kind=self.kind,
            n_threads=self.threads,
            rebuild=self.rebuild,
        )

    def _encode(self) -> Encode:
        if not self.ray_workers:
            return encode_shards
        require_ray()
        return partial(encode_on_ray, n_workers=self.ray_workers, device=self.device)

    def _opening(self) -> dict[str, object]:
        """Return the retriever that opens what was built."""
        dense: dict[str, object] = {"name": "dense", "model": self.encoder, "preset": self.preset, "kind": self.kind}
        if self.retriever == "hybrid":
            return {"name": "hybrid", "retrievers": ["bm25", dense]}
        return dense if self.retriever == "dense" else {"name": "bm25"}


def _independent(settings: DenseSettings) -> DenseSettings:
    """Make the model's folder independent of the working directory, which is another one on workers of a cluster."""
    folder = Path(settings.model)
    return replace(settings, model=str(folder.absolute())) if folder.is_dir() else settings


def _files(paths: tuple[Path, ...]) -> list[Path]:
    """Return passage files; a folder stands for the corpus that ``ssp corpus build`` put there."""
    return [path / PASSAGES_FILE if path.is_dir() else path for path in paths]


def _plan(
    command: BuildIndex, corpus: JsonlCorpus, *, facts: EncoderFacts | None, index_dir: Path
) -> list[dict[str, object]]:
    """Print what each index takes, and refuse what does not fit."""
    n, room = len(corpus), free_room(index_dir)
    plans: list[tuple[IndexPlan, IndexShape | None, int]] = []
    if command.retriever != "dense":
        plans.append((plan_bm25(n), None, 0))
    if facts is not None:
        spec = vector_spec(command.settings, n, embedder_id=facts.identity, options=BuildOptions(dtype=command.dtype))
        shape = index_shape(resolve_kind(command.kind, n), n, facts.dimension)
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
        if not (command.force or command.plan):
            check_plan(plan, room, shape=shape_or_none, vector_bytes=vector_bytes)
    return [asdict(plan) for plan, _, _ in plans]


def _build_bm25(corpus: JsonlCorpus, index_dir: Path, *, rebuild: bool) -> dict[str, object]:
    start_s = time.perf_counter()
    make_retriever("bm25", corpus, {"rebuild": rebuild}, index_dir=index_dir)
    return {"seconds": round(time.perf_counter() - start_s, 2)}


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
