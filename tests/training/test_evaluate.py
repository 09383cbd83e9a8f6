import pytest

from ssp_env.registry import build_game
from ssp_env.types import Completion, Task
from training.evaluate import evaluate, pass_at_k


class Echo:
    """Answers every question with its last word."""

    def complete(self, conversations, *, sampling):
        assert sampling.temperature == 0
        return [Completion(f"<answer> {c.prompt[-1]['content'].split()[-1]} </answer>") for c in conversations]


def test_accuracy_is_by_kind_with_all_at_the_end():
    game = build_game({"prompt_set": "compact"})
    tasks = [Task("a", "say yes", ("yes",), "k"), Task("b", "say no", ("yes",), "k"), Task("c", "say no", ("no",), "j")]
    accuracy = evaluate(game, tasks, Echo(), max_new_tokens=5)
    assert list(accuracy) == ["k", "j", "all"]
    assert accuracy == pytest.approx({"k": 0.5, "j": 1.0, "all": 2 / 3})


class Alternating:
    """Is right every second time."""

    def complete(self, conversations, *, sampling):
        assert sampling.temperature == 1.0
        return [Completion(f"<answer> {'yes' if i % 2 else 'no'} </answer>") for i in range(len(conversations))]


def test_pass_at_k_is_the_chance_that_one_of_k_solves_is_right():
    game = build_game({"prompt_set": "compact"})
    tasks = [Task("a", "which", ("yes",), "k"), Task("b", "which", ("maybe",), "k"), Task("c", "which", ("no",), "j")]
    figures = pass_at_k(game, tasks, Alternating(), n_samples=4, max_new_tokens=5, temperature=1.0, seed=0)
    # Two of four are right: of the six pairs one holds none of them.
    assert figures == pytest.approx(
        {
            "1/k": 0.25, "1/j": 0.5, "1/all": 1 / 3,
            "2/k": 5 / 12, "2/j": 5 / 6, "2/all": 5 / 9,
            "4/k": 0.5, "4/j": 1.0, "4/all": 2 / 3,
        }
    )  # fmt: skip
