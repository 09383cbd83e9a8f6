from __future__ import annotations

import json

import pytest

from ssp_env.errors import ConfigError
from ssp_env.serve.wire import (
    PageRequest,
    Refusal,
    SearchRequest,
    ServeLimits,
    parse_page,
    parse_search,
    render_answer,
    render_results,
)
from ssp_env.types import Passage, SearchResult

LIMITS = ServeLimits(max_queries=3, max_k=10)


def test_defaults_are_three_passages_without_scores() -> None:
    assert parse_search(b'{"queries": ["a"]}', LIMITS) == SearchRequest(("a",), 3, False)
    assert parse_search(b'{"queries": [], "topk": null, "return_scores": null}', LIMITS) == SearchRequest((), 3, False)


def test_unknown_keys_are_ignored() -> None:
    body = b'{"queries": ["a"], "topk": 5, "return_scores": true, "model": "x"}'
    assert parse_search(body, LIMITS) == SearchRequest(("a",), 5, True)


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        (b"", 400, "one JSON object in UTF-8"),
        (b"\xff", 400, "one JSON object in UTF-8"),
        (b"[1]", 400, "a JSON object, got .1."),
        (b"[" * 100_000, 400, "one JSON object in UTF-8"),
        (b"{}", 422, "a list of strings for 'queries' of a search, got none"),
        (b'{"queries": "a"}', 422, "a list of strings"),
        (b'{"queries": ["a", 1]}', 422, r"a string for 'queries\[1\]' of a search, got 1"),
        (b'{"queries": ["a", "b", "c", "d"]}', 422, "at most 3 queries, got 4"),
        (b'{"queries": ["a"], "topk": 0}', 422, "from 1 to 10 for 'topk', got 0"),
        (b'{"queries": ["a"], "topk": 11}', 422, "got 11"),
        (b'{"queries": ["a"], "topk": true}', 422, "got True"),
        (b'{"queries": ["a"], "topk": "3"}', 422, "got '3'"),
        (b'{"queries": ["a"], "return_scores": 1}', 422, "true or false"),
    ],
)
def test_malformed_search_is_refused(body: bytes, status: int, problem: str) -> None:
    with pytest.raises(Refusal, match=problem) as caught:
        parse_search(body, LIMITS)
    assert caught.value.status == status
    assert json.loads(caught.value.body())["error"]["code"] == {400: "invalid_json", 422: "invalid_request"}[status]


def test_page_is_asked_by_title_or_passage() -> None:
    assert parse_page(b'{"title": "Oxley", "section": "History"}') == PageRequest("Oxley", None, "History")
    assert parse_page(b'{"id": "p1"}') == PageRequest(None, "p1", None)


@pytest.mark.parametrize("body", [b"{}", b'{"title": "a", "id": "b"}', b'{"title": 1}', b'{"id": "a", "section": []}'])
def test_malformed_page_request_is_refused(body: bytes) -> None:
    with pytest.raises(Refusal) as caught:
        parse_page(body)
    assert caught.value.status == 422


def test_documents_carry_scores_only_when_asked() -> None:
    results = [SearchResult(Passage("7", 'The "A" Team', "A\nseries \u00e9."), 1.25, 0)]
    document = {"id": "7", "contents": '"The ""A"" Team"\nA\nseries \u00e9.'}
    assert json.loads(render_results(results, return_scores=True)) == [{"document": document, "score": 1.25}]
    assert json.loads(render_results(results, return_scores=False)) == [document]


def test_answer_holds_one_list_a_query() -> None:
    assert json.loads(render_answer([])) == {"result": []}
    assert json.loads(render_answer([b"[]", b"[1]"])) == {"result": [[], [1]]}


def test_limits_must_be_positive() -> None:
    with pytest.raises(ConfigError, match="at least 1 for 'max_k'"):
        ServeLimits(max_k=0)
    with pytest.raises(ConfigError, match="above 0 for 'deadline_s'"):
        ServeLimits(deadline_s=0)
