"""The rules of the game as one flat record, with the published settings as presets.

``PRESETS["paper"]``, the defaults, follows the text of arXiv 2510.18821 and ``PRESETS["code"]`` the authors' released
code wherever the two disagree; ``PRESETS["world"]`` is for the generated world, whose questions are shorter.
Settings of the optimiser (advantages, losses, learning rates) belong to the trainer (``training/presets.py``), and who
reads at the gate (the policy in the paper, a judge model in the code) to the configuration of a game, not here.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

from ssp_env.errors import ConfigError
from ssp_env.game.rewards import PROPOSER_REWARDS, SOLVER_REWARDS
from ssp_env.schema import Count, Finite, Natural, check, choice, parse, within

MAX_TOP_K = 100


@dataclass(frozen=True, slots=True)
class GameRules:
    """Every rule that a researcher may want to vary.

    Attributes:
        min_chars: Shortest question, in characters. The paper only rejects what is "excessively short" and gives no
            number; its preset has low ones of ours and an upper limit that no question reaches.
        max_chars: Longest question, in characters.
        min_words: Fewest space-separated words of a question.
        min_searches: Fewest executed searches of a proposal.
        distinct_queries: Whether a repeated query rejects the proposal (code).
        exact_search_count: Whether the searches must equal the demanded number.
        answer_in_query: Whether a query may contain the answer.
        leak: How the answer is looked for in the question: plain case-insensitive ``substring`` (code), or
            ``normalized`` token spans with aliases, accents and case folded.
        gate: Whether the RAG check is made at all.
        distractor_unit: What is mixed into the evidence: single passages (paper) or whole evidence bundles (code).
            What the other proposals do not offer comes from the corpus; see ``ssp_env.game.distractors``.
        n_distractors: How many of them (``n`` in the paper's equation 2).
        closed_book_probe: Whether a question that passed is read once more over distractors alone; a correct answer
            rejects it.
        chain: What makes a question pseudo multi-hop and rejects it: nothing (``any``); a correct answer without one of
            its searches, from what the others found (``searches``); a correct answer from one passage fewer than the
            searches demanded (``passages``).
        n_unique_probes: Further readings over the evidence in another order, mixed with rivals, which are what searches
            for the question and the proposer's queries find; any other answer rejects.
        ask_for_all: Whether one further reading is asked for all answers; a second answer rejects.
        n_rivals: Most rivals that this reading is shown; 0: ``n_distractors`` of them, made up with distractors.
        rival_hops: Steps of the search for rivals, 3 at most; each after the first searches for the titles of what was
            found so far, which brings up second answers that are several hops away.
        n_solves: Solver episodes per task.
        max_turns: Completions per episode.
        top_k: Passages per search, 100 at most.
        end_on_invalid: Whether a completion without an action ends the episode.
        solver_reward: A name in ``SOLVER_REWARDS``.
        proposer_reward: A name in ``PROPOSER_REWARDS``.
        invalid_reward: What a rejected proposal pays; negative values collapse training (paper figure 5).
        filling: How slots of rejected proposals are filled (paper appendix B.1).
        reset_every: Rounds after which the pool is emptied (``reset`` only).
        max_resamples: Further batches of answers that ``resample`` may draw.
        update_order: Which role is updated first.
    """

    min_chars: Natural = 10
    max_chars: Count = 10_000
    min_words: Natural = 3
    min_searches: Natural = 1
    distinct_queries: bool = False
    exact_search_count: bool = False
    answer_in_query: bool = True
    leak: Literal["substring", "normalized"] = "normalized"
    gate: bool = True
    distractor_unit: Literal["passage", "bundle"] = "passage"
    n_distractors: Natural = 4
    closed_book_probe: bool = False
    chain: Literal["any", "searches", "passages"] = "any"
    n_unique_probes: Natural = 0
    ask_for_all: bool = False
    n_rivals: Natural = 0
    rival_hops: Annotated[int, within(1, 3)] = 1
    n_solves: Count = 5
    max_turns: Count = 10
    top_k: Annotated[int, within(1, MAX_TOP_K)] = 3
    end_on_invalid: bool = False
    solver_reward: str = "strict"
    proposer_reward: str = "zero_sum"
    invalid_reward: Finite = 0.0
    filling: Literal["dummy", "resample", "reuse", "reset", "none"] = "reset"
    reset_every: Count = 10
    max_resamples: Natural = 5
    update_order: Literal["solver_first", "proposer_first"] = "solver_first"

    def __post_init__(self) -> None:
        """Check names and ranges, so that a wrong rule fails here and not in the middle of a run."""
        check(self, what="the rules")
        choice(self.solver_reward, SOLVER_REWARDS, what="solver_reward")
        choice(self.proposer_reward, PROPOSER_REWARDS, what="proposer_reward")
        self._check_together()

    def _check_together(self) -> None:
        if self.max_chars < self.min_chars:
            raise ConfigError(f"expected max_chars of at least min_chars, got {self.max_chars!r}; raise it")
        if self.probes and not self.gate:
            raise ConfigError("expected gate=true for rules that probe questions, got gate=False; switch the gate on")

        if (self.n_rivals and not self.ask_for_all) or (self.rival_hops > 1 and not self.looks_for_rivals):
            got = f"n_rivals={self.n_rivals} and rival_hops={self.rival_hops}"
            raise ConfigError(f"expected ask_for_all=true for rules about rivals, got {got} without; switch it on")

    @property
    def looks_for_rivals(self) -> bool:
        """Whether other answers to a question are looked for."""
        return self.n_unique_probes > 0 or self.ask_for_all

    @property
    def probes(self) -> bool:
        """Whether questions that passed the gate are read again."""
        return self.closed_book_probe or self.chain != "any" or self.looks_for_rivals


PRESETS: dict[str, GameRules] = {
    "paper": GameRules(),
    "code": GameRules(
        max_chars=1000,
        min_words=10,
        min_searches=2,
        distinct_queries=True,
        leak="substring",
        distractor_unit="bundle",
        end_on_invalid=True,
        solver_reward="overlisting",
        update_order="proposer_first",
    ),
    "world": GameRules(
        max_chars=1000,
        min_words=4,
        distinct_queries=True,
        n_distractors=6,
        n_solves=6,
        max_turns=6,
        top_k=2,
        solver_reward="binary",
        proposer_reward="zero_sum_solved",
    ),
}


def rules(preset: str, **changes: object) -> GameRules:
    """Return a preset with some fields changed.

    Raises:
        ConfigError: If the preset or a field is unknown.
    """
    chosen = PRESETS[choice(preset, PRESETS, what="preset")]
    return parse(GameRules, {**asdict(chosen), **changes}, what="the rules")
