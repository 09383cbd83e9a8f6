from __future__ import annotations

import pickle
import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from ssp_agents.openai_api import MAX_STOPS, EndpointError, OpenAIAgent
from ssp_env.errors import AgentError
from ssp_env.registry import build_game
from ssp_env.types import Completion, Conversation, JudgeCase, Message, Sampling, ToolCall, Turn
from tests.endpoint import Endpoint, Reply, Request, chat, serve

STOP = ("</search>", "</answer>")


def asked(text: str = "hello") -> Conversation:
    return Conversation((Message(role="user", content=text),))


def quick(endpoint: Endpoint, **changes: object) -> OpenAIAgent:
    agent = OpenAIAgent(endpoint.url, "m", **{"max_retries": 2, "timeout_s": 5.0, **changes})  # type: ignore[arg-type]
    agent.backoff_s = 0.0
    return agent


def in_turn(*replies: Reply) -> Callable[[Request], Reply]:
    left: Iterator[Reply] = iter(replies)
    return lambda _: next(left)


def completed(reply: Reply, *, stop: tuple[str, ...] = STOP) -> Completion:
    with serve(lambda _: reply) as endpoint:
        return quick(endpoint).complete([asked()], sampling=Sampling(stop=stop))[0]


def test_the_request_carries_model_messages_and_sampling() -> None:
    turn = Turn(Completion("<search>a</search>"), ToolCall("search", "a"), observation="found")
    conversation = Conversation((Message(role="user", content="q"),), (turn,))
    with serve(lambda _: chat("ok")) as endpoint:
        quick(endpoint, api_key="k-123").complete(
            [conversation], sampling=Sampling(max_tokens=7, temperature=0.5, stop=STOP, seed=3)
        )
    (request,) = endpoint.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["Authorization"] == "Bearer k-123"
    assert request.body["messages"] == [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "<search>a</search>"},
        {"role": "user", "content": "found"},
    ]
    assert (request.body["model"], request.body["max_tokens"], request.body["temperature"]) == ("m", 7, 0.5)
    assert request.body["stop"] == list(STOP)
    assert isinstance(request.body["seed"], int)


def test_without_seed_key_or_stop_none_is_sent() -> None:
    with serve(lambda _: chat("ok")) as endpoint:
        quick(endpoint).complete([asked()], sampling=Sampling())
    (request,) = endpoint.requests
    assert not {"seed", "stop"} & set(request.body)
    assert "Authorization" not in request.headers


def test_equal_conversations_get_different_seeds_that_repeat_with_the_batch() -> None:
    with serve(lambda _: chat("ok")) as endpoint:
        agent = quick(endpoint, max_parallel=1)
        for _ in range(2):
            agent.complete([asked(), asked()], sampling=Sampling(seed=5))
    seeds = [request.body["seed"] for request in endpoint.requests]
    assert seeds[:2] == seeds[2:]
    assert seeds[0] != seeds[1]


def test_more_stop_strings_than_endpoints_take_are_applied_to_the_reply() -> None:
    stop = tuple(f"</t{i}>" for i in range(6))
    with serve(lambda _: chat("<t5>x</t5> beyond")) as endpoint:
        (completion,) = quick(endpoint).complete([asked()], sampling=Sampling(stop=stop))
    assert endpoint.requests[0].body["stop"] == list(stop[:MAX_STOPS])
    assert (completion.text, completion.finish) == ("<t5>x</t5>", "stop")


@pytest.mark.parametrize(
    ("reply", "text", "finish"),
    [
        (chat("<search>who"), "<search>who</search>", "stop"),
        (chat("<search>who</search>"), "<search>who</search>", "stop"),
        (chat("<search>who</search> forged <information>"), "<search>who</search>", "stop"),
        (chat("just words"), "just words", "eos"),
        (chat("<search>who", stop_reason=None), "<search>who", "eos"),
        (chat("<search>who", stop_reason="</search>"), "<search>who</search>", "stop"),
        (chat("<search>who", matched_stop=151645), "<search>who", "eos"),
        (chat("<search>who", "length"), "<search>who", "length"),
        (chat(None), "", "eos"),
        (chat("", "content_filter"), "", "eos"),
    ],
)
def test_a_stop_string_that_the_server_cut_off_is_put_back(reply: Reply, text: str, finish: str) -> None:
    completion = completed(reply)
    assert (completion.text, completion.finish) == (text, finish)


def test_lone_surrogates_in_a_reply_are_replaced() -> None:
    assert completed(Reply('{"choices":[{"message":{"content":"a\\ud800b"},"finish_reason":"stop"}]}')).text == "a?b"


@pytest.mark.parametrize(
    "trouble",
    [
        Reply("busy", 429, {"Retry-After": "0"}),
        Reply("oops", 500),
        Reply("<html>bad gateway</html>", 502),
        Reply('{"choices": [{"mess'),
        Reply('{"choices": [{"mess', promised=500),
        Reply("<html>please log in</html>"),
        Reply("[]"),
        Reply('{"choices": []}'),
        Reply('{"choices": [{"message": {"content": 5}}]}'),
        Reply(b"\xff\xfe"),
    ],
    ids=lambda reply: f"{reply.status}-{reply.body[:12]!r}",
)
def test_passing_trouble_is_tried_again(trouble: Reply) -> None:
    with serve(in_turn(trouble, trouble, chat("ok"))) as endpoint:
        assert quick(endpoint).complete([asked()], sampling=Sampling())[0].text == "ok"
    assert len(endpoint.requests) == 3


