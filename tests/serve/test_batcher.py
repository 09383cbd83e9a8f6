from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Sequence

import pytest

from ssp_env.errors import RetrievalError
from ssp_env.serve.batcher import Batcher
from ssp_env.serve.wire import Refusal, ServeLimits


class Work:
    """Answers ``query/group``; waits for ``gate`` before each batch, and breaks on the query ``bad``."""

    def __init__(self) -> None:
        self.batches: list[tuple[int, list[str]]] = []
        self.gate = threading.Event()
        self.gate.set()

    def __call__(self, queries: Sequence[str], group: int) -> list[bytes]:
        self.batches.append((group, list(queries)))
        assert self.gate.wait(10)
        if "bad" in queries:
            raise RetrievalError("broken")
        return [f"{query}/{group}".encode() for query in queries]


def act(scene: Callable[[Batcher[int], Work], Awaitable[None]], **limits: float) -> Work:
    """Run a scene with a started batcher."""
    work = Work()

    async def whole() -> None:
        batcher: Batcher[int] = Batcher(work, ServeLimits(**limits))  # type: ignore[arg-type]
        batcher.start()
        try:
            await scene(batcher, work)
        finally:
            work.gate.set()
            await batcher.stop()

    asyncio.run(whole())
    return work


async def begun(work: Work, n_batches: int = 1) -> None:
    """Wait until so many batches have reached the search thread."""
    while len(work.batches) < n_batches:
        await asyncio.sleep(0.001)


def test_answers_come_in_the_order_of_the_queries() -> None:
    async def scene(batcher: Batcher[int], work: Work) -> None:
        assert await batcher.run(["b", "a", "b"], 1, timeout_s=5) == [b"b/1", b"a/1", b"b/1"]
        assert await batcher.run([], 1, timeout_s=5) == []

    assert act(scene).batches == [(1, ["b", "a"])]


def test_requests_that_arrive_together_share_a_search() -> None:
    async def scene(batcher: Batcher[int], work: Work) -> None:
        runs = [batcher.run([f"q{n}", "same"], 1, timeout_s=5) for n in range(10)]
        assert await asyncio.gather(*runs) == [[f"q{n}/1".encode(), b"same/1"] for n in range(10)]
        assert (batcher.n_batches, batcher.n_searched, batcher.n_waiting) == (1, 11, 0)

    assert len(act(scene, window_s=0.05).batches) == 1


def test_queries_gather_while_a_search_runs() -> None:
    async def scene(batcher: Batcher[int], work: Work) -> None:
        work.gate.clear()
        first = asyncio.create_task(batcher.run(["a"], 1, timeout_s=5))
        await begun(work)
        rest = [asyncio.create_task(batcher.run([query], 1, timeout_s=5)) for query in ("b", "c", "a")]
        await asyncio.sleep(0)
        work.gate.set()
        assert await asyncio.gather(first, *rest) == [[b"a/1"], [b"b/1"], [b"c/1"], [b"a/1"]]

    assert act(scene, window_s=0).batches == [(1, ["a"]), (1, ["b", "c"])]


def test_batch_holds_one_group_and_at_most_its_size() -> None:
    async def scene(batcher: Batcher[int], work: Work) -> None:
        ones = batcher.run(["a", "b", "c"], 1, timeout_s=5)
        twos = batcher.run(["a"], 2, timeout_s=5)
        assert await asyncio.gather(ones, twos) == [[b"a/1", b"b/1", b"c/1"], [b"a/2"]]

    batches = act(scene, max_batch=2).batches
    assert sorted(batches) == [(1, ["a", "b"]), (1, ["c"]), (2, ["a"])]
    assert batches[1] == (2, ["a"])


def test_full_batch_does_not_wait_for_the_window() -> None:
    async def scene(batcher: Batcher[int], work: Work) -> None:
        async with asyncio.timeout(5):
            await batcher.run(["a", "b"], 1, timeout_s=100)

    act(scene, max_batch=2, window_s=60)


def test_failure_reaches_its_batch_and_no_other() -> None:
    async def scene(batcher: Batcher[int], work: Work) -> None:
        both = await asyncio.gather(
            batcher.run(["bad"], 1, timeout_s=5), batcher.run(["a"], 1, timeout_s=5), return_exceptions=True
        )
        assert [str(error) for error in both] == ["broken", "broken"]
        assert await batcher.run(["a"], 1, timeout_s=5) == [b"a/1"]

    act(scene)


def test_too_many_waiting_queries_are_refused_at_once_and_known_ones_are_not() -> None:
    async def scene(batcher: Batcher[int], work: Work) -> None:
        work.gate.clear()
        running = asyncio.create_task(batcher.run(["a"], 1, timeout_s=5))
        await begun(work)
        waiting = asyncio.create_task(batcher.run(["b", "c"], 1, timeout_s=5))
        await asyncio.sleep(0)
        with pytest.raises(Refusal, match="2 waiting already") as caught:
            await batcher.run(["d"], 1, timeout_s=5)
        assert (caught.value.status, caught.value.code, caught.value.retry_after_s) == (429, "queue_full", 1)
        known = asyncio.create_task(batcher.run(["a", "b", "c"], 1, timeout_s=5))
        await asyncio.sleep(0)
        work.gate.set()
        await asyncio.gather(running, waiting, known)
        assert await batcher.run(["d"], 1, timeout_s=5) == [b"d/1"]

    act(scene, max_waiting_queries=2, window_s=0)


def test_deadline_refuses_the_late_and_keeps_the_patient() -> None:
    async def scene(batcher: Batcher[int], work: Work) -> None:
        work.gate.clear()
        patient = asyncio.create_task(batcher.run(["a"], 1, timeout_s=10))
        await begun(work)
        with pytest.raises(Refusal) as caught:
            await batcher.run(["a", "b"], 1, timeout_s=0.01)
        assert (caught.value.status, caught.value.code) == (503, "deadline")
        work.gate.set()
        assert await patient == [b"a/1"]

    assert act(scene, window_s=0).batches == [(1, ["a"])], "nobody waits for b any more"


def test_stopped_batcher_refuses_what_comes_and_what_waits() -> None:
    async def scene(batcher: Batcher[int], work: Work) -> None:
        work.gate.clear()
        running = asyncio.create_task(batcher.run(["a"], 1, timeout_s=5))
        await begun(work)
        waiting = asyncio.create_task(batcher.run(["b"], 1, timeout_s=5))
        await asyncio.sleep(0)
        await batcher.stop()
        outcomes = await asyncio.gather(running, waiting, batcher.run(["c"], 1, timeout_s=5), return_exceptions=True)
        assert [getattr(outcome, "code", outcome) for outcome in outcomes] == ["stopping"] * 3

    act(scene)


def test_wrong_number_of_answers_is_an_error() -> None:
    async def scene() -> None:
        batcher: Batcher[int] = Batcher(lambda queries, group: [b"only one"], ServeLimits())
        batcher.start()
        with pytest.raises(ValueError, match="zip"):
            await batcher.run(["a", "b"], 1, timeout_s=5)
        await batcher.stop()

    asyncio.run(scene())
