"""An agent behind an OpenAI-compatible endpoint (vLLM, SGLang, llama.cpp, Ollama, hosted models).

Uses the standard library only, one connection per request, no streaming, no redirects, no proxies, and asks for no
token ids: good for judges, readers and opponents, not for a policy in training. Nothing is logged and no environment
variable is read; an API key is used only in the request's header and is struck from error texts.
"""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from urllib.parse import urlsplit

import numpy as np

from agents.stopping import cut_at_stop, missing_stop
from ssp_env.errors import AgentError
from ssp_env.types import Completion, Conversation, Finish, Sampling

MAX_STOPS = 4
"""Stop strings sent with a request; hosted endpoints refuse more. The rest is applied to the reply."""

_TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_CONTEXT_FULL = ("context_length_exceeded", "maximum context length", "exceed_context_size")
_HEAD_CHARS = 300
_MAX_PAUSE_S = 30.0


class EndpointError(AgentError):
    """Raised when an endpoint gave no usable completion.

    Attributes:
        status: The HTTP status, or None when there was no response.
        body_head: The first characters of the response's body.
    """

    def __init__(self, message: str, *, status: int | None = None, body_head: str = "") -> None:
        """Take the message and what the server said."""
        super().__init__(message)
        self.status = status
        self.body_head = body_head


@dataclass(frozen=True, slots=True)
class _Failure:
    """One failed try: what came instead of a completion, and whether another try may help."""

    got: str
    transient: bool
    status: int | None = None
    body: str = ""
    pause_s: float = 0.0


class OpenAIAgent:
    """Completes conversations through ``POST {base_url}/chat/completions``.

    Attributes:
        backoff_s: Pause after the first failed try, in seconds; it doubles with every further one, up to 30 s. A
            ``Retry-After`` of the server is honoured up to the same limit.
    """

    backoff_s: float = 0.5

    def __init__(
        self,
        base_url: str,
        model: str,
        *,
        api_key: str | None = None,
        timeout_s: float = 120.0,
        max_retries: int = 4,
        max_parallel: int = 16,
    ) -> None:
        """Set up without connecting.

        Args:
            base_url: The address up to and including the version, such as ``http://127.0.0.1:8000/v1``.
            model: The model's name at the endpoint.
            api_key: Sent as a bearer token.
            timeout_s: Longest duration of one try, in seconds, however slowly the server answers.
            max_retries: Further tries after an overload, a server's failure or a broken reply.
            max_parallel: Requests under way at the same time.

        Raises:
            ValueError: If an argument is out of range.
        """
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(
                f"expected base_url like 'http://127.0.0.1:8000/v1', got {base_url!r}; give scheme and host"
            )
        if timeout_s <= 0 or max_retries < 0 or max_parallel < 1:
            raise ValueError(
                "expected timeout_s > 0, max_retries >= 0 and max_parallel >= 1, "
                f"got {timeout_s!r}, {max_retries!r} and {max_parallel!r}; correct them"
            )
        if api_key is not None and not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
            raise ValueError("expected an api_key of printable ASCII without spaces, got another; give the bare key")
        self._secure = parts.scheme == "https"
        self._host, self._port = parts.hostname, parts.port
        self._path = parts.path.rstrip("/") + "/chat/completions"
        self._model = model
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._max_parallel = max_parallel

    def __repr__(self) -> str:
        """Return a description without the key."""
        return f"OpenAIAgent({self._host!r}, {self._model!r})"

    def complete(self, conversations: Sequence[Conversation], *, sampling: Sampling) -> list[Completion]:
        """Return one completion per conversation, in order.

        With a seed, each conversation of the batch gets its own, so that equal conversations may differ; how
        reproducible that is depends on the endpoint. A context that the server refuses as too long is the completion
        ``""`` with finish ``"context"``.

        Raises:
            EndpointError: If any conversation could not be completed.
        """
        if not conversations:
            return []
        seeds = _seeds(sampling.seed, len(conversations))
        with ThreadPoolExecutor(min(self._max_parallel, len(conversations))) as pool:
            futures = [
                pool.submit(self._complete_one, self._payload(conversation, sampling, seed), sampling.stop)
                for conversation, seed in zip(conversations, seeds, strict=True)
            ]
            try:
                return [future.result() for future in futures]
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def _payload(self, conversation: Conversation, sampling: Sampling, seed: int | None) -> bytes:
        body: dict[str, object] = {
            "model": self._model,
            "messages": conversation.messages(),
            "max_tokens": sampling.max_tokens,
            "temperature": sampling.temperature,
        }
        if sampling.stop:
            body["stop"] = list(sampling.stop[:MAX_STOPS])
        if seed is not None:
            body["seed"] = seed
        return json.dumps(body).encode()

    def _complete_one(self, payload: bytes, stop: tuple[str, ...]) -> Completion:
        n_tries = 0
        while True:
            reply = self._try(payload, stop)
            n_tries += 1
            if isinstance(reply, Completion):
                return reply
            if not reply.transient or n_tries > self._max_retries:
                raise self._error(reply, n_tries=n_tries)
            time.sleep(min(_MAX_PAUSE_S, max(reply.pause_s, self.backoff_s * 2 ** (n_tries - 1))))

    def _try(self, payload: bytes, stop: tuple[str, ...]) -> Completion | _Failure:
        try:
            status, pause_s, raw = self._post(payload)
        except (OSError, http.client.HTTPException) as error:
            return _Failure(f"{type(error).__name__}: {error}", transient=True)
        body = raw.decode("utf-8", "replace")
        if status == 200:
            return _read_reply(body, stop)
        if status in (400, 413, 422) and any(said in body.lower() for said in _CONTEXT_FULL):
            return Completion("", finish="context")
        return _Failure(f"status {status}", status in _TRANSIENT, status, body, pause_s)

    def _post(self, payload: bytes) -> tuple[int, float, bytes]:
        """Send one request; return status, the pause that the server asks for (seconds) and the body."""
        deadline = time.monotonic() + self._timeout_s
        connect = http.client.HTTPSConnection if self._secure else http.client.HTTPConnection
        connection = connect(self._host, self._port, timeout=self._timeout_s)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        if self._api_key:
            headers["Authorization"] = f"Bearer {self._api_key}"
        try:
            connection.request("POST", self._path, body=payload, headers=headers)
            socket = connection.sock
            socket.settimeout(_seconds_left(deadline))
            response = connection.getresponse()
            chunks: list[bytes] = []
            while not response.isclosed():
                socket.settimeout(_seconds_left(deadline))
                chunks.append(response.read1(65_536))
                if not chunks[-1]:
                    break
            if response.length:
                raise http.client.IncompleteRead(b"", response.length)
            return response.status, _retry_after(response.getheader("Retry-After")), b"".join(chunks)
        finally:
            connection.close()

    def _error(self, failure: _Failure, *, n_tries: int) -> EndpointError:
        body, got = (text.replace(self._api_key or "\0", "[api key]") for text in (failure.body, failure.got))
        head = " ".join(body.split())[:_HEAD_CHARS]
        remedy = {
            401: "check the api_key",
            403: "check the api_key",
            404: "check base_url (it usually ends in /v1) and the model's name",
            429: "lower max_parallel or raise max_retries",
        }.get(failure.status or 0, "check that the endpoint is up and serves this model")
        said = f", body {head!r}" if head else ""
        where = f"{self._host}:{self._port}{self._path}" if self._port else f"{self._host}{self._path}"
        return EndpointError(
            f"expected a completion from {where}, got {got}{said} (tries: {n_tries}); {remedy}",
            status=failure.status,
            body_head=head,
        )


