"""Label configs whose questions stay while their labels change: which label became which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from backend.questions.label_config import LabelConfig
from backend.questions.question import ConfigQuestion
from backend.questions.spans import RegionChoices
from backend.questions.xml import Element, Label, attribute, stored_name
from camvo.votes.relabelling import LabelMap, Relabelling

LabelMaps: TypeAlias = Mapping[str, LabelMap]
"""Question → what becomes of its labels; labels that are absent stay."""


@dataclass(frozen=True, slots=True)
class OpenLabels:
    """Labels of a question that a change of the config leaves without a place.

    Attributes:
        gone: the labels that are gone, and nobody has said what becomes of them.
        added: the labels that no earlier one becomes.
    """

    gone: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SchemeChange:
    """What a change of the label config means for its questions. Those in no part begin anew.

    Attributes:
        carried: question → how its votes are written now; of questions that ask the same as before.
        open: question → its labels without a place.
        added: question → its new labels, of questions that ask the same but for these.
    """

    carried: Mapping[str, Relabelling] = field(default_factory=dict)
    open: Mapping[str, OpenLabels] = field(default_factory=dict)
    added: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def read_change(
    before: Mapping[str, ConfigQuestion], after: LabelConfig, maps: LabelMaps | None = None
) -> SchemeChange:
    """Compare questions with those of another label config.

    The order of labels, their hints and the visible texts of aliases may differ.

    Args:
        before: the questions by their names.
        after: the other label config.
        maps: what becomes of labels; without it each is expected to stay.
    """
    maps = maps or {}
    carried: dict[str, Relabelling] = {}
    open_: dict[str, OpenLabels] = {}
    added: dict[str, tuple[str, ...]] = {}
    for new in after.questions:
        old = before.get(new.name)
        if old is None or _without_labels(old, maps) != _without_labels(new, {}):
            continue
        labels = _full_map(old, maps.get(new.name, {}))
        options = label_values(new)
        gone = tuple(label for label, to in labels.items() if to is not None and to not in options)
        fresh = tuple(label for label in options if label not in labels.values())
        if gone:
            open_[new.name] = OpenLabels(gone, fresh)
        elif fresh:
            added[new.name] = fresh
        else:
            carried[new.name] = Relabelling(new.control.aggregation, labels, options)
    return SchemeChange(carried, open_, added)


def label_values(question: ConfigQuestion) -> tuple[str, ...]:
    """The labels that votes on a question name, in the order of the config; empty if it lists none."""
    return tuple(label.value for label in labels_of(question))


def _full_map(question: ConfigQuestion, labels: LabelMap) -> dict[str, str | None]:
    """Each label of a question → what becomes of it."""
    return {label: labels.get(label, label) for label in label_values(question)}


def labels_of(question: ConfigQuestion) -> tuple[Label, ...]:
    """The labels of a question, in the order of the config; empty if it lists none."""
    control: Any = question.control
    if isinstance(control, RegionChoices):
        return control.spans.labels
    return getattr(control, "labels", ())


def _without_labels(question: ConfigQuestion, maps: LabelMaps) -> str:
    """A hash of all that a question asks but its labels; labels of others are named as ``maps`` says."""
    control: Any = question.control
    if isinstance(control, RegionChoices):
        named = _mapped(maps, control.controls, control.only)
        control = replace(control, spans=replace(control.spans, labels=()), only=tuple(sorted(named)))
    elif hasattr(control, "labels"):
        control = replace(control, labels=())
    conditions = tuple(
        replace(
            condition,
            texts=(),
            answers=condition.answers
            and tuple(sorted({tuple(_mapped(maps, condition.controls, each)) for each in condition.answers})),
        )
        for condition in question.conditions
    )
    return replace(question, control=control, conditions=conditions).digest


def _mapped(maps: LabelMaps, controls: Iterable[str], labels: Iterable[str]) -> list[str]:
    """The labels of some questions after the change, without those that are dropped."""
    known: dict[str, str | None] = {}
    for control in controls:
        known |= maps.get(control, {})
    return [new for label in labels if (new := known.get(label, label)) is not None]


_REFERENCES = ("whenChoiceValue", "whenLabelValue")


def relabelled_config(xml: str, maps: LabelMaps) -> str:
    """A label config with other labels: renamed, put together in the place of the first, or left out.

    Conditions that name a label name the new one. The caller checks that the questions stay.

    Args:
        xml: a label config that can be parsed.
        maps: what becomes of labels.
    """
    from lxml import etree  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    root = etree.fromstring(xml.encode())
    for name, labels in maps.items():
        for control in root.iter("*"):
            if control.get("name") == name:
                _relabel_choices(control, labels)
    for element in root.iter("*"):
        for key, value in element.attrib.items():
            if key.lower() in map(str.lower, _REFERENCES):
                kept = _mapped(maps, maps, str(value).split(","))
                element.set(key, ",".join(dict.fromkeys(kept)))
    return str(etree.tostring(root, encoding="unicode"))


def restored_config(xml: str, earlier: str, maps: LabelMaps) -> str:
    """A label config with the labels that questions had in an earlier one; all else stays as it is.

    The caller checks that the questions are the earlier ones.

    Args:
        xml: the label config.
        earlier: the earlier one.
        maps: question → what had become of its labels.
    """
    from lxml import etree  # noqa: PLC0415 - slow

    root, old = etree.fromstring(xml.encode()), etree.fromstring(earlier.encode())
    for name, control in [(each.get("name"), each) for each in root.iter("*")]:
        before = next((each for each in old.iter("*") if name in maps and each.get("name") == name), None)
        if before is not None:
            control[:] = list(before)
    sources: dict[str, list[str]] = {}
    for each in maps.values():
        for label, new in each.items():
            sources.setdefault(new or "", []).append(label)
    for element in root.iter("*"):
        for key, value in element.attrib.items():
            if key.lower() in map(str.lower, _REFERENCES):
                listed = (old for label in str(value).split(",") for old in sources.get(label, [label]))
                element.set(key, ",".join(listed))
    return str(etree.tostring(root, encoding="unicode"))


def _relabel_choices(control: Element, labels: LabelMap) -> None:
    choices = list(control.iter("Choice", "Label"))
    seen = {label for label in map(stored_name, choices) if labels.get(label, label) == label}
    for choice in choices:
        old = stored_name(choice)
        new = labels.get(old, old)
        if new == old:
            continue
        if new is None or new in seen:
            choice.getparent().remove(choice)
            continue
        seen.add(new)
        stored = "alias" if attribute(choice, "alias") else "value"
        for key in [key for key in choice.attrib if key.lower() == stored]:
            choice.set(key, new)