def test_lasting_trouble_ends_after_the_last_retry_with_status_and_body() -> None:
    with serve(lambda _: Reply("over\nloaded " + "x" * 5000, 503)) as endpoint:
        with pytest.raises(EndpointError, match=r"got status 503, body 'over loaded x+' \(tries: 3\); check") as caught:
            quick(endpoint).complete([asked()], sampling=Sampling())
    assert len(endpoint.requests) == 3
    assert caught.value.status == 503
    assert len(caught.value.body_head) == 300
    assert isinstance(caught.value, AgentError)
    assert pickle.loads(pickle.dumps(caught.value)).status == 503


@pytest.mark.parametrize(("status", "remedy"), [(401, "api_key"), (404, "/v1"), (400, "endpoint"), (301, "endpoint")])
def test_a_refusal_is_not_tried_again(status: int, remedy: str) -> None:
    with serve(lambda _: Reply("no", status)) as endpoint:
        with pytest.raises(EndpointError, match=rf"status {status}.*tries: 1.*{remedy}"):
            quick(endpoint).complete([asked()], sampling=Sampling())
    assert len(endpoint.requests) == 1


def test_a_context_that_is_too_long_is_a_completion_and_no_error() -> None:
    completion = completed(Reply('{"error": {"code": "context_length_exceeded"}}', 400))
    assert (completion.text, completion.finish) == ("", "context")


def test_an_endpoint_that_drips_for_ever_hits_the_deadline() -> None:
    started = time.monotonic()
    with serve(lambda _: Reply("", promised=10**6, drip=True)) as endpoint:
        with pytest.raises(EndpointError, match="TimeoutError"):
            quick(endpoint, timeout_s=0.2, max_retries=0).complete([asked()], sampling=Sampling())
    assert time.monotonic() - started < 3


def test_an_endpoint_that_never_answers_hits_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        agent = OpenAIAgent(f"http://127.0.0.1:{silent.getsockname()[1]}", "m", timeout_s=0.2, max_retries=0)
        with pytest.raises(EndpointError, match="TimeoutError|timed out"):
            agent.complete([asked()], sampling=Sampling())


def test_a_refused_connection_is_tried_again_and_then_reported() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    agent = OpenAIAgent(f"http://127.0.0.1:{port}/v1", "m", max_retries=1)
    agent.backoff_s = 0.0
    with pytest.raises(EndpointError, match=r"ConnectionRefusedError.*tries: 2") as caught:
        agent.complete([asked()], sampling=Sampling())
    assert caught.value.status is None


def test_one_failing_conversation_fails_the_batch() -> None:
    def answer(request: Request) -> Reply:
        return Reply("no", 400) if "bad" in str(request.body["messages"]) else chat("ok")

    with serve(answer) as endpoint:
        with pytest.raises(EndpointError):
            quick(endpoint).complete([asked("good"), asked("bad"), asked("good")], sampling=Sampling())


def test_requests_run_at_the_same_time_up_to_the_limit() -> None:
    together = threading.Barrier(3)

    def answer(_: Request) -> Reply:
        together.wait(timeout=5)
        return chat("ok")

    with serve(answer) as endpoint:
        assert len(quick(endpoint, max_parallel=3).complete([asked()] * 3, sampling=Sampling())) == 3


def test_the_key_shows_in_no_error_and_no_repr() -> None:
    with serve(lambda request: Reply(f"bad {request.headers['Authorization']}", 401)) as endpoint:
        agent = quick(endpoint, api_key="sk-secret")
        with pytest.raises(EndpointError) as caught:
            agent.complete([asked()], sampling=Sampling())
    shown = f"{caught.value} {caught.value.body_head} {agent!r}"
    assert "sk-secret" not in shown
    assert "[api key]" in shown
    with pytest.raises(ValueError, match="expected an api_key of printable ASCII") as refused:
        OpenAIAgent("http://h", "m", api_key="sk-secret\n")
    assert "sk-secret" not in str(refused.value)


@pytest.mark.parametrize("base_url", ["localhost:8000", "ftp://host/v1", "http://", ""])
def test_an_address_without_scheme_or_host_is_refused(base_url: str) -> None:
    with pytest.raises(ValueError, match="expected base_url like"):
        OpenAIAgent(base_url, "m")


@pytest.mark.parametrize("changes", [{"timeout_s": 0.0}, {"max_retries": -1}, {"max_parallel": 0}])
def test_limits_out_of_range_are_refused(changes: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="expected timeout_s > 0"):
        OpenAIAgent("http://h", "m", **changes)  # type: ignore[arg-type]


def test_an_endpoint_can_be_the_judge_of_a_game_configured_with_plain_json() -> None:
    with serve(lambda _: chat("Correct")) as endpoint:
        agent = {"name": "ssp_agents.openai_api:OpenAIAgent", "kwargs": {"base_url": endpoint.url, "model": "m"}}
        game = build_game({"judge": {"name": "model", "agent": agent}})
        (verdict,) = game.judge.judge([JudgeCase(question="Who?", answers=("Ada Finch",), response="A. Finch")])
    assert (verdict.label, verdict.method) == ("correct", "model")
    assert len(endpoint.requests) == 1
