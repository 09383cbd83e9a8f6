"""A new tool, judge, reader, retriever or role takes a line in its dict and plays, with nothing else told of it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

import gymnasium as gym
import pytest

import ssp_env.retrieval
from ssp_env.errors import ConfigError, RetrievalError
from ssp_env.game.game import Episode, Limits, advance
from ssp_env.game.judges import JUDGES
from ssp_env.game.readers import READERS
from ssp_env.game.roles import ROLES, Role
from ssp_env.game.tools import TOOLS, SearchTool
from ssp_env.protocols import AgentOf
from ssp_env.registry import build_game, clear
from ssp_env.types import Completion, JudgeCase, Message, Task, Verdict
from tests.fakes import BrokenRetriever, FakeRetriever, FixedReader, NoteTool

TASK = Task("t", "Which lake?", ("Lake Tarn",))
TOOL = {"tools": ["search", "note"]}


class LoudJudge:
    """Accepts what is written in capitals."""

    def judge(self, cases: list[JudgeCase]) -> list[Verdict]:
        return [Verdict("correct" if case.response.isupper() else "wrong", "loud") for case in cases]


@dataclass(frozen=True, slots=True)
class LoudSettings:
    def build(self, agent_of: AgentOf) -> LoudJudge:
        return LoudJudge()


@dataclass(frozen=True, slots=True)
class FixedSettings:
    response: str

    def build(self, agent_of: AgentOf, game: Mapping[str, object]) -> FixedReader:
        return FixedReader(self.response)


class Critic(Role):
    """Closes with a tag of its own, and has its own words."""

    def prompt(self, item, *, prompt_set, tools):
        return (Message(role="user", content=f"Review {item.question}"),)


def make_fake(corpus, config, index_dir):
    return FakeRetriever()


@pytest.fixture(autouse=True)
def note(monkeypatch) -> NoteTool:
    tool = NoteTool()
    clear()
    monkeypatch.setitem(TOOLS, "note", lambda corpus, retriever, top_k: tool)
    monkeypatch.setitem(JUDGES, "loud", LoudSettings)
    monkeypatch.setitem(READERS, "fixed", FixedSettings)
    monkeypatch.setitem(ssp_env.retrieval.RETRIEVERS, "fake", "tests.game.test_seams:make_fake")
    yield tool
    clear()


def test_a_tool_is_told_called_and_forgets_at_a_reset():
    env = gym.make("SearchSolver-v0", **TOOL)
    observation, info = env.reset(seed=0)
    assert "<note> text </note>: Write something down." in observation and "</note>" in info["stop"]
    env.step("<note>one</note>")
    assert env.step("<note>two</note>")[0] == "\n<information>\none | two\n</information>\n\n"
    info = env.step("<search>town</search>")[-1]
    assert (info["n_searches"], info["turns_left"]) == (1, 3)
    env.reset(seed=0)
    assert "\nthree\n" in env.step("<note>three</note>")[0]


def test_a_vector_of_episodes_keeps_their_memories_apart_and_calls_once_a_step(note):
    envs = gym.make_vec("SearchSolver-v0", num_envs=3, **TOOL)
    envs.reset(seed=0)
    envs.step(("<note>a1</note>", "<note>b1</note>", "<search>town</search>"))
    shown, *_ = envs.step(("<note>a2</note>", "<note>b2</note>", "<note>c1</note>"))
    assert [text.split("\n")[2] for text in shown] == ["a1 | a2", "b1 | b2", "c1"]
    assert note.n_batches == 2


def test_a_step_that_is_repeated_after_a_failure_is_remembered_once(note):
    tools = {"search": SearchTool(BrokenRetriever()), "note": note}
    episodes = [Episode(ROLES["solver"], TASK, prompt_set="paper", tools=tools, limits=Limits()) for _ in range(2)]
    with pytest.raises(RetrievalError):
        advance(episodes, [Completion("<note>x</note>"), Completion("<search>Elm</search>")])
    for _ in range(2):
        advance(episodes, [Completion("<note>x</note>"), Completion("<note>y</note>")])
    assert [e.conversation.turns[-1].observation.split("\n")[2] for e in episodes] == ["x | x", "y | y"]


def test_the_tag_of_a_tool_is_harmless_in_passages_and_questions_where_it_may_be_called(tmp_path):
    corpus = tmp_path / "passages.jsonl"
    corpus.write_text(json.dumps({"id": "1", "title": "Elm", "text": "Elm <note>go</note > <b>on</b>"}) + "\n")
    env = gym.make("SearchSolver-v0", corpus=str(corpus), **TOOL)
    prompt, _ = env.reset(options={"task": {"question": "Is <NOTE>x</note>?", "answers": ["a"]}})
    assert "Is ‹NOTE›x‹/note›?" in prompt
    assert "Elm ‹note›go‹/note › <b>on</b>" in env.step("<search>Elm</search>")[0]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ({**TOOL, "prompt_set": "compact"}, "a prompt set that tells of the tools"),
        ({"tools": ["note"]}, "'search' among the tools"),
    ],
)
def test_a_tool_that_prompts_cannot_tell_of_is_refused(config, message):
    with pytest.raises(ConfigError, match=message):
        gym.make("SearchSolver-v0", **config)


def test_a_judge_and_a_reader_play_a_round():
    rules = {"preset": "world", "n_solves": 1}
    env = gym.make("SearchSelfPlay-v0", judge="loud", reader={"name": "fixed", "response": "YES"}, rules=rules)
    env.reset(options={"answer": {"answer": "Nobody", "n_searches": 1}})
    env.step(f"<search>{env.unwrapped.game.corpus.at(0).title}</search>")
    _, _, _, _, info = env.step("<question>What is the name of this town?</question>")
    assert info["role"] == "solver"
    _, reward, terminated, _, info = env.step("<answer>LOUD</answer>")
    assert (reward, terminated, info["validation"], info["verdicts"]) == (1.0, True, "ok", ["correct:loud"])


def test_a_retriever_answers_the_search_tool():
    env = gym.make("SearchSolver-v0", retriever="fake")
    env.reset(seed=0)
    assert "The river Elm flows into Lake Tarn." in env.step("<search>Tarn</search>")[0]


def test_a_role_plays_with_a_closing_tag_of_its_own(monkeypatch):
    monkeypatch.setitem(ROLES, "critic", Critic("critic", "review", Task, dict))
    episode = build_game({}).episode("critic", TASK)
    assert episode.stop == ("</search>", "</review>")
    advance([episode], [Completion("<answer>x</answer><review> good </review>")])
    assert (episode.record().role, episode.record().final) == ("critic", "good")
