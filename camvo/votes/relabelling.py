"""Votes under other labels: labels that are renamed, that become one, or that are dropped."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from camvo.errors import InvalidParameterError
from camvo.votes.aggregation import Aggregation
from camvo.votes.labels import LabelVote, OrderedVote
from camvo.votes.sets import SubsetVote, read_subset
from camvo.votes.spans import SpanVote, read_spans, write_spans

LabelMap: TypeAlias = Mapping[str, str | None]
"""Old label → new label, ``None`` for one that is dropped."""


class LabelChange(NamedTuple):
    """One change of a question's labels.

    Attributes:
        labels: what became of each of them.
        split: those that became several: nobody knows which one an answer means.
    """

    labels: LabelMap
    split: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Relabelling:
    """How votes on a question are written once its labels have changed.

    Attributes:
        aggregation: how the question counts votes now.
        labels: what becomes of each old label.
        options: the question's labels now, in their order.
        apart: old labels that are several now, because they are split or because labels that had become one
            are apart again: nobody knows which one a vote means.

    >>> from camvo.votes.sets import SubsetVote
    >>> merged = Relabelling(SubsetVote(2), {"hat": "wear", "coat": "wear", "odd": None}, ("wear", "tool"))
    >>> merged.vote('["hat","tool","odd"]'), merged.is_exact
    ('["wear","tool"]', False)
    """

    aggregation: Aggregation
    labels: LabelMap
    options: Sequence[str]
    apart: Set[str] = frozenset()

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
        """The vote under the labels of now; ``None`` if its label is dropped or not known.

        Raises:
            InvalidParameterError: the vote is not in the form of the question's votes.
        """
        match self.aggregation:
            case LabelVote() | OrderedVote():
                return self.labels.get(vote, vote)
            case SubsetVote():
                said = read_subset(vote)
                if not self.apart.isdisjoint(said):
                    return None
                chosen = {self.labels.get(label, label) for label in said}
                place = {label: number for number, label in enumerate(self.options)}
                kept = sorted(filter(None, chosen), key=lambda label: (place.get(label, len(place)), label))
                return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))
            case SpanVote():
                found = read_spans(vote)
                if not self.apart.isdisjoint(span.label for span in found):
                    return None
                spans = [(span, self.labels.get(span.label, span.label)) for span in found]
                return write_spans(span._replace(label=label) for span, label in spans if label is not None)
            case _:
                return vote


def steps_since(
    aggregation: Aggregation, changes: Sequence[LabelChange], options: Sequence[str]
) -> list[Relabelling]:
    """How a vote is written after each change of a question's labels.

    Args:
        aggregation: how the question counts votes now.
        changes: how its labels changed, the earliest change first.
        options: its labels now.
    """
    after: list[Collection[str]] = [*(change.labels for change in changes[1:]), options] if changes else []
    merged: dict[str, set[str]] = {}
    steps: list[Relabelling] = []
    for (labels, split), there in zip(changes, after, strict=True):
        gone = (label for label, to in labels.items() if to is None)
        again = (label for label in gone if not merged.get(label, set()).isdisjoint(there))
        apart = frozenset([*again, *split])
        steps.append(Relabelling(aggregation, labels, options, apart))
        sources: dict[str, set[str]] = {}
        for old, new in labels.items():
            if new is not None:
                sources.setdefault(new, set()).add(old)
        merged |= {new: olds for new, olds in sources.items() if len(olds) > 1}
    return steps
