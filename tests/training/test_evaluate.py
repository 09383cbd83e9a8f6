import pytest

from ssp_env.registry import build_game
from ssp_env.types import Completion, Task
from training.evaluate import evaluate


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
