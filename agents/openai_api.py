"""An agent behind an OpenAI-compatible endpoint (vLLM, SGLang, llama.cpp, Ollama, hosted models).

For judges, readers and opponents. A policy in training needs token ids, which this agent does not ask for. No
streaming, no redirects, no proxies, no settings from the environment (see ``ssp_env.http``). An API key is used only
in the request's header and is struck from error texts.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from ssp_agents.stopping import cut_at_stop, missing_stop
from ssp_env.errors import AgentError
from ssp_env.http import Client, Deadline, NoReply, Patience, Reply, split_url
from ssp_env.types import Completion, Conversation, Finish, Sampling

MAX_STOPS = 4
"""Stop strings sent with a request; hosted endpoints refuse more. The rest is applied to the reply."""

_TRANSIENT = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
_CONTEXT_FULL = ("context_length_exceeded", "maximum context length", "exceed_context_size")
_REMEDIES = {
    401: "check the api_key",
    403: "check the api_key",
    404: "check base_url (it usually ends in /v1) and the model's name",
    429: "lower max_parallel or raise max_retries",
}
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


class OpenAIAgent:
    """Completes conversations through ``POST {base_url}/chat/completions``.

    Attributes:
        backoff_s: Pause after the first failed try, in seconds. It doubles with every further one, up to 30 s, and is
            shortened at random by up to half. ``Retry-After`` is honoured up to the same limit.
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
            max_parallel: Requests under way at the same time, from all threads together.

        Raises:
            ValueError: If an argument is out of range.
        """
        try:
            url = split_url(base_url)
        except ValueError as error:
            wanted = "expected base_url like 'http://127.0.0.1:8000/v1'"
            raise ValueError(f"{wanted}, got {base_url!r} ({error}); give scheme and host") from error
        if timeout_s <= 0 or max_retries < 0 or max_parallel < 1:
            raise ValueError(
                "expected timeout_s > 0, max_retries >= 0 and max_parallel >= 1, "
                f"got {timeout_s!r}, {max_retries!r} and {max_parallel!r}; correct them"
            )
        if api_key is not None and not (api_key.isascii() and api_key.isprintable() and " " not in api_key):
            raise ValueError("expected an api_key of printable ASCII without spaces, got another; give the bare key")
        headers = {"Accept": "application/json", **({"Authorization": f"Bearer {api_key}"} if api_key else {})}
        self._client = Client(url, max_parallel, headers)
        self._path = url.path.rstrip("/") + "/chat/completions"
        self._model = model
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._max_retries = max_retries
        self._max_parallel = max_parallel

    def __repr__(self) -> str:
        """Return a description without the key."""
        return f"OpenAIAgent({self._client.address!r}, {self._model!r})"

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
        patience = Patience(self.backoff_s, _MAX_PAUSE_S, self._timeout_s, self._max_retries + 1, _TRANSIENT)
        target = ("POST", self._path)
        try:
            return self._client.request(
                target, payload, lambda reply: self._read(reply, stop), patience=patience, deadline=Deadline()
            )
        except NoReply as error:
            raise self._error(error.got, error.n_tries, error.reply) from None

    def _read(self, reply: Reply, stop: tuple[str, ...]) -> Completion:
        body = reply.body.decode("utf-8", "replace")
        if reply.status == 200:
            return _read_completion(body, stop)
        if reply.status in (400, 413, 422) and any(said in body.lower() for said in _CONTEXT_FULL):
            return Completion("", finish="context")
        raise self._error(f"status {reply.status}", reply.n_tries, reply)

    def _error(self, got: str, n_tries: int, reply: Reply | None) -> EndpointError:
        body = reply.body.decode("utf-8", "replace") if reply else ""
        body, got = (text.replace(self._api_key or "\0", "[api key]") for text in (body, got))
        head = " ".join(body.split())[:_HEAD_CHARS]
        status = reply.status if reply else None
        remedy = _REMEDIES.get(status or 0, "check that the endpoint is up and serves this model")
        said = f"{got}, body {head!r}" if head else got
        where = f"{self._client.address}{self._path}"
        message = f"expected a completion from {where}, got {said} (tries: {n_tries}); {remedy}"
        return EndpointError(message, status=status, body_head=head)


def _read_completion(body: str, stop: tuple[str, ...]) -> Completion:
    """Return what a reply says; raises ``ValueError`` when it holds no completion."""
    try:
        choice = json.loads(body)["choices"][0]
        text = choice["message"]["content"] or ""
        reason = choice.get("finish_reason")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ValueError(f"a reply without a completion ({type(error).__name__})") from error
    if not isinstance(text, str):
        raise ValueError(f"a completion of type {type(text).__name__}")
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
