from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Ballot
from camvo.votes.labels import label_posterior
from camvo.votes.texts import OpenVote, _word_overlap, normalise_text

EXACT, WORDS = OpenVote("exact"), OpenVote("words")
answers = st.text(st.sampled_from("ab .,Ä中"), max_size=8)


def aggregate(vote, cast, weights=None, ties=None, believed=0.75):
    votes = {f"arm {number}": answer for number, answer in enumerate(cast)}
    columns = [dict(zip(votes, column or [1.0] * len(votes), strict=True)) for column in (weights, ties)]
    return vote.aggregate(Ballot(votes, *columns, dict.fromkeys(votes, believed)), ())


def test_the_answer_with_most_weight_wins():
    assert aggregate(EXACT, ["2024", "2023", "2024"])[0] == "2024"
    assert aggregate(EXACT, ["2024", "2023", "2024"], [1.0, 3.0, 1.0])[0] == "2023"


def test_spellings_of_one_text_are_one_answer_in_the_spelling_with_most_weight():
    cast = ["new york.", "New York", "NEW  YORK", "Paris", "New York"]
    assert aggregate(WORDS, cast)[0] == "New York"


def test_dates_are_compared_exactly():
    assert aggregate(EXACT, ["A", "a", "b", "b"])[0] == "b"


def test_if_no_two_texts_agree_the_medoid_wins():
    cast = ["the red car", "a bicycle", "the car", "the fast car"]
    assert aggregate(WORDS, cast)[0] == "the car"


def test_the_medoid_is_weighted_and_ties_go_to_the_lower_bound():
    assert aggregate(WORDS, ["one", "two"], [1.0, 2.0])[0] == "two"
    assert aggregate(WORDS, ["one", "two"], ties=[0.6, 0.7])[0] == "two"


def test_if_two_texts_agree_the_medoid_is_not_used():
    cast = ["red car", "red", "car", "a bicycle", "a bicycle"]
    assert aggregate(WORDS, cast)[0] == "a bicycle"


@given(st.lists(st.sampled_from("abcdef"), min_size=1, max_size=6), st.floats(0.05, 0.95))
def test_the_score_is_the_posterior_among_m_answers(cast, believed):
    answer, chances = aggregate(EXACT, cast, believed=believed)
    votes = {f"arm {number}": given_ for number, given_ in enumerate(cast)}
    possible = sorted({*cast, *"ghijklmno"})[:10] if len(set(cast)) < 10 else None
    expected = label_posterior(votes, dict.fromkeys(votes, believed), possible)
    assert chances == {answer: pytest.approx(expected[answer])}


def test_a_text_can_expect_part_of_its_reward_from_answers_like_it():
    [alone] = aggregate(WORDS, ["red car", "bicycle"])[1].values()
    [alike] = aggregate(WORDS, ["red car", "blue car"])[1].values()
    assert alike > alone


def test_more_than_m_answers_leave_probability_for_an_answer_that_no_arm_gave():
    answer, chances = aggregate(OpenVote("exact", 2), list("abcde"))
    assert 0.0 < chances[answer] < 0.2


@pytest.mark.parametrize(
    ("vote", "answer", "reward"),
    [
        ("Paris", "paris.", 1.0),
        ("Paris, France", "Paris", pytest.approx(2 / 3)),
        ("2018", "2019", 0.0),
        ("-5", "5", 0.0),
        ("C++", "C", 0.0),
        ("東京都", "東京", pytest.approx(0.8)),
        ("½", "1⁄2", 1.0),
    ],
)
def test_the_reward_of_a_text_is_the_f1_of_its_words(vote, answer, reward):
    assert WORDS.reward(vote, answer) == reward


def test_the_reward_of_anything_else_is_all_or_nothing():
    assert (EXACT.reward("2024-05-01", "2024-05-01"), EXACT.reward("2024-05-01", "2024-05-02")) == (1.0, 0.0)


@given(answers, answers)
def test_overlap_is_symmetric_bounded_and_one_for_the_same(left, right):
    left, right = normalise_text(left), normalise_text(right)
    assert _word_overlap(left, right) == _word_overlap(right, left)
    assert 0.0 <= _word_overlap(left, right) <= 1.0
    assert _word_overlap(left, left) == 1.0


@given(answers)
def test_normalising_twice_changes_nothing(text):
    assert normalise_text(normalise_text(text)) == normalise_text(text)


@given(st.lists(answers.filter(normalise_text), min_size=1, max_size=5))
def test_the_answer_is_one_that_was_given(cast):
    answer, chances = aggregate(WORDS, cast)
    assert answer in cast
    assert 0.0 <= chances[answer] <= 1.0


@pytest.mark.parametrize("vote", [EXACT, WORDS])
@pytest.mark.parametrize("cast", [[], [" "], ["a", ""]])
def test_no_vote_and_a_blank_one_are_refused(vote, cast):
    with pytest.raises(InvalidParameterError):
        aggregate(vote, cast)


@pytest.mark.parametrize(("comparison", "size"), [("loose", 10), ("exact", 1)])
def test_parameters_are_checked(comparison, size):
    with pytest.raises(InvalidParameterError):
        OpenVote(comparison, size)


def test_a_guess_is_one_of_m():
    assert OpenVote("words", 20).guess(()) == 0.05
