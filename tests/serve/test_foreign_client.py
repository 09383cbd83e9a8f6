"""A client of the wire format that knows nothing of this library, as Search-R1's rollouts have one."""

from __future__ import annotations

import json
from urllib.request import Request, urlopen

from tests.serve.live import running


def batch_search(url: str, queries: list[str]) -> list[str]:
    """Ask for three scored documents a query and lay each result out as text."""
    payload = {"queries": queries, "topk": 3, "return_scores": True}
    request = Request(url, json.dumps(payload).encode(), {"Content-Type": "application/json"})
    with urlopen(request, timeout=20) as response:
        assert response.headers.get_content_type() == "application/json"
        lists = json.load(response)["result"]
    assert len(lists) == len(queries)
    return ["".join(lay_out(number, item) for number, item in enumerate(items, start=1)) for items in lists]


def lay_out(number: int, item: dict[str, dict[str, str]]) -> str:
    assert isinstance(item["score"], float) and isinstance(item["document"]["id"], str)
    title, *text = item["document"]["contents"].split("\n")
    return f"Doc {number}(Title: {title}) {' '.join(text)}\n"


def bare_search(url: str, body: dict[str, object]) -> list[list[dict[str, str]]]:
    with urlopen(Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"}), timeout=20) as response:
        lists: list[list[dict[str, str]]] = json.load(response)["result"]
    return lists


def test_scored_search_lays_out_titles_and_texts() -> None:
    with running() as server:
        [metal, chess] = batch_search(f"{server.url}/retrieve", ["metal", "players"])
    assert metal == 'Doc 1(Title: "Zinc") Zinc is a metal with the symbol Zn.\n'
    assert chess == 'Doc 1(Title: "Chess") Chess is a board game for two players.\n'


def test_search_without_scores_gives_one_list_of_bare_documents_a_query() -> None:
    with running() as server:
        for queries in (["river"], ["river", "town"], ["river", "town", "metal"], []):
            lists = bare_search(f"{server.url}/retrieve", {"queries": queries, "topk": 2})
            assert len(lists) == len(queries)
            assert all(set(document) == {"id", "contents"} for documents in lists for document in documents)


def test_body_of_queries_alone_gives_three_bare_documents() -> None:
    with running() as server:
        [documents] = bare_search(f"{server.url}/retrieve", {"queries": ["river"]})
    assert [len(documents), set(documents[0])] == [3, {"id", "contents"}]
