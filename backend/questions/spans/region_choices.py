"""Choices with perRegion: a class for each span that other controls mark in the same text.

The regions are those of the same prediction, which nobody knows while models are asked. So a model marks the
spans once more, now with their classes; these votes are counted like any on spans, and what they agree on is
given to the regions that it lies on. Label Studio stores a class under the region's ``id``, with the region's
position beside it.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from backend.questions.controls.control import Item, Request, Shown
from backend.questions.label import Label
from backend.questions.objects.reading import field_of, fields
from backend.questions.spans import span_labels
from backend.questions.spans.rulers import RULERS
from backend.questions.spans.spans import Spans
from backend.questions.xml.element import Element, attribute, is_true
from backend.questions.xml.tree import Tree, targets
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
        spans: the votes: spans under their classes.
        controls: the names of the controls whose regions get a class.
        only: the labels whose regions do; none stands for all.
        several: whether a region may have several classes.
    """

    spans: Spans
    controls: tuple[str, ...]
    only: tuple[str, ...] = ()
    several: bool = False

    @property
    def aggregation(self) -> Aggregation:
        """A vote on every place that is marked."""
        return self.spans.aggregation

    @property
    def request(self) -> Request:
        """A list of quotations with a class each."""
        field, controls = (
            json.dumps(part, ensure_ascii=False) for part in (self.spans.field.key, ", ".join(self.controls))
        )
        return replace(self.spans.request, rule=_RULE.format(field=field, controls=controls))

    def options(self, shown: Shown) -> tuple[str, ...]:
        """The classes' values."""
        return self.spans.options(shown)

    def vote(self, given: object, shown: Shown) -> str | None:
        """The quotations that are found in the text."""
        return self.spans.vote(given, shown)

    def items(self, vote: str, shown: Shown) -> list[dict[str, Any]]:
        """An item for each span; of use only once it is :meth:`given_to` a region."""
        return self.spans.items(vote, shown)

    def answer(self, items: Sequence[Item]) -> str | None:
        """The spans with their classes; ``None`` if no region has one."""
        return self.spans.answer(items)

    def given_to(self, regions: Sequence[Item], items: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
        """The items of a prediction that give these regions, which have an ``id``, their classes."""
        found = []
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
                found.append({**near[0], "id": region["id"], "value": {**position, "choices": classes}})
        return found


def obstacle(element: Element, tree: Tree) -> str | None:
    """Why these regions cannot be given a class, or ``None``."""
    if is_true(element, "allowNested"):
        return "nested choices for regions are not supported yet"
    shown = tree.objects.get(targets(element)[0])
    marked = None if shown is None else field_of(shown)
    if marked is None:
        return None  # what is wrong with the object is found elsewhere
    if marked.tag not in RULERS:
        return f"perRegion on {marked.tag} is not supported: only regions of a text are predicted"
    if marked not in fields(element, tree):
        return f'camvo_fields leaves out "{marked.key}", the text of the regions'
    if not _carriers(element, tree):
        return "perRegion needs Labels on the same text that are predicted: their regions get the choices"
    return None


def read(element: Element, tree: Tree, labels: tuple[Label, ...], *, several: bool) -> RegionChoices:
    """The classes in the order of the config, for the regions of the controls on the same text."""
    carriers = _carriers(element, tree)
    marked = span_labels.read(carriers[0], tree)
    wanted = _listed(element, "whenLabelValue")
    return RegionChoices(
        spans=replace(marked, labels=labels, key="choices", conditional=True),
        controls=tuple(str(carrier.get("name")) for carrier in carriers),
        only=tuple(
            label.value
            for carrier in carriers
            for label in span_labels.read(carrier, tree).labels
            if {label.value, label.text} & wanted
        ),
        several=several,
    )


def _carriers(element: Element, tree: Tree) -> list[Element]:
    """The controls on the same text that mark spans, and of them those that the condition names."""
    named = _listed(element, "whenTagName")
    return [
        control
        for control in tree.controls
        if span_labels.marks(control)
        and targets(control) == targets(element)
        and (not named or control.get("name") in named)
        and span_labels.obstacle(control, tree) is None
    ]


def _listed(element: Element, name: str) -> set[str]:
    return {part.strip() for part in (attribute(element, name) or "").split(",") if part.strip()}
