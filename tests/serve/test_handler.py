from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from ssp_env.corpus import MemoryCorpus, open_pages
from ssp_env.protocols import Retriever
from ssp_env.retrieval.wrappers import Blocklist
from ssp_env.serve.handler import JsonFormatter, RetrievalHandler, Service
from ssp_env.serve.wire import Refusal, ServeLimits
from ssp_env.types import SearchResult
from tests.fakes import PASSAGES, BrokenRetriever, FakeRetriever

LOG = logging.getLogger("tests.serve")
SERVICE = Service(MemoryCorpus(PASSAGES), FakeRetriever(), "fake")


def act(
    scene: Callable[[RetrievalHandler], Awaitable[None]],
    service: Service = SERVICE,
    *,
    limits: ServeLimits | None = None,
    cache_bytes: int = 1 << 20,
) -> None:
    """Run a scene with a started handler."""

    async def whole() -> None:
        handler = RetrievalHandler(service, limits=limits, cache_bytes=cache_bytes, log=LOG)
        handler.start()
        try:
            await scene(handler)
        finally:
            await handler.stop()

    asyncio.run(whole())


def body(**row: object) -> bytes:
    return json.dumps(row).encode()


def with_retriever(retriever: Retriever) -> Service:
    return replace(SERVICE, retriever=retriever)


def ids(answer: bytes) -> list[list[str]]:
    return [[hit["document"]["id"] for hit in hits] for hits in json.loads(answer)["result"]]


QUERIES = ["river", "town", "no match", "river", "metal"]
EXPECTED = [[result.passage.id for result in found] for found in FakeRetriever().search(QUERIES, 2)]


@pytest.mark.parametrize("cache_bytes", [0, 1 << 20])
def test_answers_are_those_of_the_retriever(cache_bytes: int) -> None:
    async def scene(handler: RetrievalHandler) -> None:
        for _ in range(2):
            answer = await handler.retrieve(body(queries=QUERIES, topk=2, return_scores=True))
            assert ids(answer) == EXPECTED
            bare = json.loads(await handler.retrieve(body(queries=QUERIES, topk=2)))["result"]
            assert [[document["id"] for document in documents] for documents in bare] == EXPECTED

    act(scene, cache_bytes=cache_bytes)


def test_known_queries_are_not_searched_again() -> None:
    retriever = FakeRetriever()

    async def scene(handler: RetrievalHandler) -> None:
        request = body(queries=["river", "town"], topk=2, return_scores=True)
        assert await handler.retrieve(request) == await handler.retrieve(request)
        assert retriever.batches == [["river", "town"]]
        await handler.retrieve(body(queries=["river", "poet"], topk=2, return_scores=True))
        assert retriever.batches == [["river", "town"], ["poet"]]

    act(scene, with_retriever(retriever))


def test_broken_retriever_is_a_503_and_is_not_remembered(caplog: pytest.LogCaptureFixture) -> None:
    retriever = BrokenRetriever("river")

    async def scene(handler: RetrievalHandler) -> None:
        request = body(queries=["river"], topk=2, return_scores=True)
        with pytest.raises(Refusal, match="the retriever is down") as caught:
            await handler.retrieve(request)
        assert (caught.value.status, caught.value.code) == (503, "search_failed")
        retriever.word = "another word"
        assert ids(await handler.retrieve(request)) == EXPECTED[:1]

    with caplog.at_level(logging.ERROR, logger=LOG.name):
        act(scene, with_retriever(retriever))
    assert [record.message for record in caplog.records] == ["search_failed"]


class BuggyRetriever:
    def search(self, queries: Sequence[str], k: int) -> list[list[SearchResult]]:
        raise ZeroDivisionError


def test_bug_of_a_retriever_is_not_disguised() -> None:
    async def scene(handler: RetrievalHandler) -> None:
        with pytest.raises(ZeroDivisionError):
            await handler.retrieve(body(queries=["river"]))

    act(scene, with_retriever(BuggyRetriever()))


