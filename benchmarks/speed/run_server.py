"""Measures the retrieval server: throughput beside a plain server, refusals under overload, and a kill during a game.

    python benchmarks/speed/run_server.py --corpus passages.jsonl --queries questions.jsonl

Three parts, each on loopback and over one index. *Load*: clients send requests of mixed sizes to ``plain_server`` and
to ``ssp serve`` in turn. In ``fresh`` no query is ever asked twice; in ``groups`` each is asked eight times, as the
solvers of a group might; ``recorded`` draws from the given queries again and again. Every hundredth answer is compared
with the local retriever. *Overload*: as many requests at once as ``--burst`` says. *Outage*: the server is killed while
an environment is stepped, and started again or not.
"""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import gymnasium
import numpy as np
import tyro

from benchmarks.card import ROOT, command_line, write_card
from benchmarks.speed.load import Load, encode, put_under_load
from benchmarks.speed.plain_server import Served
from benchmarks.speed.processes import memory_mib
from ssp_env.cli.arguments import Paths
from ssp_env.corpus import JsonlCorpus
from ssp_env.errors import RetrievalError
from ssp_env.protocols import Retriever
from ssp_env.serve.wire import render_answer, render_results
from ssp_env.types import SearchResult

SIZES = (1, 2, 4, 8, 16)
KEEP_EVERY = 100
WORKLOADS = ("recorded", "groups", "fresh")
GROUP = 8
K = 3
SERVERS = {"ssp": ["-m", "ssp_env", "serve", "--port", "0"], "plain": ["-m", "benchmarks.speed.plain_server"]}


@dataclass(frozen=True, kw_only=True)
class Config(Served):
    """Settings of the server benchmark."""

    queries: Paths
    """JSON Lines with 'question' or 'searches'."""
    clients: int = 64
    """Connections at a time."""
    requests: int = 1000
    """For each client of ssp serve."""
    plain_requests: int = 100
    """For each client of the plain server."""
    burst: int = 10_000
    """Requests that come at once."""
    seed: int = 0
    """Draws the queries."""
    output: Path = Path("benchmarks/results/server.json")
    """The result card."""


