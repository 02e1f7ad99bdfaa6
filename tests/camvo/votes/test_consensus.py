from __future__ import annotations

import pytest

from camvo.votes import registry
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.numbers import NumericVote, OpenNumericVote
from camvo.votes.rankings import RankingVote
from camvo.votes.sets import SubsetVote
from camvo.votes.spans import SpanVote
from camvo.votes.texts import OpenVote

ABC = ("a", "b", "c")


@pytest.mark.parametrize(
    ("aggregation", "answers", "options", "together"),
    [
        (LABEL_VOTE, ["b", "a", "b"], ABC, "b"),
        (NumericVote(0.0, 10.0), ["2", "9", "3"], (), "3"),
        (NumericVote(0.0, 10.0), ["2", "4"], (), "3"),
        (RankingVote("borda"), ['["a","b","c"]', '["b","a","c"]', '["a","c","b"]'], ABC, '["a","b","c"]'),
        (SubsetVote(3), ['["a"]', '["a","b"]', '["a","b","c"]'], ABC, '["a","b"]'),
        (SpanVote(), ['[[0,5,"a"]]', '[[1,5,"a"],[7,9,"b"]]', '[[2,5,"a"]]'], ABC, '[[1,5,"a"]]'),
        (OpenVote("words"), ["Ada", "ada.", "Grace"], (), "Ada"),
        (OpenNumericVote(), ["100", "300", "200"], (), "200"),
    ],
)
def test_the_votes_of_several_people_have_equal_weight(aggregation, answers, options, together):
    assert registry.agreed_answer(aggregation, answers, options) == together


@pytest.mark.parametrize(
    ("aggregation", "answers", "options"),
    [
        (LABEL_VOTE, ["a", "b"], ABC),
        (LABEL_VOTE, ["a", "b", "c"], ABC),
        (SubsetVote(3), ['["a"]', '["a","b"]'], ABC),
        (RankingVote("borda"), ['["a","b","c"]', '["c","b","a"]'], ABC),
        (OpenVote("exact"), ["2024", "2023"], ()),
        (OpenVote("words"), ["Ada", "Grace"], ()),
        (SpanVote(), ['[[0,5,"a"]]', "[]"], ABC),
        (LABEL_VOTE, [], ABC),
    ],
)
def test_tied_people_have_no_agreed_answer(aggregation, answers, options):
    assert registry.agreed_answer(aggregation, answers, options) is None


def test_two_spellings_of_one_answer_are_not_a_tie():
    assert registry.agreed_answer(OpenVote("words"), ["new york", "New York"], ()) in {
        "new york",
        "New York",
    }


@pytest.mark.parametrize(
    ("aggregation", "answer", "options"),
    [
        (LABEL_VOTE, "d", ABC),
        (LABEL_VOTE, None, ABC),
        (NumericVote(0.0, 10.0), "11", ()),
        (RankingVote("borda"), '["a","b"]', ABC),
        (SpanVote(), '[[0,5,"d"]]', ABC),
        (SubsetVote(3), '["d"]', ABC),
        (OpenVote("words"), "…", ()),
        (OpenNumericVote(high=0.0), "1", ()),
    ],
)
def test_an_answer_that_the_question_does_not_allow_is_not_an_answer(aggregation, answer, options):
    assert not registry.is_answer(aggregation, answer, options)
