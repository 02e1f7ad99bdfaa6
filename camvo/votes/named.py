"""All aggregations by name: as plain JSON and back, and what several equally trusted people say by them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Final

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation, Ballot
from camvo.votes.labels import LABEL_VOTE, LabelVote
from camvo.votes.numbers import NumericVote
from camvo.votes.open_numbers import OpenNumericVote
from camvo.votes.rankings import RankingVote
from camvo.votes.sets import SubsetVote
from camvo.votes.span_vote import SpanVote
from camvo.votes.texts import OpenVote

NAMED: Final[Mapping[str, type[Any]]] = {
    "labels": LabelVote,
    "numeric": NumericVote,
    "ranking": RankingVote,
    "spans": SpanVote,
    "subset": SubsetVote,
    "open": OpenVote,
    "open_numeric": OpenNumericVote,
}
"""A frozen dataclass of JSON values each. A name is stored with rounds, so it never changes its meaning."""


def describe(aggregation: Aggregation) -> dict[str, Any]:
    """An aggregation as plain JSON.

    Raises:
        InvalidParameterError: it is none of :data:`NAMED`.
    """
    for name, kind in NAMED.items():
        if isinstance(aggregation, kind):
            return {"name": name, **asdict(aggregation)}
    raise InvalidParameterError(f"{type(aggregation).__name__} has no name to be stored under")


def restore(description: Mapping[str, Any] | None) -> Aggregation:
    """Undo :func:`describe`; nothing stands for labels, which are what there was before there were others.

    Raises:
        InvalidParameterError: a name that is not known.
    """
    if description is None:
        return LABEL_VOTE
    parameters = dict(description)
    kind = NAMED.get(parameters.pop("name"))
    if kind is None:
        raise InvalidParameterError(f"no aggregation is called {description['name']!r}")
    aggregation: Aggregation = kind(**parameters)
    return aggregation


def consensus(aggregation: Aggregation, answers: Sequence[str], options: Sequence[str]) -> str | None:
    """What several equally trusted people say: the majority, the median, Borda's order.

    Returns:
        ``None`` where there is no answer, or where they are tied: where the outcome depends on whom a tie is
        given to.

    Raises:
        InvalidParameterError: an answer does not :func:`fit <fits>` the question.
    """
    votes = {str(number): answer for number, answer in enumerate(answers)}
    outcomes = [
        aggregation.aggregate(_equal(votes, favourite), options)[0] for favourite in sorted(set(answers))
    ]
    if not outcomes or any(aggregation.reward(outcome, outcomes[0]) < 1.0 for outcome in outcomes):
        return None
    return outcomes[0]


def fits(aggregation: Aggregation, answer: str | None, options: Sequence[str]) -> bool:
    """Whether an answer is there, and is one that the question allows."""
    if answer is None:
        return False
    try:
        aggregation.aggregate(_equal({"": answer}, answer), options)
    except InvalidParameterError:
        return False
    return True


def _equal(votes: Mapping[str, str], favourite: str) -> Ballot:
    """A ballot in which every vote weighs the same, and ties go to the favourite."""
    weights = dict.fromkeys(votes, 1.0)
    ties = {voter: float(vote == favourite) for voter, vote in votes.items()}
    return Ballot(votes, weights, ties, dict.fromkeys(votes, 0.5))
