"""``ssp serve``: open a corpus and its index, and answer over HTTP until told to stop."""

from __future__ import annotations

import logging
import logging.config
import math
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tyro.conf import OmitArgPrefixes

from ssp_env.cli.arguments import JsonObject, Paths
from ssp_env.corpus import open_corpus, open_pages
from ssp_env.errors import ConfigError
from ssp_env.ray_cluster import require_ray
from ssp_env.retrieval import make_retriever
from ssp_env.retrieval.wrappers import Blocklist, read_blocklist
from ssp_env.serve.handler import LOGGER, RetrievalHandler, Service, log_config
from ssp_env.serve.wire import ServeLimits

if TYPE_CHECKING:
    from fastapi import FastAPI

PATHS = ("index_dir", "pages", "redirects", "blocklist")


@dataclass(frozen=True)
class Serve:
    """Serve passages and pages over HTTP, until SIGINT or SIGTERM; requests that have begun are still answered."""

    corpus: Paths
    """Passages, JSON Lines."""
    retriever: str = "bm25"
    """By name: bm25, dense, hybrid, ..."""
    config: JsonObject = field(default_factory=dict)
    """Settings of the retriever."""
    index_dir: Path | None = None
    """Folder of tables and indexes; by default beside the corpus."""
    pages: Path | None = None
    """Whole pages, for POST /page."""
    redirects: Path | None = None
    """Other titles of the pages."""
    blocklist: Path | None = None
    """File of {"ids": [...], "titles": [...]} that are never shown."""
    host: str = "127.0.0.1"
    """Address to listen on; by default loopback."""
    port: int = 8000
    """0 takes a free one."""
    cache_mb: int = 256
    """Size of the cache of results; 0: none."""
    log: Literal["summary", "requests", "queries"] = "summary"
    """Counts every ten seconds, also a line a request, or also its text."""
    ray_replicas: int = 0
    """Replicas on a Ray cluster; 0: none."""
    ray_gpus: float = 0.0
    """GPUs of each replica."""
    limits: OmitArgPrefixes[ServeLimits] = field(default_factory=ServeLimits)

    def run(self) -> None:
        """Check what was asked for, take the address, open the corpus, and serve."""
        try:
            import fastapi  # noqa: F401
            import uvicorn  # noqa: F401
        except ImportError as error:
            message = f"expected fastapi and uvicorn, got {error}; install the extra: pip install 'ssp-env[serve]'"
            raise ImportError(message) from error
        self._check()
        if self.ray_replicas:
            require_ray()
        with _listen(self.host, self.port) as listener:
            service = self._open()
            host, port = listener.getsockname()[:2]
            facts = {
                "url": f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}",
                "fingerprint": service.corpus.fingerprint,
                "n_passages": len(service.corpus),
                "load_s": round(service.load_s, 3),
            }
            if not self.ray_replicas:
                _serve_here(self._application(service), listener, limits=self.limits, facts=facts)
                return
        del service  # opened to find out what is wrong with it; each replica has its own
        self._serve_on_ray((host, port), facts)

    def _check(self) -> None:
        given = {"--cache-mb": self.cache_mb, "--ray-replicas": self.ray_replicas, "--ray-gpus": self.ray_gpus}
        if negative := [f"{flag} {value}" for flag, value in given.items() if value < 0]:
            raise ConfigError(f"expected no negative numbers, got {' '.join(negative)}; 0 goes without")
        if self.redirects is not None and self.pages is None:
            raise ConfigError(f"expected pages for the redirects {str(self.redirects)!r}, got none; give --pages")

    def _open(self) -> Service:
        started = time.perf_counter()
        corpus = open_corpus(self.corpus, index_dir=self.index_dir)
        retriever = make_retriever(self.retriever, corpus, self.config, index_dir=self.index_dir)
        pages = None
        if self.pages is not None:
            pages = open_pages(self.pages, redirects=self.redirects, index_dir=self.index_dir)
        blocklist = Blocklist() if self.blocklist is None else read_blocklist(self.blocklist)
        load_s = time.perf_counter() - started
        return Service(corpus, retriever, self.retriever, pages=pages, blocklist=blocklist, load_s=load_s)

    def _application(self, service: Service) -> FastAPI:
        from ssp_env.serve.app import build_app

        handler = RetrievalHandler(service, limits=self.limits, cache_bytes=self.cache_mb << 20, log=_log())
        return build_app(handler, log=_log(), log_level=self.log)

    def _serve_on_ray(self, address: tuple[str, int], facts: dict[str, object]) -> None:
        from ssp_env.serve.ray_serve import replicas

        # Workers of a cluster have another working directory.
        files = {name: path.absolute() for name in PATHS if (path := getattr(self, name)) is not None}
        there = replace(self, corpus=tuple(path.absolute() for path in self.corpus), **files)

        def build() -> FastAPI:
            return there._application(there._open())

        running = replicas(
            build,
            n_replicas=self.ray_replicas,
            n_gpus=self.ray_gpus,
            address=address,
            limits=self.limits,
            fingerprint=str(facts["fingerprint"]),
        )
        with suppress(KeyboardInterrupt), running:
            signal.signal(signal.SIGTERM, signal.default_int_handler)  # Ray has one that exits at once
            _log().info("serving", extra={"fields": facts})
            while True:
                signal.pause()
        _log().info("stopped")


def _log() -> logging.Logger:
    logging.config.dictConfig(log_config())
    return logging.getLogger(LOGGER)


def _serve_here(app: FastAPI, listener: socket.socket, *, limits: ServeLimits, facts: dict[str, object]) -> None:
    import uvicorn

    _log().info("serving", extra={"fields": facts})
    config = uvicorn.Config(
        app,
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=60,
        timeout_graceful_shutdown=math.ceil(limits.deadline_s) + 1,
    )
    with suppress(KeyboardInterrupt):  # raised again once everything is closed
        uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """Take the address before anything is loaded, so that a taken one is found out at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"expected a free address, got {host}:{port} ({error}); pass another --port") from error
