"""Why an answer gives no vote: a refusal in words, an answer that was cut off, or one that cannot be read."""

from __future__ import annotations

import pytest

from backend.annotation.replies import unusable_code


@pytest.mark.parametrize(
    "content",
    [
        "I'm sorry, but I can't help with that.",
        "I’m sorry, I cannot assist with this request.",
        "Sorry, I am unable to label this text.",
        "I cannot classify this text, as it contains slurs.",
        "As an AI language model, I can't judge people.",
        "**I apologize**, but I won't do this.",
        "Unfortunately, I must decline.",
    ],
)
def test_a_refusal_in_words_is_a_refusal(content: str) -> None:
    assert unusable_code(content, cut_off=False) == "model_refused"
    assert unusable_code(content, cut_off=True) == "model_refused"


@pytest.mark.parametrize(
    "content",
    [
        "",
        "Ecstatic",
        "The customer says: sorry, I can't.",
        "Sorry state of a phone: it can't ring.",
        "I like it.",
    ],
)
def test_other_words_are_none(content: str) -> None:
    assert unusable_code(content, cut_off=False) == "model_bad_answer"
    assert unusable_code(content, cut_off=True) == "model_cut_off"
