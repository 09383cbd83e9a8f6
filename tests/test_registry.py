"""Games and agents are built once per process from plain JSON."""

from __future__ import annotations

import json
import os
import threading
from functools import reduce

import gymnasium
import pytest

from ssp_agents.scripted import FunctionAgent
from ssp_env import registry
from ssp_env.errors import ConfigError, CorpusError
from ssp_env.game.judges import ModelJudge
from ssp_env.game.readers import AgentReader
from ssp_env.registry import build_agent, build_game, clear, register_agent
from ssp_env.types import Answer, Completion, JudgeCase, Reading, ReadingCase
from ssp_env.world import KINDS, OracleReader, sampling
from tests.fakes import ScriptedAgent, ask


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch):
    monkeypatch.setattr(registry, "AGENTS", dict(registry.AGENTS))
    clear()
    yield
    clear()


@pytest.fixture
def corpus(tmp_path):
    path = tmp_path / "passages.jsonl"
    rows = [{"id": str(i), "title": f"T{i}", "text": f"Thing number {i} is blue."} for i in range(5)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path)


class Makers:
    @staticmethod
    def yes(word):
        return make_yes_agent(word)


def make_yes_agent(word="yes"):
    return ScriptedAgent([word])


class NoAgent:
    """Cannot complete."""


def test_the_default_game_is_complete():
    game = build_game({})
    assert {task.kind for task in game.tasks} == set(KINDS)
    assert {answer.n_searches for answer in game.answers} == {1, 2, 3}
    assert isinstance(game.reader, OracleReader)
    assert ask(game.tools["search"], game.corpus.at(0).title)[0].results


def test_equal_configurations_share_one_game():
    assert build_game({}) is build_game({"corpus": "world", "retriever": {"name": "bm25"}})
    assert build_game({}) is not build_game({"corpus": {"world": {"seed": 1}}})


def test_world_tasks_repeat_and_differ_between_worlds():
    first = tuple(build_game({}).tasks)
    clear()
    assert tuple(build_game({}).tasks) == first
    assert tuple(build_game({"corpus": {"world": {"seed": 1}}}).tasks) != first


def test_tasks_and_seeds_of_a_world_are_drawn_when_they_are_needed(monkeypatch):
    draws = []
    monkeypatch.setattr(
        sampling, "sample_answers", lambda world, n, rng, **_: draws.append(n) or [Answer("a", "b")] * n
    )
    game = build_game({})
    assert draws == []
    assert (
        len(game.answers) == 200
        and game.answers[-1] == Answer("a", "b")
        and game.answers[:2] == (Answer("a", "b"),) * 2
    )
    assert draws == [200]


def test_a_game_whose_files_have_changed_is_built_anew(corpus, tmp_path):
    tasks = tmp_path / "t.jsonl"
    config = {"corpus": corpus, "tasks": str(tasks), "reader": "policy"}
    games = []
    for question in ("first?", "first?", "second and longer?"):
        tasks.write_text(json.dumps({"question": question, "answer": "Thing 1"}) + "\n")
        os.utime(tasks, ns=(0, len(question)))
        games.append(build_game(config))
    assert games[0] is games[1]
    assert [game.tasks[0].question for game in games[1:]] == ["first?", "second and longer?"]
    tasks.write_text("no json\n")
    with pytest.raises(ConfigError, match="t.jsonl"):
        build_game(config)


