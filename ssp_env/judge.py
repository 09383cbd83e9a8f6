"""The judge: is a response one of the accepted answers?

Rules come first and a model is asked only about what they leave open. A model's reply is read as one of two labels;
anything else, like an outage, is the verdict ``error``, on which nobody is paid. Cases are built with keywords, so
response and answers cannot change places unnoticed. The five criteria follow SSP appendix D.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

from ssp_env.errors import AgentError, ConfigError
from ssp_env.prompts import fill
from ssp_env.protocols import Agent
from ssp_env.text import exact_match, fold_marks, normalize_paper, normalize_unicode
from ssp_env.types import Conversation, JudgeCase, Message, Sampling, Verdict

ExactMode = Literal["both", "paper", "unicode"]

_NORMALIZERS = {
    "both": (("exact", normalize_paper), ("unicode", normalize_unicode)),
    "paper": (("exact", normalize_paper),),
    "unicode": (("unicode", normalize_unicode),),
}
_NEGATIONS = frozenset(("not", "no", "never", "neither", "nor", "cannot", "hardly", "isnt", "wasnt", "arent"))
_NOUNS = frozenset(("answer", "answers", "response", "one", "label", "option", "value", "name", "solution", "reply"))


class ExactJudge:
    """Compares after normalisation.

    The verdict's method is ``exact`` when the paper's form decides, ``unicode`` when only the Unicode form does, and
    ``empty`` for a wrong response without a letter or digit.
    """

    def __init__(self, mode: ExactMode = "both") -> None:
        """Choose the normalisations: the paper's, the Unicode one, or either (``both``).

        Raises:
            ConfigError: If the mode is unknown.
        """
        if not isinstance(mode, str) or mode not in _NORMALIZERS:
            raise ConfigError(f"expected a mode out of {sorted(_NORMALIZERS)}, got {mode!r}; name one of these")
        self._normalizers = _NORMALIZERS[mode]

    def judge(self, cases: Sequence[JudgeCase]) -> list[Verdict]:
        """Return one verdict per case; never ``error``."""
        return [self._verdict(case) for case in cases]

    def _verdict(self, case: JudgeCase) -> Verdict:
        for method, normalize in self._normalizers:
            if exact_match(case.response, case.answers, normalize):
                return Verdict("correct", method)
        if not any(map(str.isalnum, case.response)):
            return Verdict("wrong", "empty")
        return Verdict("wrong", self._normalizers[0][0])


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
