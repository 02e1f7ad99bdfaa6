"""How sure a model was: the probability of the tokens that spell each question's value."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.questions import ConfigQuestion, TaskQuestion
from backend.questions.controls import OneOf
from backend.questions.objects import Field
from backend.questions.prompts.answers import parse_answer
from backend.questions.prompts.confidences import AnswerToken, answer_confidences
from backend.questions.xml import Label

TEXT = (Field("text", "Text", "text"),)


def asked(*names: str) -> list[TaskQuestion]:
    control = OneOf((Label("Glad", "Glad"), Label("Sad", "Sad")), "choices")
    return [
        ConfigQuestion(name, "text", "Choices", control, TEXT).about({"text": "It rains."}) for name in names
    ]


def tokens(*parts: tuple[str | bytes, float]) -> list[AnswerToken]:
    """Tokens from (text, probability)."""
    return [
        AnswerToken(text.encode() if isinstance(text, str) else text, math.log(chance) if chance else -1e9)
        for text, chance in parts
    ]


def confidences(content: str, parts: list[AnswerToken], *names: str) -> Mapping[str, float]:
    return answer_confidences(content, parts, asked(*names))


def test_it_is_the_probability_of_the_tokens_of_the_value() -> None:
    parts = tokens(('{"', 0.5), ("mood", 0.5), ('": "', 0.5), ("Gl", 0.9), ("ad", 0.8), ('"}', 0.5))
    assert confidences('{"mood": "Glad"}', parts, "mood") == {"mood": pytest.approx(0.72)}


def test_a_token_that_holds_a_part_of_the_value_counts() -> None:
    parts = tokens(('{"mood":', 0.5), (' "Gl', 0.9), ('ad"}', 0.8))
    assert confidences('{"mood": "Glad"}', parts, "mood") == {"mood": pytest.approx(0.72)}


def test_each_question_has_its_own() -> None:
    parts = tokens(('{"mood": "', 1.0), ("Glad", 0.9), ('", "tone": "', 1.0), ("Sad", 0.4), ('"}', 1.0))
    sure = confidences('{"mood": "Glad", "tone": "Sad"}', parts, "mood", "tone")
    assert sure == {"mood": pytest.approx(0.9), "tone": pytest.approx(0.4)}


def test_an_answer_with_several_objects_has_none_since_the_vote_may_come_from_any() -> None:
    content = 'Not {"mood": "Sad"}:\n```json\n{"mood": "Glad"}\n```'
    parts = tokens(('Not {"mood": "', 1.0), ("Sad", 0.9), ('"}:\n```json\n{"mood": "Glad"}\n```', 0.2))
    assert parse_answer(content, asked("mood")) == {"mood": "Glad"}
    assert confidences(content, parts, "mood") == {}


def test_a_word_before_the_object_changes_nothing() -> None:
    parts = tokens(("```json\n", 0.1), ('{"mood": "', 1.0), ("Glad", 0.9), ('"}', 1.0), ("\n```", 0.1))
    assert confidences('```json\n{"mood": "Glad"}\n```', parts, "mood") == {"mood": pytest.approx(0.9)}


@pytest.mark.parametrize(
    ("before", "after"),
    [("```json\n", "\n```"), ("", "\n\n"), ('<think>{"mood": "Glad"}? No.</think>\n', "")],
    ids=["fence", "blanks", "reasoning"],
)
def test_what_the_server_cut_off_the_answer_may_be_among_the_tokens(before: str, after: str) -> None:
    parts = tokens((before, 0.1), ('{"mood": "', 1.0), ("Glad", 0.9), ('"}', 1.0), (after, 0.1))
    assert confidences('{"mood": "Glad"}', parts, "mood") == pytest.approx({"mood": 0.9})


def test_tokens_of_words_after_the_answer_do_not_spell_it() -> None:
    assert confidences("Glad", tokens(("Glad", 0.9), (" or Sad", 0.1)), "mood") == {}


def test_a_bare_answer_to_a_single_question_counts_whole() -> None:
    parts = tokens(("\n", 0.1), ("Gl", 0.9), ("ad", 0.8), ("\n", 0.1))
    assert confidences("\nGlad\n", parts, "mood") == {"mood": pytest.approx(0.72)}


MOODS = {"properties": {"mood": {"enum": ["Glad", "Sad", "Gloomy"]}, "stars": {"enum": [1, 2, 10]}}}


def other(text: str, **chances: float) -> AnswerToken:
    """A token of which others were possible, given as text → probability, its own among them."""
    found = tuple((each.encode(), math.log(chance)) for each, chance in chances.items())
    return AnswerToken(text.encode(), math.log(chances[text]) if text in chances else -30.0, found)


def held(content: str, *parts: tuple[str, float] | AnswerToken, name: str = "mood") -> Mapping[str, float]:
    """The confidences in an answer that was held to a schema."""
    spelt = [part if isinstance(part, AnswerToken) else tokens(part)[0] for part in parts]
    return answer_confidences(content, spelt, asked(name), MOODS)


def test_under_a_schema_it_is_the_share_among_the_labels() -> None:
    token = other("Sad", The=0.9, Sad=0.003, Glad=0.001)
    assert held('{"mood": "Sad"}', ('{"mood": "', 0.1), token, ('"}', 0.1)) == {"mood": pytest.approx(0.6)}


def test_under_a_schema_each_token_that_tells_labels_apart_counts() -> None:
    first = other("Gl", Gl=0.006, Sad=0.002)
    second = other("oo", ad=0.03, oo=0.01, x=0.9)
    sure = held('{"mood": "Gloomy"}', ('{"mood": "', 1.0), first, second, ("my", 1e-9), ('"}', 1.0))
    assert sure == {"mood": pytest.approx(0.75 * 0.25)}


def test_a_label_that_is_not_among_the_other_tokens_counts_as_the_rarest_of_these() -> None:
    for rarest in (0.1, 0.01):
        token = other("Sad", Sad=0.9, x=0.5, y=rarest)
        sure = held('{"mood": "Sad"}', ('{"mood": "', 1.0), token, ('"}', 1.0))
        assert sure == {"mood": pytest.approx(0.9 / (0.9 + rarest))}


def test_other_ways_to_begin_a_label_count_for_it() -> None:
    token = other("Sad", S=0.1, Sa=0.2, Sad=0.3, Glad=0.2)
    assert held('{"mood": "Sad"}', ('{"mood": "', 1.0), token, ('"}', 1.0)) == {"mood": pytest.approx(2 / 3)}


def test_a_token_that_begins_before_the_value_tells_labels_apart() -> None:
    token = other(' "Sad', **{' "Sad': 0.3, ' "Gl': 0.1, " {": 0.5})
    assert held('{"mood": "Sad"}', ('{"mood":', 1.0), token, ('"}', 1.0)) == {"mood": pytest.approx(0.75)}


def test_a_number_that_begins_another_is_told_apart_by_where_it_ends() -> None:
    first = other("1", **{"1": 0.6, "2": 0.2})
    second = other("}", **{"}": 0.3, "0": 0.1})
    assert held('{"stars": 1}', ('{"stars": ', 1.0), first, second, name="stars") == {
        "stars": pytest.approx(0.75 * 0.75)
    }


@pytest.mark.parametrize(
    "token",
    [AnswerToken(b"Sad", -0.1), other("Sad", The=0.9, A=0.05)],
    ids=["no others", "rarer than all others"],
)
def test_under_a_schema_nothing_is_said_where_too_little_is_known(token: AnswerToken) -> None:
    assert held('{"mood": "Sad"}', ('{"mood": "', 1.0), token, ('"}', 1.0)) == {}


def test_under_a_schema_nothing_is_said_about_what_lists_no_labels() -> None:
    token = other("Sad", Sad=0.9)
    assert held('{"tone": "Sad"}', ('{"tone": "', 1.0), token, ('"}', 1.0), name="tone") == {}


def test_a_character_may_be_spelt_by_several_tokens() -> None:
    first, second = "é".encode()[:1], "é".encode()[1:]
    parts = tokens(("{\"mood\": \"d", 1.0), (first, 0.5), (second, 0.5), ('"}', 1.0))  # fmt: skip
    assert confidences('{"mood": "dé"}', parts, "mood") == {"mood": pytest.approx(0.25)}


def test_an_impossible_token_means_no_confidence_at_all() -> None:
    parts = [*tokens(('{"mood": "', 1.0)), AnswerToken(b"Glad", -math.inf), *tokens(('"}', 1.0))]
    assert confidences('{"mood": "Glad"}', parts, "mood") == {"mood": 0.0}


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ('{"mood": "Glad"}', []),
        ('{"mood": "Glad"}', tokens(('{"mood": "Gl', 1.0))),
        ('{"tone": "Glad"}', tokens(('{"tone": "Glad"}', 1.0))),
        ('{"mood": "Glad", "mood": "Sad"}', tokens(('{"mood": "Glad", "mood": "Sad"}', 1.0))),
        ('{"mood": ""}', tokens(('{"mood": ""}', 1.0))),
        ("  ", tokens(("  ", 1.0))),
    ],
    ids=["no tokens", "half of the tokens", "another question", "twice", "empty", "blank"],
)
def test_it_is_left_out_where_the_value_cannot_be_found(content: str, parts: list[AnswerToken]) -> None:
    assert confidences(content, parts, "mood") == {}


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=6,
    )
    | st.just("{"),
    st.integers(1, 7),
)
def test_any_answer_gives_a_probability_or_none(answer: object, length: int) -> None:
    content = json.dumps({"mood": answer}) if answer != "{" else '{"mood": {'
    parts = [(content[start : start + length], 0.9) for start in range(0, len(content), length)]
    for sure in confidences(content, tokens(*parts), "mood", "tone").values():
        assert 0.0 < sure <= 0.9 + 1e-9