def test_threads_build_one_game():
    games = []
    threads = [threading.Thread(target=lambda: games.append(build_game({}))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({id(game) for game in games}) == 1


def test_an_agent_that_builds_a_game_and_a_game_that_builds_an_agent_do_not_block_each_other(monkeypatch):
    game_started, rules = threading.Event(), registry.game_rules
    monkeypatch.setattr(registry, "game_rules", lambda spec: game_started.set() or rules(spec))

    def make_agent_after_a_game():
        game_started.wait(timeout=0.5)
        build_game({})
        return make_yes_agent()

    register_agent("with-game", make_agent_after_a_game)
    register_agent("plain", make_yes_agent)
    threads = [
        threading.Thread(target=build_agent, args=("with-game",), daemon=True),
        threading.Thread(target=build_game, args=({"reader": {"agent": "plain"}},), daemon=True),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=20)
    assert not any(thread.is_alive() for thread in threads)


def test_old_entries_are_dropped(monkeypatch):
    monkeypatch.setattr(registry, "MAX_ENTRIES", 2)
    first = build_game({"corpus": {"world": {"seed": 1}}})
    build_game({"corpus": {"world": {"seed": 2}}})
    build_game({"corpus": {"world": {"seed": 3}}})
    assert build_game({"corpus": {"world": {"seed": 1}}}) is not first


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_fork_while_a_thread_builds_does_not_block_the_child():
    with registry._games._lock:
        child = os.fork()
        if child == 0:
            done = threading.Thread(target=build_game, args=({},), daemon=True)
            done.start()
            done.join(timeout=20)
            os._exit(1 if done.is_alive() else 0)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_files_give_corpus_tasks_and_seeds(corpus, tmp_path):
    (tmp_path / "t.jsonl").write_text('{"question": "Which thing is blue?", "answer": "Thing 1"}\n')
    (tmp_path / "s.jsonl").write_text('{"ground_truth": ["Thing 1"], "search_turns": 1}\n')
    config = {"corpus": corpus, "tasks": str(tmp_path / "t.jsonl"), "answers": str(tmp_path / "s.jsonl")}
    game = build_game(config)
    assert (len(game.corpus), game.tasks[0].answers, game.answers[0].text) == (5, ("Thing 1",), "Thing 1")
    assert game.reader is None
    assert (game.rules.top_k, len(ask(game.tools["search"], "blue thing")[0].results)) == (3, 3)


def test_a_real_corpus_without_files_has_nothing_to_draw(corpus):
    game = build_game({"corpus": corpus})
    assert (len(game.tasks), len(game.answers)) == (0, 0)


def test_a_bad_corpus_names_file_and_line(tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": "1", "title": "T", "text": "x"}\n{"id": "2"}\n')
    with pytest.raises(CorpusError, match="bad.jsonl:2"):
        build_game({"corpus": str(path)})


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_entities": 3}, "from 100 to 10000000 for 'world.n_entities' of the corpus, got 3"),
        ({"sede": 1}, "'world' of the corpus, got 'sede'; did you mean 'seed'"),
        ({"n_entities": "many"}, "'world.n_entities' of the corpus, got 'many'"),
        ({"seed": None}, "at least 0 for 'world.seed' of the corpus, got None"),
        ({"seed": True}, "at least 0 for 'world.seed' of the corpus, got True"),
    ],
)
def test_bad_world_settings_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        build_game({"corpus": {"world": settings}})


def test_model_judge_and_agent_reader_ask_named_agents():
    register_agent("judge", lambda: ScriptedAgent(["Verdict: correct"]))
    game = build_game({"judge": {"name": "model", "agent": "judge"}, "reader": {"agent": "judge"}})
    assert isinstance(game.judge, ModelJudge) and isinstance(game.reader, AgentReader)
    assert game.judge.judge([JudgeCase(question="q", answers=("a",), response="the a")])[0].correct


def test_the_agent_of_the_judge_reads_where_the_reader_is_the_judge():
    agent = ScriptedAgent(["<answer>Correct</answer>"])
    register_agent("both", lambda: agent)
    game = build_game({"judge": {"name": "model", "agent": "both"}, "reader": "judge", "prompt_set": "worked"})
    assert game.reader.read([ReadingCase("Which?", ())]) == [Reading("Correct")]
    assert game.judge.judge([JudgeCase(question="q", answers=("a",), response="the a")])[0].correct
    assert len(agent.calls) == 2 and agent.calls[0][0][0].prompt[0]["role"] == "system"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({"judge": {"name": "model"}}, "'agent'"),
        ({"judge": {"name": "exact", "agent": "x"}}, "agent"),
        ({"judge": {"name": "exact", "mode": "loose"}}, "loose"),
        ({"judge": {"name": "exact", "mode": ["both"]}}, "mode"),
        ({"reader": {"agent": "world-exprt"}}, "did you mean 'world-expert'"),
        ({"retriever": {"name": "bm25", "lnaguage": "english"}}, "language"),
    ],
)
def test_mistakes_deeper_down_are_config_errors(config, message):
    with pytest.raises(ConfigError, match=message):
        build_game(config)


def test_agents_by_name_and_by_module_are_built_once():
    register_agent("yes", make_yes_agent)
    assert build_agent("yes") is build_agent({"name": "yes"})
    assert build_agent("yes") is not build_agent({"name": "yes", "kwargs": {"word": "no"}})
    assert build_agent({"name": "tests.test_registry:Makers.yes", "kwargs": {"word": "no"}}) is not build_agent("yes")
    other = build_agent("tests.test_registry:make_yes_agent")
    assert other.complete([], sampling=None) == [] and Completion("yes")


@FunctionAgent
def reply(conversation):
    return f"<answer>{len(conversation.text())}</answer>"


def test_a_function_is_an_agent_in_one_line_for_judge_reader_and_opponent():
    agent = FunctionAgent(lambda conversation: "<answer>Correct</answer>")
    register_agent("mine", agent)
    assert build_agent("mine") is agent
    game = build_game({"judge": {"name": "model", "agent": "mine"}, "reader": {"agent": "mine"}})
    assert game.reader.read([ReadingCase("Which?", ())]) == [Reading("Correct")]
    assert gymnasium.make("SearchProposer-v0", opponent="mine").reset(seed=0)[0]
    assert build_agent("tests.test_registry:reply") is reply


def test_a_function_that_is_no_agent_is_told_how_to_become_one():
    register_agent("bare", lambda conversation: "<answer>Correct</answer>")
    with pytest.raises(ConfigError, match="ssp_agents.scripted.FunctionAgent"):
        build_agent("bare")
    register_agent("ready", FunctionAgent(str))
    with pytest.raises(ConfigError, match="not callable"):
        build_agent({"name": "ready", "kwargs": {"word": "no"}})


def test_the_expert_of_the_world_is_there():
    assert hasattr(build_agent("world-expert"), "complete")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("world-exprt", "did you mean 'world-expert'"),
        ("no_such_module:x", "importable"),
        ("json:no_such_name", "importable"),
        (":x", "importable"),
        (".json:x", "importable"),
        ({"name": "world-expert", "kwargs": {"skil": 1}}, "; correct them"),
        ({"name": "world-expert", "kwargs": 3}, "an object for 'kwargs' of an agent, got 3"),
        ({"agent": "world-expert"}, "a setting of an agent, got 'agent'; choose one of .*'name'"),
        (7, "a string for 'name' of an agent, got 7"),
        (reduce(lambda inner, _: {"kwargs": inner}, range(3000), {}), "levels deep"),
        ("tests.test_registry:NoAgent", "'complete'"),
    ],
)
def test_a_bad_agent_is_one_clear_error(spec, message):
    with pytest.raises(ConfigError, match=message):
        build_agent(spec)


def test_a_taken_name_is_refused():
    register_agent("mine", make_yes_agent)
    register_agent("mine", make_yes_agent)
    with pytest.raises(ConfigError, match="new name"):
        register_agent("mine", NoAgent)
    with pytest.raises(ConfigError, match="colon"):
        register_agent("a:b", make_yes_agent)
