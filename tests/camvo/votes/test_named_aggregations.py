from __future__ import annotations

import json

import pytest

from camvo.errors import InvalidParameterError
from camvo.votes import consensus, registry
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.numbers import NumericVote
from camvo.votes.open_numbers import OpenNumericVote
from camvo.votes.rankings import RankingVote
from camvo.votes.sets import SubsetVote
from camvo.votes.span_vote import SpanVote
from camvo.votes.texts import OpenVote

EACH = [
    LABEL_VOTE,
    NumericVote(1.0, 5.0, step=1.0),
    RankingVote("borda"),
    SpanVote(),
    SubsetVote(3),
    OpenVote("words"),
    OpenNumericVote(low=0.0),
]
ABC = ("a", "b", "c")


def test_every_aggregation_that_has_a_name_is_here():
    assert {type(one) for one in EACH} == set(registry.AGGREGATIONS.values())


@pytest.mark.parametrize("aggregation", EACH, ids=list(registry.AGGREGATIONS))
def test_a_description_is_json_that_is_restored(aggregation):
    described = registry.describe_aggregation(aggregation)
    assert registry.restore_aggregation(json.loads(json.dumps(described, allow_nan=False))) == aggregation


def test_rounds_from_before_there_were_others_are_about_labels():
    assert registry.restore_aggregation(None) is LABEL_VOTE


def test_an_unknown_name_and_an_unnamed_aggregation_are_refused():
    with pytest.raises(InvalidParameterError):
        registry.restore_aggregation({"name": "seance"})
    with pytest.raises(InvalidParameterError):
        registry.describe_aggregation(object())  # type: ignore[arg-type]


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
def test_several_people_are_counted_as_votes_of_one_weight(aggregation, answers, options, together):
    assert consensus.agreed_answer(aggregation, answers, options) == together


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
def test_people_who_are_tied_say_nothing(aggregation, answers, options):
    assert consensus.agreed_answer(aggregation, answers, options) is None


def test_two_spellings_of_one_answer_are_no_tie():
    assert consensus.agreed_answer(OpenVote("words"), ["new york", "New York"], ()) in {
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
def test_an_answer_that_the_question_does_not_allow_does_not_fit(aggregation, answer, options):
    assert not consensus.is_answer(aggregation, answer, options)
