"""What proposed questions are really worth: exact truths in a generated world, and their shares over a round.

Metrics only: no rule and no reward uses them. A question is *right* when the answer's answer is its only answer in the
world and follows from the evidence. Left out: whether a model answers it without passages, which no world can tell.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import Final

from ssp_env.types import Passage, Round
from ssp_env.world.language import Comparison, Name, Noun, Question, parse
from ssp_env.world.oracle import Oracle
from ssp_env.world.world import World

READ: Final = frozenset(("ok", "not_answerable", "closed_book", "not_multi_hop", "not_unique"))
"""Reasons that say that a reader has read the question: the rules alone did not decide."""


@dataclass(frozen=True, slots=True)
class Quality:
    """The truth about one question.

    Attributes:
        parseable: Whether it is a question of the world's language.
        unique: Whether it has exactly one answer.
        right: Whether that answer is the answer's, and the evidence suffices for it.
        answerable: Whether the evidence alone gives the answer's answer and no other.
        n_hops: The fewest passages that prove the answer; None unless it is unique.
        relations: Its facts and how they are chained, without names: ``"wrote<(born<)"``; "" when not parseable.
        form: Its shape alone: ``"2"`` for a chain of two facts, ``"and(1,2)"``, ``"compare(1,1)"``; "" likewise.
    """

    parseable: bool = False
    unique: bool = False
    right: bool = False
    answerable: bool = False
    n_hops: int | None = None
    relations: str = ""
    form: str = ""


def question_quality(world: World, question: str, *, answers: Iterable[str], evidence: Iterable[Passage]) -> Quality:
    """Return the truth about a question whose answer should be one of ``answers`` and follow from ``evidence``."""
    parsed = parse(question)
    if parsed is None:
        return Quality()
    oracle = Oracle(world)
    wanted = {world.resolve(answer.lower()) for answer in answers}
    found = oracle.answers(question) or ()
    implied = tuple(world.resolve(name) for name in oracle.implied(question, evidence))
    unique, answerable = len(found) == 1, len(implied) == 1 and implied[0] in wanted
    return Quality(
        parseable=True,
        unique=unique,
        right=unique and answerable and found[0] in wanted,
        answerable=answerable,
        n_hops=oracle.n_hops(question),
        relations=_relations(parsed),
        form=_form(parsed),
    )


def round_quality(world: World, played: Round) -> Quality | None:
    """Return the truth about the question of a round; None when no reader has read it."""
    if played.validation.reason not in READ:
        return None
    proposal = played.proposal
    return question_quality(world, proposal.final or "", answers=played.answer.accepted, evidence=proposal.evidence)


def quality_statistics(rounds: Sequence[tuple[Round, Quality | None]]) -> dict[str, float | None]:
    """Return shares over the accepted questions of a batch; None where nothing was there to be counted.

    ``precision`` is the share of accepted questions that are right, ``recall`` the share of right questions that were
    accepted among those that a reader has read; rightly rejected as ``not_multi_hop`` they do not count.
    ``multi_hop`` questions need two passages or more, ``hops_as_demanded`` exactly as many as searches were demanded.
    Entropies are in nats, over relation chains (topics) and over forms.
    """
    accepted = [(played, q) for played, q in rounds if q is not None and played.validation.ok]
    right = [(played, q) for played, q in rounds if q is not None and q.right and not _rightly_short(played, q)]
    relations = Counter(q.relations for _, q in accepted if q.parseable)
    forms = Counter(q.form for _, q in accepted if q.parseable)
    hops = [q.n_hops for _, q in accepted]
    return {
        "n_accepted": len(accepted),
        "parseable": _share([q.parseable for _, q in accepted]),
        "unique": _share([q.unique for _, q in accepted]),
        "answerable": _share([q.answerable for _, q in accepted]),
        "precision": _share([q.right for _, q in accepted]),
        "recall": _share([played.validation.ok for played, _ in right]),
        "multi_hop": _share([n is not None and n >= 2 for n in hops]),
        "hops_as_demanded": _share([q.n_hops == played.answer.n_searches for played, q in accepted]),
        **{f"hops_{n}": _share([found == n for found in hops]) for n in (1, 2, 3, 4)},
        "distinct_relations": len(relations),
        "distinct_forms": len(forms),
        "entropy_relations": _entropy(relations),
        "entropy_forms": _entropy(forms),
    }


def _rightly_short(played: Round, quality: Quality) -> bool:
    short = quality.n_hops is not None and quality.n_hops < played.answer.n_searches
    return played.validation.reason == "not_multi_hop" and short


def _relations(question: Noun | Question) -> str:
    if isinstance(question, Name):
        return ""
    if isinstance(question, Comparison):
        sign = "max" if question.larger else "min"
        return f"{sign} {question.relation}({_relations(question.left)}|{_relations(question.right)})"
    parts = []
    for clause in question.clauses:
        inner = _relations(clause.noun)
        arrow = "<" if clause.sought == "subject" else ">"
        parts.append(f"{clause.relation}{arrow}" + (f"({inner})" if inner else ""))
    return " & ".join(parts)


def _form(question: Noun | Question) -> str:
    if isinstance(question, Name):
        return "0"
    if isinstance(question, Comparison):
        return f"compare({_form(question.left)},{_form(question.right)})"
    parts = [_longer(_form(clause.noun)) for clause in question.clauses]
    return parts[0] if len(parts) == 1 else f"and({','.join(parts)})"


def _longer(form: str) -> str:
    return str(int(form) + 1) if form.isdigit() else f"1+{form}"


def _share(marks: Sequence[bool]) -> float | None:
    return sum(marks) / len(marks) if marks else None


def _entropy(counts: Counter[str]) -> float | None:
    n = counts.total()
    return -sum(k / n * log(k / n) for k in counts.values()) + 0.0 if n else None