def _read_reply(body: str, stop: tuple[str, ...]) -> Completion | _Failure:
    try:
        choice = json.loads(body)["choices"][0]
        text = choice["message"]["content"] or ""
        reason = choice.get("finish_reason")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        return _Failure(f"a reply without a completion ({type(error).__name__})", True, 200, body)
    if not isinstance(text, str):
        return _Failure(f"a completion of type {type(text).__name__}", True, 200, body)
    text, stopped = cut_at_stop(text.encode("utf-8", "replace").decode(), stop)
    if not stopped and reason == "stop":
        cut_off = _reported_stop(choice, stop)
        closing = missing_stop(text, stop) if cut_off is None else cut_off
        text, stopped = text + closing, bool(closing)
    finish: Finish = "stop" if stopped else "length" if reason == "length" else "eos"
    return Completion(text, finish=finish)


def _reported_stop(choice: dict[str, object], stop: tuple[str, ...]) -> str | None:
    """Return the stop string that the server says it cut off, "" when it says none, None when it does not say."""
    for key in ("stop_reason", "matched_stop"):
        if key in choice:
            said = choice[key]
            return said if isinstance(said, str) and said in stop else ""
    return None


def _seeds(seed: int | None, n: int) -> list[int | None]:
    if seed is None:
        return [None] * n
    return [int(state) >> 1 for state in np.random.SeedSequence(seed).generate_state(n)]


def _seconds_left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("the deadline has passed")
    return left


def _retry_after(header: str | None) -> float:
    """Return the seconds that the header asks for; dates are ignored."""
    return float(header) if header and header.strip().isdigit() else 0.0
