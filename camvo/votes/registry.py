"""Every aggregation by the name that it is stored under."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, Final

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LABEL_VOTE, LabelVote
from camvo.votes.numbers import NumericVote
from camvo.votes.open_numbers import OpenNumericVote
from camvo.votes.rankings import RankingVote
from camvo.votes.sets import SubsetVote
from camvo.votes.span_vote import SpanVote
from camvo.votes.texts import OpenVote

AGGREGATIONS: Final[Mapping[str, type[Any]]] = {
    "labels": LabelVote,
    "numeric": NumericVote,
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
        InvalidParameterError: the aggregation is not in :data:`AGGREGATIONS`.
    """
    for name, kind in AGGREGATIONS.items():
        if isinstance(aggregation, kind):
            return {"name": name, **asdict(aggregation)}
    raise InvalidParameterError(f"{type(aggregation).__name__} has no name to be stored under")


def restore_aggregation(description: Mapping[str, Any] | None) -> Aggregation:
    """Rebuild an aggregation from :func:`describe_aggregation`.

    ``None`` means labels: rounds stored before other aggregations existed have no description.

    Raises:
        InvalidParameterError: the name is unknown.
    """
    if description is None:
        return LABEL_VOTE
    parameters = dict(description)
    kind = AGGREGATIONS.get(parameters.pop("name"))
    if kind is None:
        raise InvalidParameterError(f"no aggregation is called {description['name']!r}")
    aggregation: Aggregation = kind(**parameters)
    return aggregation
