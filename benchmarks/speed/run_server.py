"""Measures the retrieval server: throughput beside a plain server, refusals under overload, and a kill during a game.

    python benchmarks/speed/run_server.py --corpus passages.jsonl --queries questions.jsonl

Three parts, each on loopback and over one index. *Load*: clients send requests of mixed sizes to ``plain_server`` and
to ``ssp serve`` in turn. In ``fresh`` no query is ever asked twice; in ``groups`` each is asked eight times, as the
solvers of a group might; ``recorded`` draws from the given queries again and again. Every hundredth answer is compared
with the local retriever. *Overload*: as many requests at once as ``--burst`` says. *Outage*: the server is killed while
an environment is stepped, and started again or not.
"""

from __future__ import annotations

import argparse
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

from benchmarks.card import ROOT, write_card
from benchmarks.speed.load import Load, encode, put_under_load
from ssp_env.corpus import JsonlCorpus, open_corpus
from ssp_env.errors import RetrievalError
from ssp_env.protocols import Retriever
from ssp_env.retrieval import make_retriever
from ssp_env.serve.wire import render_answer, render_results

SIZES = (1, 2, 4, 8, 16)
KEEP_EVERY = 100
WORKLOADS = ("recorded", "groups", "fresh")
GROUP = 8
K = 3
SERVERS = {"ssp": ["-m", "ssp_env", "serve", "--port", "0"], "plain": ["-m", "benchmarks.speed.plain_server"]}


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

    def memory_mb(self, name: str) -> int:
        """Return its resident memory now (``VmRSS``) or at its peak (``VmHWM``)."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith(name)).split()[1]) // 1024


@contextmanager
def serving(kind: str, arguments: argparse.Namespace, *options: str) -> Iterator[Running]:
    """Start a server in a process of its own and wait until it serves."""
    retriever = ["--retriever", arguments.retriever, "--config", json.dumps(arguments.config)]
    command = [sys.executable, *SERVERS[kind], "--corpus", *map(str, arguments.corpus), *retriever, *options]
    if arguments.index_dir:
        command += ["--index-dir", str(arguments.index_dir)]
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
    arguments: argparse.Namespace,
    batches: Sequence[list[str]],
    *,
    local: Retriever,
    options: Sequence[str] = (),
) -> dict[str, object]:
    """Return the figures of one server under load."""
    dealt = [batches[client :: arguments.clients] for client in range(arguments.clients)]
    requests = [[_request(batch) for batch in own] for own in dealt]
    with serving(kind, arguments, *options) as server:
        before = server.cpu_s()
        load = put_under_load(server.port, requests, keep_every=KEEP_EVERY)
        cpu_s = server.cpu_s() - before
        peak_mb = server.memory_mb("VmHWM")
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


def measure_burst(arguments: argparse.Namespace, batches: Sequence[list[str]]) -> dict[str, object]:
    """Return what happens when all requests come at once, each over a connection of its own."""
    with serving("ssp", arguments) as server:
        put_under_load(server.port, [[_request(batches[0])]] * 8, keep_every=1)
        before_mb = server.memory_mb("VmRSS")
        load = put_under_load(server.port, [[_request(batch)] for batch in batches], keep_every=1)
        peak_mb = server.memory_mb("VmHWM")
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


def measure_outage(arguments: argparse.Namespace, *, timeout_s: float, pause_s: float | None) -> dict[str, object]:
    """Kill the server with SIGKILL while an environment is stepped; start it again after a pause, or never."""
    with serving("ssp", arguments) as server:
        retriever = {"name": "remote", "url": server.url, "timeout_s": timeout_s}
        corpus = [str(path) for path in arguments.corpus]
        index_dir = arguments.index_dir and str(arguments.index_dir)
        env = gymnasium.make("SearchSolver-v0", corpus=corpus, retriever=retriever, index_dir=index_dir)
        env.reset(seed=0, options={"task": {"question": "Which lake?", "answers": ["none"]}})
        env.step("<search>river</search>")
        server.process.send_signal(signal.SIGKILL)
        server.process.wait()
        back = threading.Thread(target=_serve_again, args=(arguments, server.port, pause_s, done := threading.Event()))
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


def _serve_again(arguments: argparse.Namespace, port: int, pause_s: float | None, done: threading.Event) -> None:
    if pause_s is not None:
        time.sleep(pause_s)
        with serving("ssp", arguments, "--port", str(port)):
            done.wait()


def _request(queries: list[str]) -> bytes:
    return encode(json.dumps({"queries": queries, "topk": K, "return_scores": True}).encode())


def _counts(load: Load) -> dict[str, object]:
    statuses = {str(status): n for status, n in sorted(load.statuses.items())}
    return {"statuses": statuses, "connection_faults": dict(load.faults)}


def _same(body: bytes, results: Sequence[object]) -> bool:
    expected = render_answer([render_results(found, return_scores=True) for found in results])  # type: ignore[arg-type]
    return bool(json.loads(body) == json.loads(expected))


def _read_texts(paths: Sequence[Path]) -> list[str]:
    """Return the texts of rows with ``question`` and of rows with ``searches``."""
    rows = [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()]
    texts = {s["query"] for row in rows for s in row.get("searches", ())} | {row["question"] for row in rows}
    return sorted(text for text in texts if len(text.split()) > 2)


def main() -> None:
    """Measure and write the card."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, nargs="+", required=True)
    parser.add_argument(
        "--queries", type=Path, nargs="+", required=True, help="JSON Lines with 'question' or 'searches'"
    )
    parser.add_argument("--retriever", default="bm25")
    parser.add_argument("--config", type=json.loads, default={})
    parser.add_argument("--index-dir", type=Path)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--requests", type=int, default=1000, help="for each client of ssp serve")
    parser.add_argument("--plain-requests", type=int, default=100, help="for each client of the plain server")
    parser.add_argument("--burst", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results" / "server.json")
    arguments = parser.parse_args()
    rng = np.random.default_rng(arguments.seed)
    corpus = open_corpus(arguments.corpus, index_dir=arguments.index_dir)
    local = make_retriever(arguments.retriever, corpus, arguments.config, index_dir=arguments.index_dir)
    texts = _read_texts(arguments.queries)
    queries = make_queries(corpus, texts, rng)
    figures: dict[str, object] = {}
    for workload in WORKLOADS:
        stream = make_stream(workload, queries, texts, rng)
        for kind, n_requests in (("plain", arguments.plain_requests), ("ssp", arguments.requests)):
            batches = make_batches(stream, rng.choice(SIZES, arguments.clients * n_requests).tolist())
            figures[f"{workload}_{kind}"] = measure_load(kind, arguments, batches, local=local)
            print(workload, kind, json.dumps(figures[f"{workload}_{kind}"]), flush=True)
    figures["burst"] = measure_burst(arguments, make_batches(queries, [8] * arguments.burst))
    print("burst", json.dumps(figures["burst"]), flush=True)
    figures["outage_restarted"] = measure_outage(arguments, timeout_s=60.0, pause_s=1.0)
    figures["outage_for_good"] = measure_outage(arguments, timeout_s=2.0, pause_s=None)
    print("outage", json.dumps([figures["outage_restarted"], figures["outage_for_good"]]), flush=True)
    settings = {
        "corpus": corpus.fingerprint,
        "n_passages": len(corpus),
        "retriever": arguments.retriever,
        "k": K,
        "sizes": SIZES,
        "clients": arguments.clients,
    }
    command = f"python {' '.join(['benchmarks/speed/run_server.py', *sys.argv[1:]])}"
    write_card(arguments.out, figures, command=command, seeds=[arguments.seed], settings=settings)


if __name__ == "__main__":
    main()
