"""The judge that asks a model about what the rules leave open.

A model's reply is read as one of two labels; anything else, like an outage, is the verdict ``error``, on which nobody
is paid. The five criteria follow SSP appendix D.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from ssp_env.errors import AgentError
from ssp_env.game.judges.exact import ExactJudge, ExactMode
from ssp_env.game.prompts import fill
from ssp_env.protocols import Agent, AgentOf, check_completions
from ssp_env.types import Conversation, JudgeCase, Message, Sampling, Verdict

_APOSTROPHE = re.compile(r"(?<=\w)['`\u00b4\u2018\u2019\u02bc\u2032](?=\w)")
_MARKUP = re.compile(r"[*_#>\"\u201c\u201d\u2018\u2019\u00ab\u00bb\[\](){}`]|</?(?!think)\w+>")
_HEADING = re.compile(r"(?:^|(?<=[.!?] )|(?<=\n))(?:the |my |final )*(?:verdict|answer) ?: ?")
_STATEMENT = re.compile(
    r"(?:the correct answer is [^.?!]*, so )?"
    r"(?:(?:it|this|that|(?:the|this|that) (?:given )?(?:response|answer|reply|verdict))(?:'s| is(?=n't| )))?"
    r"(?: ?(?P<negated>not|n't)(?: quite| entirely)?)? ?(?P<label>correct|incorrect|wrong)"
    r"(?P<reason>|(?:[.!,;\n]| because ).*)",
    re.DOTALL,
)
_DOUBT = re.compile(
    r"\?|n't|correct|wrong|mistak|doubt|contradict|differ|lack|miss|fail"
    r"|\b(?:no|not|non|nor|never|neither|none|nothing|cannot|cant|isnt|doesnt|without|false|untrue|but|however|although"
    r"|though|except|unless|if|would|should|could|might|may|far|unlike|instead|rather|partly|partially|almost|hardly)\b"
)
_REVOKED = re.compile(r"\?|correct|wrong|\b(?:no|yes|true|false|right)\b")


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
        check_completions(completions, len(cases))
        return [_read_reply(completion.text) for completion in completions]

    def _prompt(self, case: JudgeCase) -> tuple[Message, ...]:
        texts = {"question": case.question, "answers": " | ".join(case.answers), "response": case.response}
        values = {name: " ".join(text.split()) for name, text in texts.items()}
        return fill("paper", "judge", values)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Settings of judge ``model``; ``agent`` describes whom it asks."""

    agent: str | Mapping[str, object]
    mode: ExactMode = "both"

    def build(self, agent_of: AgentOf) -> ModelJudge:
        """Return the judge."""
        return ModelJudge(agent_of(self.agent), mode=self.mode)


def _rule_out_listing(case: JudgeCase, verdict: Verdict) -> Verdict:
    longest = max(map(len, case.answers), default=0)
    if verdict.label == "wrong" and len(case.response) > 4 * longest + 100:
        return replace(verdict, method="too_long")
    return verdict


def _read_reply(reply: str) -> Verdict:
    label = parse_verdict(reply)
    return Verdict("error", "model", f"unreadable reply {reply[:200]!r}") if label is None else Verdict(label, "model")


def parse_verdict(reply: str) -> Literal["correct", "wrong"] | None:
    """Return the label that a judge model gave, or None for a reply that is not clearly one of the two.

    Thinking and markup are skipped, and what precedes a "Verdict:" or "Answer:" heading. What remains is a label, or
    says that the response has it, and may then explain itself: not with a question, with the label again or its
    opposite, nor, after "correct", with a word that restricts or negates. "Not correct" is wrong.
    """
    text = _APOSTROPHE.sub("'", reply.casefold().rpartition("</think>")[2])
    text = _MARKUP.sub("", unicodedata.normalize("NFKC", text).casefold())
    text = "\n".join(" ".join(line.split()) for line in text.splitlines() if not line.isspace()).strip("\n '")
    first, *headed = (_label(part.strip("\n '")) for part in _HEADING.split(text))
    labels = {first, *headed} if first or not headed else set(headed)
    return labels.pop() if len(labels) == 1 else None


def _label(text: str) -> Literal["correct", "wrong"] | None:
    stated = _STATEMENT.fullmatch(text)
    if stated is None:
        return None
    label, negated, reason = stated["label"], stated["negated"], stated["reason"]
    if label == "correct" and not negated:
        return None if _DOUBT.search(text[: stated.start("label")] + reason) else "correct"
    twice = negated and label != "correct"
    return None if twice or _REVOKED.search(reason.replace("the correct ", "")) else "wrong"
