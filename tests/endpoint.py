"""A chat-completions endpoint on the loopback interface that answers as it is told."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass(slots=True)
class Reply:
    """What the endpoint sends back for one request.

    ``promised`` overrides the Content-Length; ``drip`` sends one byte at a time until the client gives up.
    """

    body: str | bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    promised: int | None = None
    drip: bool = False


@dataclass(slots=True)
class Request:
    path: str
    headers: Mapping[str, str]
    body: dict[str, object]


def chat(text: str | None, finish_reason: str = "stop", **extra: object) -> Reply:
    """A well-formed reply with one choice."""
    choice = {"message": {"role": "assistant", "content": text}, "finish_reason": finish_reason, **extra}
    return Reply(json.dumps({"choices": [choice]}))


@dataclass(slots=True)
class Endpoint:
    url: str
    requests: list[Request]


@contextmanager
def serve(answer: Callable[[Request], Reply]) -> Iterator[Endpoint]:
    """Serve until the block ends; every request is answered by ``answer`` and recorded."""
    requests: list[Request] = []
    closing = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            requests.append(request := Request(self.path, dict(self.headers), body))
            reply = answer(request)
            payload = reply.body.encode() if isinstance(reply.body, str) else reply.body
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(payload) if reply.promised is None else reply.promised))
            self.end_headers()
            self._send(payload, drip=reply.drip)

        def _send(self, payload: bytes, *, drip: bool) -> None:
            try:
                if not drip:
                    self.wfile.write(payload)
                while drip and not closing.wait(0.01):
                    self.wfile.write(b" ")
            except OSError:
                self.close_connection = True

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield Endpoint(f"http://127.0.0.1:{server.server_port}/v1", requests)
    finally:
        closing.set()
        server.shutdown()
        thread.join()
        server.server_close()
