"""Every aggregation by the name that it is stored under."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation, Ballot
from camvo.votes.labels import LabelVote, OrderedVote, has_vote_model
from camvo.votes.numbers import NumericVote, OpenNumericVote
from camvo.votes.rankings import RankingVote
from camvo.votes.sets import SubsetVote
from camvo.votes.spans import SpanVote
from camvo.votes.texts import OpenVote


def agreed_answer(aggregation: Aggregation, answers: Sequence[str], options: Sequence[str]) -> str | None:
    """The answer of equally trusted people, written as votes: the majority, the median or Borda's order.

    ``None`` if there is no answer, or if the answers are tied: if the outcome depends on which of them wins
    ties.

    Raises:
        InvalidParameterError: an answer is not valid for the question (see :func:`is_answer`).
    """
    votes = {str(number): answer for number, answer in enumerate(answers)}
    outcomes = [
        aggregation.aggregate(_equal_ballot(votes, favourite), options)[0]
        for favourite in sorted(set(answers))
    ]
    if not outcomes or any(aggregation.reward(outcome, outcomes[0]) < 1.0 for outcome in outcomes):
        return None
    return outcomes[0]


def is_answer(aggregation: Aggregation, answer: str | None, options: Sequence[str]) -> bool:
    """Whether ``answer`` is present and valid for the question."""
    if answer is None:
        return False
    try:
        aggregation.aggregate(_equal_ballot({"": answer}, answer), options)
    except InvalidParameterError:
        return False
    return True


def can_stop_early(aggregation: Aggregation) -> bool:
    """Whether the joint policy has a model of such votes: of labels, ordered or not, and of spans."""
    return has_vote_model(aggregation) or isinstance(aggregation, SpanVote)


def _equal_ballot(votes: Mapping[str, str], favourite: str) -> Ballot:
    """A ballot in which every vote has weight 1 and ties go to the answer ``favourite``."""
    weights = dict.fromkeys(votes, 1.0)
    tie_breakers = {voter: float(vote == favourite) for voter, vote in votes.items()}
    return Ballot(votes, weights, tie_breakers, dict.fromkeys(votes, 0.5))


_AGGREGATIONS: Final[Mapping[str, type[Any]]] = {
    "labels": LabelVote,
    "numeric": NumericVote,
    "ordered": OrderedVote,
    "ranking": RankingVote,
    "spans": SpanVote,
    "subset": SubsetVote,
    "open": OpenVote,
    "open_numeric": OpenNumericVote,
}
"""Name → frozen dataclass with JSON values as fields. Names are stored with rounds and keep their meaning."""


def describe_aggregation(aggregation: Aggregation) -> dict[str, Any]:
    """Describe an aggregation as plain JSON: its name and its parameters.

    Raises:
        InvalidParameterError: the aggregation is not in :data:`_AGGREGATIONS`.
    """
    for name, kind in _AGGREGATIONS.items():
        if isinstance(aggregation, kind):
            return {"name": name, **asdict(aggregation)}
    raise InvalidParameterError(f"{type(aggregation).__name__} has no name to be stored under")


def restore_aggregation(description: Mapping[str, Any]) -> Aggregation:
    """Rebuild an aggregation from :func:`describe_aggregation`.

    Raises:
        InvalidParameterError: the name is unknown.
    """
    parameters = dict(description)
    kind = _AGGREGATIONS.get(parameters.pop("name"))
    if kind is None:
        raise InvalidParameterError(f"no aggregation is called {description['name']!r}")
    aggregation: Aggregation = kind(**parameters)
    return aggregation
