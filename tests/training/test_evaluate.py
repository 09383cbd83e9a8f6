import pytest

from ssp_env.registry import build_game
from ssp_env.types import Completion, Task
from training.evaluate import best_round, evaluate, held_out, mean_accuracy, pass_at_k


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


WORLD = {f"held_out/{kind}": share for kind, share in zip(
    ("1-hop", "2-hop", "3-hop", "4-hop", "intersection", "comparison", "all"), (1.0, 0.5, 0.25, 0.0, 0.75, 0.9, 0.6),
    strict=True,
)}  # fmt: skip


def test_the_mean_counts_every_kind_the_same_and_leaves_comparisons_out():
    assert mean_accuracy(WORLD) == pytest.approx(0.5)
    assert held_out(WORLD)["comparison"] == 0.9 and "all" not in held_out(WORLD)
    assert mean_accuracy({"held_out/bridge": 0.2, "held_out/comparison": 0.4, "held_out/all": 1.0}) == pytest.approx(
        0.3
    )
    assert mean_accuracy({"round": 3, "valid_rate": 0.5}) is None


def test_the_best_round_is_the_first_with_the_highest_mean_and_never_the_start():
    def line(number, share):
        return {"round": number, "held_out/1-hop": share, "held_out/all": 1 - share}

    assert best_round([line(0, 0.9)]) is best_round([]) is None
    lines = [line(0, 0.9), line(10, 0.2), {"round": 11}, line(20, 0.7), line(30, 0.7), line(40, 0.1)]
    assert best_round(lines) == 20


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
