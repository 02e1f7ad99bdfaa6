"""Votes under other labels: labels that are renamed, that become one, or that are dropped."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LabelVote
from camvo.votes.ordered import OrderedVote
from camvo.votes.sets import SubsetVote, read_subset
from camvo.votes.spans import SpanVote, read_spans, write_spans

LabelMap: TypeAlias = Mapping[str, str | None]
"""Old label → new label, ``None`` for one that is dropped."""


@dataclass(frozen=True, slots=True)
class Relabelling:
    """How votes on a question are written once its labels have changed.

    Attributes:
        aggregation: how the question counts votes now.
        labels: what becomes of each old label.
        options: the question's labels now, in their order.

    >>> from camvo.votes.sets import SubsetVote
    >>> merged = Relabelling(SubsetVote(2), {"hat": "wear", "coat": "wear", "odd": None}, ("wear", "tool"))
    >>> merged.vote('["hat","tool","odd"]'), merged.is_exact
    ('["wear","tool"]', False)
    """

    aggregation: Aggregation
    labels: LabelMap
    options: Sequence[str]

    @property
    def is_exact(self) -> bool:
        """Whether different labels stay different and none is dropped, so that votes agree as before."""
        return None not in self.labels.values() and len({*self.labels.values()}) == len(self.labels)

    def vote_if_valid(self, vote: str) -> str | None:
        """The same; ``None`` also for a vote in another form."""
        try:
            return self.vote(vote)
        except InvalidParameterError:
            return None

    def vote(self, vote: str) -> str | None:
        """The vote under the labels of now; ``None`` if it was for a label that is dropped.

        Raises:
            InvalidParameterError: the vote is not in the form of the question's votes.
        """
        match self.aggregation:
            case LabelVote() | OrderedVote():
                return self.labels.get(vote, vote)
            case SubsetVote():
                chosen = {self.labels.get(label, label) for label in read_subset(vote)}
                place = {label: number for number, label in enumerate(self.options)}
                kept = sorted(filter(None, chosen), key=lambda label: (place.get(label, len(place)), label))
                return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
            case SpanVote():
                spans = [(span, self.labels.get(span.label, span.label)) for span in read_spans(vote)]
                return write_spans(span._replace(label=label) for span, label in spans if label is not None)
            case _:
                return vote
