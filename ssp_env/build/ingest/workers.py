"""A few processes that work off jobs, and end when the process that started them is gone.

``concurrent.futures`` would leave its workers waiting for ever after a ``kill -9`` of their parent, because each of
them holds the writing end of the queue that it reads. Here every worker has a pipe of its own.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess

from ssp_env.build.ingest.shards import Job, write_shard
from ssp_env.errors import SSPError


class Workers:
    """Processes that write shards; a context manager that ends them."""

    def __init__(self, n_workers: int) -> None:
        """Start the processes."""
        context = multiprocessing.get_context("spawn")
        self._running: dict[Connection, SpawnProcess] = {}
        for _ in range(n_workers):
            ours, theirs = context.Pipe()
            process = context.Process(target=_serve, args=(theirs,), daemon=True)
            process.start()
            theirs.close()
            self._running[ours] = process
        self._idle = list(self._running)
        self._busy: dict[Connection, Job] = {}

    def __enter__(self) -> Workers:
        """Return the pool itself."""
        return self

    def __exit__(self, *exc: object) -> None:
        """End the processes at once."""
        for connection, process in self._running.items():
            connection.close()
            process.terminate()
        for process in self._running.values():
            process.join()

    def run(self, jobs: Iterable[Job]) -> Iterator[Job]:
        """Yield jobs as they are finished, in any order; at most one job a worker is held.

        Raises:
            SSPError: What a job raised, or that a worker died.
        """
        for job in jobs:
            while not self._idle:
                yield from self._collect()
            connection = self._idle.pop()
            try:
                connection.send(job)
            except OSError as error:
                raise self._death(connection, job) from error
            self._busy[connection] = job
            yield from self._collect(timeout_s=0)
        while self._busy:
            yield from self._collect()

    def _collect(self, timeout_s: float | None = None) -> Iterator[Job]:
        for ready in wait(list(self._busy), timeout_s):
            connection = next(c for c in self._busy if c is ready)
            job = self._busy.pop(connection)
            try:
                error = connection.recv()
            except EOFError as gone:
                raise self._death(connection, job) from gone
            if error is not None:
                raise error
            self._idle.append(connection)
            yield job

    def _death(self, connection: Connection, job: Job) -> SSPError:
        process = self._running[connection]
        process.join()
        where = f"chunk {job.number} of {job.chunk.path}"
        return SSPError(
            f"expected a worker to finish {where}, got its death (exit code {process.exitcode}), often for want of "
            "memory; run again, with fewer workers: finished chunks are kept"
        )


def _serve(connection: Connection) -> None:
    """Work off jobs until the other end is closed."""
    while True:
        try:
            job = connection.recv()
        except (EOFError, OSError):
            return
        answer: Exception | None = None
        try:
            write_shard(job)
        except Exception as error:  # noqa: BLE001 - reported to the parent, which raises it
            answer = error
        try:
            connection.send(answer)
        except OSError:
            return
