"""The judge that asks a model about what the rules leave open.

A model's reply is read as one of two labels; anything else, like an outage, is the verdict ``error``, on which nobody
is paid. The five criteria follow SSP appendix D.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from ssp_env.errors import AgentError
from ssp_env.judge.exact import ExactJudge, ExactMode
from ssp_env.prompts import fill
from ssp_env.protocols import Agent, AgentOf
from ssp_env.text import fold_marks
from ssp_env.types import Conversation, JudgeCase, Message, Sampling, Verdict

_NEGATIONS = frozenset(("not", "no", "never", "neither", "nor", "cannot", "hardly", "isnt", "wasnt", "arent"))
_NOUNS = frozenset(("answer", "answers", "response", "one", "label", "option", "value", "name", "solution", "reply"))


class ModelJudge:
    """Applies the rules, then asks a model.

    Empty responses are wrong (``empty``), exact ones correct (``exact``, ``unicode``). A response of more than
    ``4 * n + 100`` characters, ``n`` being the length of the longest answer, lists or hedges and is wrong
    (``too_long``) without being asked about. The rest is decided by the model (``model``).
    """

    def __init__(self, agent: Agent, *, sampling: Sampling | None = None, mode: ExactMode = "both") -> None:
        """Wrap an agent; the default sampling is greedy with 16 tokens, enough for one label."""
        self._agent = agent
        self._sampling = sampling or Sampling(max_tokens=16, temperature=0.0, seed=0)
        self._exact = ExactJudge(mode)

    def judge(self, cases: Sequence[JudgeCase]) -> list[Verdict]:
        """Return one verdict per case; all open cases go to the model in one batch."""
        verdicts = [_rule_out_listing(case, v) for case, v in zip(cases, self._exact.judge(cases), strict=True)]
        still_open = [i for i, v in enumerate(verdicts) if v.label == "wrong" and v.method in ("exact", "unicode")]
        for i, verdict in zip(still_open, self._ask([cases[i] for i in still_open]), strict=True):
            verdicts[i] = verdict
        return verdicts

    def _ask(self, cases: Sequence[JudgeCase]) -> list[Verdict]:
        if not cases:
            return []
        try:
            completions = self._agent.complete(
                [Conversation(self._prompt(case)) for case in cases], sampling=self._sampling
            )
        except AgentError as error:
            return [Verdict("error", "model", f"AgentError: {error}")] * len(cases)
        return [_read_reply(completion.text) for completion in completions]

    def _prompt(self, case: JudgeCase) -> tuple[Message, ...]:
        texts = {"question": case.question, "answers": " | ".join(case.answers), "response": case.response}
        values = {name: " ".join(text.split()) for name, text in texts.items()}
        return fill("paper", "judge", values)


def make_model(*, agent: object, mode: ExactMode = "both") -> Callable[[AgentOf], ModelJudge]:
    """Check the settings of judge ``model`` and return what makes it; ``agent`` describes whom it asks.

    Raises:
        ConfigError: If the mode is unknown.
    """
    ExactJudge(mode)
    return lambda agent_of: ModelJudge(agent_of(agent), mode=mode)


def _rule_out_listing(case: JudgeCase, verdict: Verdict) -> Verdict:
    longest = max(map(len, case.answers), default=0)
    if verdict.label == "wrong" and len(case.response) > 4 * longest + 100:
        return replace(verdict, method="too_long")
    return verdict


def _read_reply(reply: str) -> Verdict:
    label = parse_verdict(reply)
    return Verdict("error", "model", f"unreadable reply {reply[:200]!r}") if label is None else Verdict(label, "model")


def parse_verdict(reply: str) -> Literal["correct", "wrong"] | None:
    """Return the label that a judge model gave, or None when it gave none or both.

    Thinking is skipped, markup and quotes are ignored, and a "Verdict:" heading makes only what follows it count.
    "Incorrect" and a negated "correct" are wrong; "the correct answer is ..." is no label.
    """
    text = re.sub(r"<think>.*?(?:</think>|$)", " ", reply, flags=re.DOTALL)
    text = re.sub(r"['\u2018\u2019\u02bc]", "", fold_marks(text).casefold())
    words: list[str] = re.findall(r"[^\W\d_]+", text)
    if "verdict" in words[:-1]:
        words = words[len(words) - words[::-1].index("verdict") :]
    labels = {label for i in range(len(words)) if (label := _label_at(words, i))}
    if labels == {"correct"}:
        return "correct"
    return "wrong" if labels == {"wrong"} else None


def _label_at(words: Sequence[str], i: int) -> str | None:
    negated = not _NEGATIONS.isdisjoint(words[max(0, i - 3) : i])
    if words[i] in ("incorrect", "wrong"):
        return "unclear" if negated else "wrong"
    if words[i] != "correct" or (i + 1 < len(words) and words[i + 1] in _NOUNS):
        return None
    return "wrong" if negated else "correct"
