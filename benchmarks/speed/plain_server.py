"""The server to compare with: one request, one search, plain JSON, as the peers serve Search-R1's format.

Bodies are checked by FastAPI's models, every request calls the retriever itself from the thread pool, and FastAPI
renders the answer. Only the case without scores, which breaks in the original, is repaired.
"""

from __future__ import annotations

import json
import logging
import socket
import sys
from dataclasses import dataclass, field
from pathlib import Path

import tyro
import uvicorn
from fastapi import FastAPI
from pydantic import BaseModel

from ssp_env.cli.arguments import JsonObject, Paths
from ssp_env.corpus import JsonlCorpus, open_corpus
from ssp_env.protocols import Retriever
from ssp_env.retrieval import make_retriever
from ssp_env.text import join_contents


@dataclass(frozen=True, kw_only=True)
class Served:
    """What a server answers from."""

    corpus: Paths
    """Passages, JSON Lines."""
    retriever: str = "bm25"
    """By name."""
    config: JsonObject = field(default_factory=dict)
    """Settings of the retriever."""
    index_dir: Path | None = None
    """Folder of tables and indexes; by default beside the corpus."""

    def open(self) -> tuple[JsonlCorpus, Retriever]:
        """Open both."""
        corpus = open_corpus(self.corpus, index_dir=self.index_dir)
        return corpus, make_retriever(self.retriever, corpus, self.config, index_dir=self.index_dir)


class QueryRequest(BaseModel):
    """The body of ``POST /retrieve``."""

    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


def build_app(retriever: Retriever) -> FastAPI:
    """Return the application."""
    app = FastAPI()

    @app.post("/retrieve")
    def retrieve(request: QueryRequest) -> dict[str, object]:
        lists: list[list[dict[str, object]]] = []
        for results in retriever.search(request.queries, request.topk or 3):
            documents = [
                {"id": r.passage.id, "contents": join_contents(r.passage.title, r.passage.text)} for r in results
            ]
            scored = [{"document": d, "score": r.score} for d, r in zip(documents, results, strict=True)]
            lists.append(scored if request.return_scores else list[dict[str, object]](documents))  # type: ignore[arg-type]
        return {"result": lists}

    return app


def main(served: Served) -> None:
    """Serve until killed; the first line on standard error is JSON with the address."""
    _, retriever = served.open()
    with socket.create_server(("127.0.0.1", 0), backlog=2048) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
        print(json.dumps({"event": "serving", "url": url}), file=sys.stderr, flush=True)
        logging.disable()
        uvicorn.Server(uvicorn.Config(build_app(retriever), access_log=False)).run(sockets=[listener])


if __name__ == "__main__":
    main(tyro.cli(Served, description=__doc__))
