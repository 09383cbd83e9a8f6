"""Expert traces for the warm start: whole episodes, played through the real episode machine and retriever.

A trace is the very token stream that the trainer builds later: the chat template's prompt, then per turn the sampled
ids and the ids of the observation, nothing re-tokenised and nothing in between. Only episodes without a mistake are
kept.
Two kinds of exercise make the start quick: repeats teach to copy, drills to look facts up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ssp_env.corpus import MemoryCorpus
from ssp_env.game.game import Episode, Limits, advance
from ssp_env.game.roles import ROLES
from ssp_env.game.tools.search import SearchTool
from ssp_env.protocols import Agent
from ssp_env.retrieval.bm25 import Bm25Retriever
from ssp_env.tags import render_results
from ssp_env.types import Answer, Item, Passage, ReadingCase, Sampling, SearchResult, Task, Trajectory
from ssp_env.world import World
from ssp_env.world.experts import ExpertAgent
from ssp_env.world.facts import ShownFacts
from ssp_env.world.language import Clause, Description, Name, render
from ssp_env.world.names import display
from ssp_env.world.oracle import UNKNOWN, answer_set
from ssp_env.world.relations import RELATION, RELATIONS

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

UNANSWERABLE = 0.15
"""Share of reading cases whose passages do not settle the question."""


@dataclass(frozen=True, slots=True)
class Mix:
    """How many traces of each kind a world gives; proposer traces are counted by demanded searches.

    ``patience`` is that of the solving expert: where one search is not enough it often gives up instead of searching
    again. So the policy knows how to chain searches and seldom does it: that is left for reinforcement learning.
    ``proposer_patience`` is the same for the proposing expert; None: it searches as often as it was told.
    """

    solver: Mapping[str, int]
    proposer: Mapping[int, int]
    reader: Mapping[str, int]
    drills: int
    patience: float
    proposer_patience: float | None = None


@dataclass(frozen=True, slots=True)
class Trace:
    """Token ids of one episode, and per token whether the role wrote it (same length)."""

    ids: tuple[int, ...]
    written: tuple[bool, ...]


def repeat_batch(n_rows: int, vocabulary: range, rng: np.random.Generator) -> list[Trace]:
    """Return rows of 8 to 19 different random tokens and the same again from a random place on, all of one length.

    Nothing is as quick to teach a model to find and copy: the token before has been seen, what followed it then?
    """
    n = int(rng.integers(8, 20))
    rows = []
    for _ in range(n_rows):
        first = rng.choice(vocabulary, n, replace=False).tolist()
        start = int(rng.integers(n))
        rows.append(Trace((*first, *first[start:], *first[:start]), (False,) * (n + 1) + (True,) * (n - 1)))
    return rows


def _related(world: World, index: int) -> list[int]:
    """Return the entities that a fact joins with this one, in order."""
    kind, name = world.type_of(index), world.names_of(index)[0]
    names = [x for r in RELATIONS if r.subject == kind for x in world.find(r.name, "object", name)]
    names += [x for r in RELATIONS if r.object == kind for x in world.find(r.name, "subject", name)]
    return sorted({found for x in names if (found := world.index_of(x)) is not None and found != index})


def drill(world: World, tokenizer: PreTrainedTokenizerFast, rng: np.random.Generator) -> Trace:
    """Return a chat about a passage and up to five related ones: up to twelve one-fact questions and their answers.

    Related passages mention the same names in other roles, as search results do.
    """
    index = int(rng.integers(len(world)))
    related = rng.permutation(_related(world, index))[: int(rng.integers(1, 6))]
    passages = [world.passages[int(i)] for i in rng.permutation([index, *related])]
    shown = ShownFacts(passages)
    facts = [fact for said in shown.entities.values() for fact in said.facts]
    prompt = render_results([SearchResult(passage, 0.0, rank) for rank, passage in enumerate(passages)], 4000) + "\n"
    ids: list[int] = []
    written: list[bool] = []
    for place in rng.permutation(len(facts))[:12]:
        fact, relation = facts[int(place)], RELATION[facts[int(place)].relation]
        question = Description(relation.object, (Clause(relation.name, "object", Name(fact.subject)),))
        if rng.integers(2):
            question = Description(relation.subject, (Clause(relation.name, "subject", Name(fact.object)),))
        answers = answer_set(question, shown)
        if len(answers) == 1:
            chat = [{"role": "user", "content": f"{prompt}Question: {render(question, rng)}"}]
            asked = tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False)
            answer = tokenizer.encode(f"<answer> {answers[0]} </answer>", add_special_tokens=False)
            ids += [*asked, *answer, tokenizer.eos_token_id]
            written += [False] * len(asked) + [True] * len(answer) + [False]
            prompt = ""
    return Trace(tuple(ids), tuple(written))


def world_tool(world: World, *, top_k: int = 2) -> SearchTool:
    """Return the search tool over a world's passages that the embedded default uses."""
    return SearchTool(Bm25Retriever(MemoryCorpus(world.passages)), top_k=top_k)


def rollout(
    agent: Agent,
    role: str,
    items: Sequence[Item],
    tool: SearchTool,
    *,
    sampling: Sampling,
    prompt_set: str = "compact",
    max_turns: int = 8,
) -> list[Trajectory]:
    """Play one episode per item and return their records; the agent must end its completions by itself."""
    limits, tools = Limits(max_turns=max_turns), {"search": tool}
    episodes = [Episode(ROLES[role], item, prompt_set=prompt_set, tools=tools, limits=limits) for item in items]
    while running := [episode for episode in episodes if episode.running]:
        conversations = [episode.conversation for episode in running]
        advance(running, agent.complete(conversations, sampling=sampling))
    return [episode.record() for episode in episodes]


