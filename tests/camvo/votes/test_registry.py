from __future__ import annotations

import json

import pytest

from camvo.errors import InvalidParameterError
from camvo.votes import registry
from camvo.votes.labels import LABEL_VOTE, OrderedVote
from camvo.votes.numbers import NumericVote, OpenNumericVote
from camvo.votes.rankings import RankingVote
from camvo.votes.sets import SubsetVote
from camvo.votes.spans import SpanVote
from camvo.votes.texts import OpenVote

EACH = [
    LABEL_VOTE,
    NumericVote(1.0, 5.0, step=1.0),
    OrderedVote(("1", "2", "3"), "quadratic"),
    RankingVote("borda"),
    SpanVote(),
    SubsetVote(3),
    OpenVote("words"),
    OpenNumericVote(low=0.0),
]


def test_every_registered_aggregation_is_tested_here():
    assert {type(aggregation) for aggregation in EACH} == set(registry._AGGREGATIONS.values())


@pytest.mark.parametrize("aggregation", EACH, ids=list(registry._AGGREGATIONS))
def test_an_aggregation_is_restored_from_its_json_description(aggregation):
    described = registry.describe_aggregation(aggregation)
    assert registry.restore_aggregation(json.loads(json.dumps(described, allow_nan=False))) == aggregation


def test_an_unknown_name_and_an_unnamed_aggregation_are_refused():
    with pytest.raises(InvalidParameterError):
        registry.restore_aggregation({"name": "seance"})
    with pytest.raises(InvalidParameterError):
        registry.describe_aggregation(object())  # type: ignore[arg-type]
