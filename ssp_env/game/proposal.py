"""The rule filter: what a proposal must satisfy before anybody reads or solves it.

The checks and their order follow the released SSP code; the first that fails names the reason. Evidence and queries
come from the environment's log, never from what the model wrote. Queries count as repeated when they are equal after
Unicode normalisation, so that another letter case or a full stop does not make a new search; the released code compares
exact strings. Its re-check of length and leakage after the gate is left out: the question does not change there.
Not checked: whether the question needs a search at all, and whether its answer is unique (the gate's part).
"""

from __future__ import annotations

from collections.abc import Iterator

from ssp_env.game.rules import GameRules
from ssp_env.tags import strip_tags
from ssp_env.text import fold_marks, leaks, normalize_unicode
from ssp_env.types import Answer, Reason, Task, Trajectory


def proposed_question(trajectory: Trajectory) -> str:
    """Return the question of a finished proposal without stray tags, in single spaces; "" when there is none."""
    if trajectory.status != "finished" or trajectory.final is None:
        return ""
    return strip_tags(trajectory.final)


def proposed_from(trajectory: Trajectory) -> Answer:
    """Return the answer that a proposer started from."""
    if not isinstance(trajectory.item, Answer):
        raise TypeError(f"expected a proposer's trajectory, got one of role {trajectory.role!r}")
    return trajectory.item


def proposed_task(trajectory: Trajectory) -> Task:
    """Return the task that a proposal makes: its question, with every accepted form of its answer."""
    answer = proposed_from(trajectory)
    return Task(answer.id, proposed_question(trajectory), answer.accepted)


def check_proposal(rules: GameRules, trajectory: Trajectory) -> Reason:
    """Return the first reason against a proposal, or ``ok``; ``failed`` when our side broke its episode.

    An unfinished episode has no question.
    """
    answer = proposed_from(trajectory)
    if trajectory.status == "failed":
        return "failed"
    question = proposed_question(trajectory)
    checks = (_question_reasons(rules, answer, question), _search_reasons(rules, answer, trajectory))
    return next((reason for reasons in checks for reason in reasons), "ok")


def _question_reasons(rules: GameRules, answer: Answer, question: str) -> Iterator[Reason]:
    if not any(map(str.isalnum, fold_marks(question))):
        yield "no_question"
    if len(question) < rules.min_chars or len(question.split()) < rules.min_words:
        yield "too_short"
    if len(question) > rules.max_chars:
        yield "too_long"
    if leaks(question, answer.accepted, rules.leak):
        yield "answer_leak"


def _search_reasons(rules: GameRules, answer: Answer, trajectory: Trajectory) -> Iterator[Reason]:
    queries = trajectory.queries
    if not trajectory.evidence:
        yield "no_evidence"
    if len(queries) < rules.min_searches:
        yield "too_few_searches"
    if rules.distinct_queries and len(set(map(normalize_unicode, queries))) < len(queries):
        yield "repeated_search"
    if not rules.answer_in_query and any(leaks(query, answer.accepted, rules.leak) for query in queries):
        yield "answer_in_query"
    if rules.exact_search_count and len(queries) != answer.n_searches:
        yield "wrong_search_count"