def tokenize(trajectory: Trajectory, tokenizer: PreTrainedTokenizerFast) -> Trace:
    """Return the token stream of an episode whose completions carry text only."""
    chat = [{"role": m["role"], "content": m["content"]} for m in trajectory.conversation.prompt]
    ids = list(tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=False))
    written = [False] * len(ids)
    for turn in trajectory.conversation.turns:
        for text, by_role in ((turn.completion.text, True), (turn.observation, False)):
            more = tokenizer.encode(text, add_special_tokens=False)
            ids += more
            written += [by_role] * len(more)
    return Trace(tuple(ids), tuple(written))


def world_traces(world: World, mix: Mix, tokenizer: PreTrainedTokenizerFast, rng: np.random.Generator) -> list[Trace]:
    """Return the traces of one world in random order, one to three episodes in each, and its drills.

    Episodes follow each other in one sequence so that facts are also found late in a long context and among
    passages that do not matter, as the later searches of an episode need it.
    """
    tool = world_tool(world)
    expert = ExpertAgent(seed=int(rng.integers(2**31)), proposer_patience=mix.proposer_patience)
    solver = ExpertAgent(seed=int(rng.integers(2**31)), patience=mix.patience)
    episodes = [*_solves(world, mix, solver, tool, rng), *_proposals(world, mix, expert, tool, rng)]
    episodes += _readings(world, mix, expert, tool, rng)
    waiting = [tokenize(episodes[int(i)], tokenizer) for i in rng.permutation(len(episodes))]
    traces = [drill(world, tokenizer, rng) for _ in range(mix.drills)]
    while waiting:
        n = int(rng.integers(1, 4))
        traces.append(_joined(waiting[:n], tokenizer.eos_token_id))
        waiting = waiting[n:]
    return [traces[int(i)] for i in rng.permutation(len(traces))]


def _joined(traces: Sequence[Trace], separator: int) -> Trace:
    """Return traces one after the other, the separator after each."""
    ids = tuple(token for trace in traces for token in (*trace.ids, separator))
    return Trace(ids, tuple(own for trace in traces for own in (*trace.written, False)))


def _tasks(world: World, counts: Mapping[str, int], rng: np.random.Generator) -> list[Task]:
    return [task for kind, n in counts.items() if n for task in world.tasks(kind, n, rng)]


def _solves(
    world: World, mix: Mix, expert: ExpertAgent, tool: SearchTool, rng: np.random.Generator
) -> Iterator[Trajectory]:
    """Keep right answers, and episodes in which the expert gave up."""
    for record in rollout(expert, "solver", _tasks(world, mix.solver, rng), tool, sampling=Sampling()):
        if isinstance(record.item, Task) and record.final in (*record.item.answers, display(UNKNOWN)):
            yield record


def _proposals(
    world: World, mix: Mix, expert: ExpertAgent, tool: SearchTool, rng: np.random.Generator
) -> Iterator[Trajectory]:
    """Keep questions with the right answer and the demanded depth, or that of the searches of an impatient expert."""
    for n_searches, n in mix.proposer.items():
        if not n:
            continue
        answers = world.answers(min(4 * n, 100), rng, n_searches=(n_searches,))
        kept = 0
        for record in rollout(expert, "proposer", answers, tool, sampling=Sampling()):
            if kept < n and isinstance(record.item, Answer) and _is_good(world, mix, record.item, record):
                kept += 1
                yield record


def _is_good(world: World, mix: Mix, answer: Answer, record: Trajectory) -> bool:
    question, n_searches = record.final or "", len(record.queries)
    right = world.oracle.answers(question) == (answer.text.lower(),)
    as_told = n_searches == answer.n_searches or mix.proposer_patience is not None
    return right and as_told and world.oracle.n_hops(question) == n_searches


def with_distractors(
    world: World, evidence: Sequence[Passage], n_distractors: int, rng: np.random.Generator
) -> tuple[Passage, ...]:
    """Return the evidence and some random passages, each once, shuffled."""
    distractors = [world.passages[int(i)] for i in rng.choice(len(world), n_distractors, replace=False)]
    shown = list({passage.id: passage for passage in (*evidence, *distractors)}.values())
    return tuple(shown[int(i)] for i in rng.permutation(len(shown)))


def _readings(
    world: World, mix: Mix, expert: ExpertAgent, tool: SearchTool, rng: np.random.Generator
) -> Iterator[Trajectory]:
    """Show what a solver found, without the proof in some cases, among distractors and shuffled."""
    tasks = _tasks(world, mix.reader, rng)
    cases = []
    for record in rollout(expert, "solver", tasks, tool, sampling=Sampling()):
        evidence = list(record.evidence)
        if rng.random() < UNANSWERABLE:
            evidence = evidence[: int(rng.integers(len(evidence)))]
        shown = with_distractors(world, evidence, int(rng.integers(6)), rng)
        if shown and isinstance(record.item, Task):
            cases.append(ReadingCase(record.item.question, shown))
    yield from rollout(expert, "reader", cases, tool, sampling=Sampling())
