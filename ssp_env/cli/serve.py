"""``ssp serve``: open a corpus and its index, and answer over HTTP until told to stop."""

from __future__ import annotations

import argparse
import json
import logging
import logging.config
import math
import signal
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING

from ssp_env.corpus import open_corpus, open_pages
from ssp_env.errors import ConfigError
from ssp_env.ray_cluster import require_ray
from ssp_env.retrieval import make_retriever
from ssp_env.retrieval.wrappers import Blocklist, read_blocklist
from ssp_env.serve.handler import LOGGER, RetrievalHandler, Service, log_config
from ssp_env.serve.wire import ServeLimits

if TYPE_CHECKING:
    from fastapi import FastAPI

LIMIT_HELP = {
    "max_queries": "queries a request",
    "max_k": "passages a query",
    "max_body_bytes": "size of a request",
    "max_requests": "requests at once; more are refused with 429",
    "max_waiting_bytes": "sum of their sizes; more are refused with 429",
    "max_waiting_queries": "queries waiting for a search; more are refused with 429",
    "deadline_s": "seconds after which a request is given up with 503",
    "window_s": "seconds that a query waits for company",
    "max_batch": "queries a search",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command, and what it runs."""
    parser.set_defaults(run=run)
    parser.add_argument("--corpus", type=Path, nargs="+", required=True, metavar="FILE", help="passages, JSON Lines")
    parser.add_argument("--retriever", default="bm25", help="bm25, dense, hybrid, ... (default: %(default)s)")
    parser.add_argument("--config", type=_json_object, default={}, metavar="JSON", help="settings of the retriever")
    parser.add_argument(
        "--index-dir", type=Path, metavar="DIR", help="folder of tables and indexes (default: beside the corpus)"
    )
    parser.add_argument("--pages", type=Path, metavar="FILE", help="whole pages, for POST /page")
    parser.add_argument("--redirects", type=Path, metavar="FILE", help="other titles of the pages")
    parser.add_argument("--blocklist", type=Path, metavar="FILE", help='{"ids": [...], "titles": [...]}, never shown')
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: %(default)s, loopback)")
    parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: %(default)s)")
    parser.add_argument("--cache-mb", type=int, default=256, help="size of the cache of results, 0 for none")
    parser.add_argument(
        "--log",
        choices=("summary", "requests", "queries"),
        default="summary",
        help="counts every ten seconds, also a line a request, or also its text (default: %(default)s)",
    )
    parser.add_argument("--ray-replicas", type=int, default=0, help="replicas on a Ray cluster, 0 for none")
    parser.add_argument("--ray-gpus", type=float, default=0.0, help="GPUs of each replica (default: %(default)s)")
    for limit in fields(ServeLimits):
        flag = f"--{limit.name.replace('_', '-')}"
        parser.add_argument(
            flag, type=type(limit.default), default=limit.default, help=f"{LIMIT_HELP[limit.name]} (%(default)s)"
        )


def run(arguments: argparse.Namespace) -> None:
    """Serve until SIGINT or SIGTERM; requests that have begun are still answered.

    Raises:
        ConfigError: If the address is taken, a setting is unknown or out of range, or replicas do not start.
        CorpusError: If the corpus or the pages cannot be read.
        StaleIndexError: If the index is of another corpus.
        ImportError: If the web server, the search engine or Ray is missing.
    """
    try:
        import fastapi  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        message = f"expected fastapi and uvicorn, got {error}; install the extra: pip install 'ssp-env[serve]'"
        raise ImportError(message) from error
    limits = _limits(arguments)
    if arguments.ray_replicas:
        require_ray()
    with _listen(arguments.host, arguments.port) as listener:
        service = _open(arguments)
        host, port = listener.getsockname()[:2]
        facts = {
            "url": f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}",
            "fingerprint": service.corpus.fingerprint,
            "n_passages": len(service.corpus),
            "load_s": round(service.load_s, 3),
        }
        if not arguments.ray_replicas:
            _serve_here(_application(service, arguments, limits), listener, limits=limits, facts=facts)
            return
    del service  # opened to find out what is wrong with it; each replica has its own
    _serve_on_ray(arguments, limits, address=(host, port), facts=facts)


def _application(service: Service, arguments: argparse.Namespace, limits: ServeLimits) -> FastAPI:
    from ssp_env.serve.app import build_app

    handler = RetrievalHandler(service, limits=limits, cache_bytes=arguments.cache_mb << 20, log=_log())
    return build_app(handler, log=_log(), log_level=arguments.log)


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


def _serve_on_ray(
    arguments: argparse.Namespace, limits: ServeLimits, *, address: tuple[str, int], facts: dict[str, object]
) -> None:
    from ssp_env.serve.ray_serve import replicas

    there = argparse.Namespace(**{name: _absolute(value) for name, value in vars(arguments).items()})

    def build() -> FastAPI:
        return _application(_open(there), there, limits)

    running = replicas(
        build,
        n_replicas=arguments.ray_replicas,
        n_gpus=arguments.ray_gpus,
        address=address,
        limits=limits,
        fingerprint=str(facts["fingerprint"]),
    )
    with suppress(KeyboardInterrupt), running:
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # Ray has one that exits at once
        _log().info("serving", extra={"fields": facts})
        while True:
            signal.pause()
    _log().info("stopped")


def _absolute(value: object) -> object:
    """Make paths independent of the working directory, which is another one on the workers of a cluster."""
    if isinstance(value, list):
        return [_absolute(item) for item in value]
    return value.absolute() if isinstance(value, Path) else value


def _open(arguments: argparse.Namespace) -> Service:
    started = time.perf_counter()
    corpus = open_corpus(arguments.corpus, index_dir=arguments.index_dir)
    retriever = make_retriever(arguments.retriever, corpus, arguments.config, index_dir=arguments.index_dir)
    if arguments.redirects is not None and arguments.pages is None:
        raise ConfigError(f"expected pages for the redirects {str(arguments.redirects)!r}, got none; give --pages")
    pages = None
    if arguments.pages is not None:
        pages = open_pages(arguments.pages, redirects=arguments.redirects, index_dir=arguments.index_dir)
    blocklist = Blocklist() if arguments.blocklist is None else read_blocklist(arguments.blocklist)
    load_s = time.perf_counter() - started
    return Service(corpus, retriever, arguments.retriever, pages=pages, blocklist=blocklist, load_s=load_s)


def _limits(arguments: argparse.Namespace) -> ServeLimits:
    """Return the limits, and refuse a size of the cache and numbers of replicas that cannot be."""
    given = {
        "--cache-mb": arguments.cache_mb,
        "--ray-replicas": arguments.ray_replicas,
        "--ray-gpus": arguments.ray_gpus,
    }
    if negative := [f"{flag} {value}" for flag, value in given.items() if value < 0]:
        raise ConfigError(f"expected no negative numbers, got {' '.join(negative)}; 0 goes without")
    try:
        return ServeLimits(**{limit.name: getattr(arguments, limit.name) for limit in fields(ServeLimits)})
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _listen(host: str, port: int) -> socket.socket:
    """Take the address before anything is loaded, so that a taken one is found out at once."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, OverflowError) as error:
        raise ConfigError(f"expected a free address, got {host}:{port} ({error}); pass another --port") from error


def _json_object(text: str) -> Mapping[str, object]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text!r} ({error})") from error
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"expected a JSON object, got {text!r}")
    return value
