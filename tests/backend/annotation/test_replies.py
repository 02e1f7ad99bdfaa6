"""The error about a task on which no model voted."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from backend.annotation.replies import ModelReply, Replies, no_vote_error
from backend.errors import NoUsableAnswerError, cure_of

JOB: Any = SimpleNamespace(task=7)


def failing(**codes: str | None) -> Replies:
    return Replies({arm: ModelReply({}, 0.0, code) for arm, code in codes.items()})


def test_it_names_each_model_with_its_reason_and_what_to_do_about_it() -> None:
    error = no_vote_error(JOB, failing(a="model_timeout", b="model_key_rejected", c="model_timeout"))
    assert str(error) == (
        "task 7: none of the 3 models that were asked gave a valid answer"
        " (model_key_rejected: b; model_timeout: a, c)"
        f" (b: {cure_of('model_key_rejected')}; a, c: {cure_of('model_timeout')})"
    )


def test_its_code_is_that_of_most_of_the_models() -> None:
    codes = {"a": "model_timeout", "b": "model_key_rejected", "c": "model_key_rejected"}
    assert no_vote_error(JOB, failing(**codes)).code == "model_key_rejected"


def test_it_does_not_count_an_arm_that_only_had_nothing_to_say() -> None:
    assert "none of the 1 models" in str(no_vote_error(JOB, failing(a="model_refused", student=None)))


def test_it_is_final_where_every_model_is_out_of_attempts() -> None:
    codes = dict.fromkeys("ab", "model_answers_unusable")
    assert isinstance(no_vote_error(JOB, failing(**codes)), NoUsableAnswerError)
