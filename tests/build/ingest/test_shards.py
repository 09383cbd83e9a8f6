"""Passages end where sentences end, keep every word in order, and stay within their length."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ssp_env.build.ingest.shards import LONGEST, SHORTEST, sentences, split_passages


@pytest.mark.parametrize(
    ("paragraph", "n"),
    [
        ("One. Two! Three? Four", 4),
        ("Dr. Smith met J. R. R. Tolkien in St. Louis, U.S. Senate, on Jan. 5. He left.", 2),
        ("It costs 3.5 dollars. Then 4.", 2),
        ('He said "Stop." Then he left.', 2),
        ("A b (c d.) Next one.", 2),
        ("第一句。第二句。", 2),
        ("lower. case after a dot", 1),
        ("Élan. Über alles. Ñandú.", 3),
        ("", 0),
    ],
)
def test_sentences_end_at_marks_but_not_at_abbreviations(paragraph: str, n: int) -> None:
    assert len(sentences(paragraph)) == n


@given(
    st.lists(st.lists(st.sampled_from(["word", "Paris.", "end!", "Dr.", "東京。", "x"]), max_size=60), max_size=6),
    st.integers(1, 30),
)
def test_words_stay_in_order_and_passages_within_bounds(paragraphs: list[list[str]], n_words: int) -> None:
    text = "\n".join(" ".join(words) for words in paragraphs)
    passages = split_passages(text, n_words)
    assert "".join("".join(passages).split()) == "".join(text.split())
    assert all(0 < len(p.split()) <= max(n_words * (LONGEST + SHORTEST), 1) for p in passages)


def test_long_prose_comes_in_passages_of_about_the_wanted_length() -> None:
    text = " ".join(f"Sentence {n} has exactly seven words here." for n in range(200))
    lengths = [len(passage.split()) for passage in split_passages(text, 100)]
    assert all(90 <= length <= 120 for length in lengths[:-1])
    assert all(passage.endswith(".") for passage in split_passages(text, 100))
