"""Gathers the queries of all clients into batches, so that one search answers many requests.

While a search runs, arriving queries wait and form the next batch; when nothing runs, the first one waits a few
milliseconds for company. Equal queries, waiting or being searched, share one place. One search runs at a time, in a
thread of its own. A batch holds one group only (one ``k``), so every result is what the retriever alone would give.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import Generic, TypeVar

from ssp_env.serve.wire import Refusal, ServeLimits

Group = TypeVar("Group")
Work = Callable[[Sequence[str], Group], list[bytes]]
"""Answers the queries of one batch, in order; runs in a thread."""


@dataclass(slots=True)
class _Place:
    """A query that waits or is being searched; the future gets its answer or the failure of its batch."""

    future: asyncio.Future[bytes | Exception]
    arrived: float
    deadline: float


class Batcher(Generic[Group]):
    """A bounded queue in front of one function; to be used within one running event loop.

    ``n_batches`` and ``n_searched`` count what was done, ``n_waiting`` the queries not yet being searched.
    """

    def __init__(self, work: Work[Group], limits: ServeLimits) -> None:
        """Prepare; ``start`` makes it run."""
        self.n_batches = 0
        self.n_searched = 0
        self.n_waiting = 0
        self._work = work
        self._limits = limits
        self._waiting: dict[Group, dict[str, _Place]] = {}
        self._running: dict[tuple[Group, str], _Place] = {}
        self._stopped = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to answer, in the running event loop."""
        self._arrival = asyncio.Event()
        self._full = asyncio.Event()
        self._executor = ThreadPoolExecutor(1, thread_name_prefix="search")
        self._task = asyncio.create_task(self._answer_forever())

    async def stop(self) -> None:
        """Refuse what comes or waits from now on, and end; a search that runs is not waited for."""
        self._stopped = True
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
            self._executor.shutdown(wait=False, cancel_futures=True)
        places = [place for group in self._waiting.values() for place in group.values()]
        _settle([*places, *self._running.values()], _stopping())

    async def run(self, queries: Sequence[str], group: Group, *, timeout_s: float) -> list[bytes]:
        """Return the answers to these queries.

        Raises:
            Refusal: 429 if too many queries wait, 503 if the time is over or the server stops, or what the work raised.
        """
        if self._stopped:
            raise _stopping()
        now = asyncio.get_running_loop().time()
        unique = list(dict.fromkeys(queries))
        known = self._waiting.get(group, {})
        n_new = sum(query not in known and (group, query) not in self._running for query in unique)
        if self.n_waiting + n_new > self._limits.max_waiting_queries:
            message = f"expected fewer queries at once, got {self.n_waiting} waiting already; try again later"
            raise Refusal(429, "queue_full", message, retry_after_s=1)
        places = {query: self._place(group, query, now=now, deadline=now + timeout_s) for query in unique}
        futures = [place.future for place in places.values()]
        if futures:
            _, late = await asyncio.wait(futures, timeout=timeout_s)
            if late:
                message = f"expected an answer within {timeout_s:.3g} s, got none; ask for fewer queries or try later"
                raise Refusal(503, "deadline", message, retry_after_s=1)
        answers: list[bytes] = []
        for query in queries:
            answer = places[query].future.result()
            if isinstance(answer, Exception):
                raise answer
            answers.append(answer)
        return answers

    def _place(self, group: Group, query: str, *, now: float, deadline: float) -> _Place:
        place = self._running.get((group, query))
        if place is not None:
            return place
        waiting = self._waiting.setdefault(group, {})
        place = waiting.get(query)
        if place is None:
            place = waiting[query] = _Place(asyncio.get_running_loop().create_future(), now, deadline)
            self.n_waiting += 1
            self._arrival.set()
            if self.n_waiting >= self._limits.max_batch:
                self._full.set()
        place.deadline = max(place.deadline, deadline)
        return place

    async def _answer_forever(self) -> None:
        while True:
            await self._arrival.wait()
            group = next(iter(self._waiting))
            oldest = next(iter(self._waiting[group].values()))
            with suppress(TimeoutError):
                now = asyncio.get_running_loop().time()
                await asyncio.wait_for(self._full.wait(), timeout=oldest.arrived + self._limits.window_s - now)
            batch = self._take(group)
            if batch:
                await self._search(batch, group)

    def _take(self, group: Group) -> dict[str, _Place]:
        """Take the oldest queries of a group, without those that nobody waits for any more."""
        now = asyncio.get_running_loop().time()
        waiting = self._waiting.pop(group)
        batch: dict[str, _Place] = {}
        for query in list(waiting)[: self._limits.max_batch]:
            place = waiting.pop(query)
            self.n_waiting -= 1
            if place.deadline > now:
                batch[query] = place
        if waiting:
            self._waiting[group] = waiting  # at the end: other groups come first now
        if not self._waiting:
            self._arrival.clear()
        if self.n_waiting < self._limits.max_batch:
            self._full.clear()
        return batch

    async def _search(self, batch: dict[str, _Place], group: Group) -> None:
        self._running = {(group, query): place for query, place in batch.items()}
        loop = asyncio.get_running_loop()
        try:
            answers = await loop.run_in_executor(self._executor, self._work, list(batch), group)
            for place, answer in zip(batch.values(), answers, strict=True):
                place.future.set_result(answer)
        except Exception as error:  # noqa: BLE001 - every waiting request must learn of it, whatever it is
            _settle(batch.values(), error)
        self._running = {}
        self.n_batches += 1
        self.n_searched += len(batch)


def _settle(places: Iterable[_Place], error: Exception) -> None:
    for place in places:
        if not place.future.done():
            place.future.set_result(error)


def _stopping() -> Refusal:
    return Refusal(503, "stopping", "expected a running server, got one that stops; try again later", retry_after_s=1)