@dataclass(frozen=True, slots=True)
class Running:
    """A server process."""

    process: subprocess.Popen[bytes]
    url: str

    @property
    def port(self) -> int:
        """Its port."""
        return int(self.url.rpartition(":")[2])

    def cpu_s(self) -> float:
        """Return the processor time it has used, in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / 100


@contextmanager
def serving(kind: str, config: Config, *options: str) -> Iterator[Running]:
    """Start a server in a process of its own and wait until it serves."""
    retriever = ["--retriever", config.retriever, "--config", json.dumps(config.config)]
    command = [sys.executable, *SERVERS[kind], "--corpus", *map(str, config.corpus), *retriever, *options]
    if config.index_dir:
        command += ["--index-dir", str(config.index_dir)]
    with tempfile.TemporaryFile() as log, subprocess.Popen(command, stderr=log, cwd=ROOT) as process:
        try:
            yield Running(process, _url(process, log.fileno()))
        finally:
            process.kill()


def _url(process: subprocess.Popen[bytes], log: int) -> str:
    path = Path(f"/proc/self/fd/{log}")
    while process.poll() is None:
        for line in path.read_bytes().splitlines():
            if b'"serving"' in line:
                return str(json.loads(line)["url"])
        time.sleep(0.1)
    raise RuntimeError(f"expected a running server, got: {path.read_text()[-2000:]}")


def make_queries(corpus: JsonlCorpus, texts: Sequence[str], rng: np.random.Generator) -> Iterator[str]:
    """Yield distinct queries: a title of the corpus, and the last words of a recorded query or question."""
    seen: set[str] = set()
    while True:
        words = texts[int(rng.integers(len(texts)))].split()[-int(rng.integers(3, 6)) :]
        query = f"{corpus.at(int(rng.integers(len(corpus)))).title} {' '.join(words)}"
        if query not in seen:
            seen.add(query)
            yield query


def make_stream(workload: str, queries: Iterator[str], texts: Sequence[str], rng: np.random.Generator) -> Iterator[str]:
    """Yield the queries of a workload without end; the repeats of ``groups`` are not far apart."""
    while workload == "fresh":
        yield next(queries)  # not "yield from": that would end the queries together with this stream
    while workload == "recorded":
        yield texts[int(rng.integers(len(texts)))]
    while True:
        block = [query for query in itertools.islice(queries, GROUP) for _ in range(GROUP)]
        yield from (block[n] for n in rng.permutation(len(block)))


def make_batches(stream: Iterator[str], sizes: Sequence[int]) -> list[list[str]]:
    """Return requests of the given sizes."""
    return [list(itertools.islice(stream, int(size))) for size in sizes]


def measure_load(
    kind: str,
    config: Config,
    batches: Sequence[list[str]],
    *,
    local: Retriever,
    options: Sequence[str] = (),
) -> dict[str, object]:
    """Return the figures of one server under load."""
    dealt = [batches[client :: config.clients] for client in range(config.clients)]
    requests = [[_request(batch) for batch in own] for own in dealt]
    with serving(kind, config, *options) as server:
        before = server.cpu_s()
        load = put_under_load(server.port, requests, keep_every=KEEP_EVERY)
        cpu_s = server.cpu_s() - before
        peak_mb = int(memory_mib("VmHWM", server.process.pid))
    n_wrong = sum(
        not _same(body, local.search(dealt[client][number], K)) for (client, number), (_, body) in load.kept.items()
    )
    n_queries = sum(map(len, batches))
    return {
        **_counts(load),
        "requests": len(batches),
        "queries": n_queries,
        "seconds": round(load.seconds, 2),
        "requests_per_s": round(len(batches) / load.seconds, 1),
        "queries_per_s": round(n_queries / load.seconds, 1),
        "p50_ms": load.percentile_ms(50),
        "p99_ms": load.percentile_ms(99),
        "server_cpu_s": round(cpu_s, 2),
        "server_cpu_ms_per_request": round(1000 * cpu_s / len(batches), 3),
        "server_peak_mb": peak_mb,
        "compared": len(load.kept),
        "wrong": n_wrong,
    }


def measure_burst(config: Config, batches: Sequence[list[str]]) -> dict[str, object]:
    """Return what happens when all requests come at once, each over a connection of its own."""
    with serving("ssp", config) as server:
        put_under_load(server.port, [[_request(batches[0])]] * 8, keep_every=1)
        before_mb = int(memory_mib("VmRSS", server.process.pid))
        load = put_under_load(server.port, [[_request(batch)] for batch in batches], keep_every=1)
        peak_mb = int(memory_mib("VmHWM", server.process.pid))
        after = put_under_load(server.port, [[_request(batches[0])]], keep_every=1)
    codes = [json.loads(body)["error"]["code"] for status, body in load.kept.values() if status != 200]
    return {
        **_counts(load),
        "codes": {code: codes.count(code) for code in sorted(set(codes))},
        "seconds": round(load.seconds, 2),
        "server_mb_before": before_mb,
        "server_mb_peak": peak_mb,
        "answers_afterwards": after.statuses[200] == 1,
    }


def measure_outage(config: Config, *, timeout_s: float, pause_s: float | None) -> dict[str, object]:
    """Kill the server with SIGKILL while an environment is stepped; start it again after a pause, or never."""
    with serving("ssp", config) as server:
        retriever = {"name": "remote", "url": server.url, "timeout_s": timeout_s}
        corpus = [str(path) for path in config.corpus]
        index_dir = config.index_dir and str(config.index_dir)
        env = gymnasium.make("SearchSolver-v0", corpus=corpus, retriever=retriever, index_dir=index_dir)
        env.reset(seed=0, options={"task": {"question": "Which lake?", "answers": ["none"]}})
        env.step("<search>river</search>")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        back = threading.Thread(target=_serve_again, args=(config, server.port, pause_s, done := threading.Event()))
        back.start()
        started, error, reward = time.perf_counter(), "", None
        try:
            _, paid, _, _, info = env.step("<search>lake</search>")
            reward = float(paid)
        except RetrievalError as raised:
            error = str(raised)
        seconds = time.perf_counter() - started
        done.set()
        back.join()
    outcome = {"error": error[:300], "seconds": round(seconds, 2), "reward_of_the_step": reward}
    return outcome if error else {**outcome, "n_searches": info["n_searches"]}


def _serve_again(config: Config, port: int, pause_s: float | None, done: threading.Event) -> None:
    if pause_s is not None:
        time.sleep(pause_s)
        with serving("ssp", config, "--port", str(port)):
            done.wait()


def _request(queries: list[str]) -> bytes:
    return encode(json.dumps({"queries": queries, "topk": K, "return_scores": True}).encode())


def _counts(load: Load) -> dict[str, object]:
    statuses = {str(status): n for status, n in sorted(load.statuses.items())}
    return {"statuses": statuses, "connection_faults": dict(load.faults)}


def _same(body: bytes, results: Sequence[Sequence[SearchResult]]) -> bool:
    expected = render_answer([render_results(found, return_scores=True) for found in results])
    return bool(json.loads(body) == json.loads(expected))


def _read_texts(paths: Sequence[Path]) -> list[str]:
    """Return the texts of rows with ``question`` and of rows with ``searches``."""
    rows = [json.loads(line) for path in paths for line in path.read_bytes().splitlines()]
    texts = {s["query"] for row in rows for s in row.get("searches", ())} | {row["question"] for row in rows}
    return sorted(text for text in texts if len(text.split()) > 2)


def main(config: Config) -> None:
    """Measure and write the card."""
    rng = np.random.default_rng(config.seed)
    corpus, local = config.open()
    texts = _read_texts(config.queries)
    queries = make_queries(corpus, texts, rng)
    figures: dict[str, object] = {}
    for workload in WORKLOADS:
        stream = make_stream(workload, queries, texts, rng)
        for kind, n_requests in (("plain", config.plain_requests), ("ssp", config.requests)):
            batches = make_batches(stream, rng.choice(SIZES, config.clients * n_requests).tolist())
            figures[f"{workload}_{kind}"] = measure_load(kind, config, batches, local=local)
            print(workload, kind, json.dumps(figures[f"{workload}_{kind}"]), flush=True)
    figures["burst"] = measure_burst(config, make_batches(queries, [8] * config.burst))
    print("burst", json.dumps(figures["burst"]), flush=True)
    figures["outage_restarted"] = measure_outage(config, timeout_s=60.0, pause_s=1.0)
    figures["outage_for_good"] = measure_outage(config, timeout_s=2.0, pause_s=None)
    print("outage", json.dumps([figures["outage_restarted"], figures["outage_for_good"]]), flush=True)
    of_corpus = {"corpus": corpus.fingerprint, "n_passages": len(corpus), "retriever": config.retriever}
    settings = {**of_corpus, "k": K, "sizes": SIZES, "clients": config.clients}
    write_card(config.output, figures, command=command_line(), seeds=[config.seed], settings=settings)


if __name__ == "__main__":
    main(tyro.cli(Config, description=__doc__))
