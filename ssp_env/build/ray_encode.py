"""Encodes a corpus on the workers of a Ray cluster, as a Ray Data job with one row a shard.

A worker opens the corpus, loads the embedder once, and writes whole shards where ``encode_shards`` would, so the
borders and the passages encoded together are the same and a killed job goes on in either way. All machines must see
the corpus, the model and the folder of shards under the same paths.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from ssp_env.build.clock import Clock
from ssp_env.build.vectors import Say, ShardMaker, VectorShards, VectorSpec
from ssp_env.errors import ConfigError, RetrievalError, SSPError
from ssp_env.protocols import Corpus, Embedder
from ssp_env.ray_cluster import connected, n_gpus

NO_PROGRESS_S = 3600.0
"""Seconds without a new shard after which the job ends. Ray starts dead workers again, also those a shard kills."""

Row = dict[str, object]


def encode_on_ray(
    corpus: Corpus,
    load: Callable[[], Embedder],
    spec: VectorSpec,
    *,
    folder: Path,
    rebuild: bool = False,
    say: Say = lambda line: None,
    n_workers: int = 1,
    device: str = "cpu",
) -> VectorShards:
    """Make the shards that are missing and return all, as ``encode_shards`` does, from the same arguments.

    ``corpus`` and ``load`` are pickled to the workers; ``load`` is called once in each of them. There are ``n_workers``
    workers, of one core each; and of one GPU, if the cluster has any and ``device``, where ``load`` puts the embedder,
    is not ``cpu``.

    Raises:
        StaleIndexError: As ``encode_shards``, or if the shards of the workers are not seen here.
        RetrievalError: As ``encode_shards``, or if the workers die.
        ConfigError: If the number of workers is not positive, or there is no cluster.
        ImportError: If Ray is missing.
    """
    if n_workers < 1:
        raise ConfigError(f"expected a positive number of workers, got {n_workers}; change it")
    maker = ShardMaker(corpus, load, spec, folder=folder.absolute(), rebuild=rebuild)
    clock = Clock(maker.n)
    missing = [number for number in range(maker.n_shards) if maker.find(number) is None]
    clock.count(maker.n - sum(map(maker.size, missing)), is_new=False)
    if missing:
        with connected():
            for number in _made(maker, missing, n_workers=n_workers, with_gpu=device != "cpu" and n_gpus() > 0):
                clock.count(maker.size(number), is_new=True)
                say(f"shard {number + 1} of {maker.n_shards}: {clock.line()}")
    return maker.whole()


class _Worker:
    """Makes the shards that it is given the numbers of."""

    def __init__(self, maker: ShardMaker) -> None:
        self._maker = maker

    def __call__(self, row: Row) -> Row:
        self._maker.make(int(str(row["shard"])))
        return row


def _made(maker: ShardMaker, missing: list[int], *, n_workers: int, with_gpu: bool) -> Iterator[int]:
    """Yield the number of each shard as soon as it is whole."""
    import ray
    from ray.data import ActorPoolStrategy, DataContext

    context = DataContext.get_current().copy()
    context.enable_progress_bars = False
    context.raise_original_map_exception = True
    context.execution_no_progress_timeout_s = NO_PROGRESS_S
    with DataContext.current(context), _silent(logging.getLogger("ray.data")):
        job = ray.data.from_items([{"shard": number} for number in missing], override_num_blocks=len(missing)).map(
            _Worker,
            fn_constructor_args=(maker,),
            compute=ActorPoolStrategy(size=min(n_workers, len(missing)), max_tasks_in_flight_per_actor=1),
            num_gpus=1 if with_gpu else None,
        )
        try:
            for row in job.iter_rows():
                yield int(row["shard"])
        except (ray.exceptions.RayError, ray.data.exceptions.ExecutionTimeoutError) as error:
            raise _ours(error) from error


@contextmanager
def _silent(logger: logging.Logger) -> Iterator[None]:
    """Keep a logger from the terminal: progress and failures are told here."""
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)


def _ours(error: Exception) -> SSPError:
    """Return the deliberate failure that ended a worker, or say what else ended the job."""
    cause = getattr(error, "cause", None) or error
    line = next(iter(str(cause).splitlines()), "")  # Ray adds lines of its own
    if isinstance(cause, SSPError):
        cause.args = (line,)
        return cause
    return RetrievalError(f"expected shards from the workers, got {type(cause).__name__}: {line}; see the logs of Ray")