def test_places_are_bounded_by_number_and_bytes_and_given_back() -> None:
    handler = RetrievalHandler(
        SERVICE, limits=ServeLimits(max_requests=2, max_body_bytes=10, max_waiting_bytes=15), log=LOG
    )
    with pytest.raises(Refusal) as large, handler.admitted(11):
        pass
    assert (large.value.status, large.value.code) == (413, "too_large")
    with handler.admitted(10):
        with pytest.raises(Refusal) as heavy, handler.admitted(6):
            pass
        with handler.admitted(5), pytest.raises(Refusal) as third, handler.admitted(0):
            pass
    assert [(e.value.status, e.value.code) for e in (heavy, third)] == [(429, "queue_full")] * 2
    with handler.admitted(10), handler.admitted(5):
        pass


def test_blocked_passages_are_not_found() -> None:
    async def scene(handler: RetrievalHandler) -> None:
        found = ids(await handler.retrieve(body(queries=["river"], topk=8, return_scores=True)))[0]
        assert found and not {"p1", "p2"} & set(found)

    act(scene, replace(SERVICE, blocklist=Blocklist.of(ids=["p1"], titles=["elm"])))


def test_pages_open_by_title_and_passage_unless_blocked(tmp_path: Path) -> None:
    sections = [{"heading": "", "level": 1, "text": "Lead."}, {"heading": "History", "level": 2, "text": "Old."}]
    rows = [{"id": p.id, "title": p.title, "sections": sections, "links": ["Chess"]} for p in PASSAGES[:4]]
    (tmp_path / "pages.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    service = replace(
        SERVICE, pages=open_pages(tmp_path / "pages.jsonl"), blocklist=Blocklist.of(ids=["p2"], titles=["ADA finch"])
    )

    async def scene(handler: RetrievalHandler) -> None:
        expected = {"id": "p1", "title": "Oxley", "sections": sections, "links": ["Chess"]}
        for request in (body(title="oxley"), body(id="p1")):
            assert json.loads(await handler.page(request)) == {"page": expected}
        one = json.loads(await handler.page(body(title="Oxley", section="HISTORY")))["page"]["sections"]
        assert one == sections[1:]
        for request, code in (
            (body(title="Oxley", section="Sports"), "unknown_section"),
            (body(title="Zinc"), "unknown_page"),
            (body(id="no such passage"), "unknown_page"),
            (body(id="p7"), "unknown_page"),
            (body(title="Ada Finch"), "unknown_page"),
            (body(id="p0"), "unknown_page"),
            (body(id="p2"), "unknown_page"),
        ):
            with pytest.raises(Refusal) as caught:
                await handler.page(request)
            assert (caught.value.status, caught.value.code) == (404, code)
        assert json.loads(handler.health())["n_pages"] == 4

    act(scene, service)


def test_server_without_pages_says_so() -> None:
    async def scene(handler: RetrievalHandler) -> None:
        with pytest.raises(Refusal, match="--pages") as caught:
            await handler.page(body(title="Oxley"))
        assert (caught.value.status, caught.value.code) == (404, "no_pages")

    act(scene)


def test_health_tells_what_is_served_and_counts() -> None:
    async def scene(handler: RetrievalHandler) -> None:
        await handler.retrieve(body(queries=["river", "town"]))
        await handler.retrieve(body(queries=["river"]))
        health = json.loads(handler.health())
        assert health["status"] == "ok"
        assert health["fingerprint"] == MemoryCorpus(PASSAGES).fingerprint
        assert (health["retriever"], health["n_passages"], health["n_pages"]) == ("fake", 8, None)
        assert health["load_s"] == 1.5
        assert health["limits"]["max_k"] == 100
        assert health["now"] == {"requests": 0, "waiting_queries": 0}
        counts = health["counts"]
        assert (counts["queries"], counts["searched"], counts["batches"], counts["cache_hits"]) == (3, 2, 1, 1)

    act(scene, replace(SERVICE, load_s=1.5))


def test_log_line_is_json_whatever_is_in_it() -> None:
    record = logging.LogRecord("a", logging.WARNING, __file__, 1, "event\n%s", ("x",), None)
    record.fields = {"odd": object(), "text": "\u2028\n"}
    line = JsonFormatter().format(record)
    assert "\n" not in line
    assert json.loads(line)["event"] == "event\nx"
