"""Choices with perRegion: classes for the spans that other controls mark in the same text.

The regions belong to the same prediction, so they are unknown while models are asked. Each model therefore
marks the spans once more, this time with their classes. These votes are counted like other votes on spans,
and each resulting class goes to the regions that it overlaps. Label Studio stores a class under the region's
``id``, with the region's position.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from backend.questions.controls.control import AnswerFormat, ResultItem, TaskContent
from backend.questions.spans.spans import Spans
from camvo.votes.aggregation import Aggregation
from camvo.votes.span_places import SAME_PLACE_OVERLAP
from camvo.votes.spans import span_overlap

_RULE = (
    "For every stretch of the field {field} that you mark for {controls}, say here which of these labels "
    'fits it, as a JSON array; an empty one if there is none. "quote" and "before" are what they are there:'
)


@dataclass(frozen=True, slots=True)
class RegionChoices:
    """A class for each marked span.

    Attributes:
        spans: the control behind the votes: spans labelled with their classes.
        controls: the names of the controls whose regions get a class.
        only: the labels whose regions get a class; empty for all labels.
        several: whether a region may have several classes.
    """

    spans: Spans
    controls: tuple[str, ...]
    only: tuple[str, ...] = ()
    several: bool = False

    @property
    def aggregation(self) -> Aggregation:
        """A vote on every marked place."""
        return self.spans.aggregation

    @property
    def answer_format(self) -> AnswerFormat:
        """A list of quotations, each with a class."""
        field, controls = (
            json.dumps(part, ensure_ascii=False) for part in (self.spans.field.key, ", ".join(self.controls))
        )
        return replace(self.spans.answer_format, rule=_RULE.format(field=field, controls=controls))

    def options(self, content: TaskContent) -> tuple[str, ...]:
        """Return the classes' values."""
        return self.spans.options(content)

    def vote_from_answer(self, answer: object, content: TaskContent) -> str | None:
        """Return the quoted spans with their classes."""
        return self.spans.vote_from_answer(answer, content)

    def result_items(self, vote: str, content: TaskContent) -> list[dict[str, Any]]:
        """Return one item per span. It has no region yet: see :meth:`attach_to_regions`."""
        return self.spans.result_items(vote, content)

    def vote_from_annotation(self, items: Sequence[ResultItem]) -> str | None:
        """Return the spans with their classes; ``None`` if no region has a class."""
        return self.spans.vote_from_annotation(items)

    def attach_to_regions(
        self, regions: Sequence[ResultItem], items: Sequence[dict[str, Any]]
    ) -> list[dict[str, Any]]:
        """Return the items of a prediction that give the regions their classes.

        Args:
            regions: the regions of the same prediction; each has an ``id``.
            items: this control's own :meth:`result_items`.
        """
        attached = []
        for region in regions:
            if self.only and not set(self.only) & set(region["value"].get(region["type"], ())):
                continue
            place = self.spans.place(region["value"])
            near = sorted(items, key=lambda item: -span_overlap(place, self.spans.place(item["value"])))
            near = [
                item
                for item in near
                if span_overlap(place, self.spans.place(item["value"])) > SAME_PLACE_OVERLAP
            ]
            if near:
                chosen = near if self.several else near[:1]
                classes = list(dict.fromkeys(label for item in chosen for label in item["value"]["choices"]))
                position = {key: part for key, part in region["value"].items() if key != region["type"]}
                attached.append({**near[0], "id": region["id"], "value": {**position, "choices": classes}})
        return attached
