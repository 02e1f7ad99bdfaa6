"""Label configs whose questions stay while their labels change: which label became which."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Final, TypeAlias, TypeVar

from backend.questions.label_config import OWN_INSTRUCTIONS, LabelConfig
from backend.questions.question import ConfigQuestion
from backend.questions.spans import RegionChoices
from backend.questions.xml import NESTED, Element, Label, attribute, root_of, stored_name
from camvo.votes.relabelling import LabelMap, Relabelling

_Value = TypeVar("_Value")

LabelMaps: TypeAlias = Mapping[str, LabelMap]
"""Question → what becomes of its labels; labels that are absent stay."""


@dataclass(frozen=True, slots=True)
class LabelFates:
    """What becomes of labels; those that are absent stay.

    Attributes:
        maps: question → old label → new label, ``None`` for one that is dropped or split.
        parts: question → label that is split → the labels that it becomes.
        added: question → label that is added → the labels of whose tasks some may get it.
    """

    maps: LabelMaps = field(default_factory=dict)
    parts: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)
    added: Mapping[str, Mapping[str, Sequence[str]]] = field(default_factory=dict)

    def new(self, question: str) -> list[str]:
        """The labels of a question that no earlier one becomes whole."""
        parts = (part for of in self.parts.get(question, {}).values() for part in of)
        return [*parts, *self.added.get(question, {})]

    def near(self, question: str) -> set[str]:
        """The labels of a question before, some of whose tasks may get a new one."""
        beside = (label for of in self.added.get(question, {}).values() for label in of)
        return {*self.parts.get(question, {}), *beside}

    def of(self, questions: Collection[str]) -> LabelFates:
        """The same of some questions only."""
        return LabelFates(
            _only(self.maps, questions), _only(self.parts, questions), _only(self.added, questions)
        )

    def names(self, questions: Iterable[str], label: str) -> list[str]:
        """What a label is called after the change: nothing if it is dropped, its parts if it is split."""
        for question in questions:
            if parts := self.parts.get(question, {}).get(label):
                return list(parts)
            if label in self.maps.get(question, {}):
                new = self.maps[question][label]
                return [] if new is None else [new]
        return [label]


def _only(mapping: Mapping[str, _Value], names: Collection[str]) -> dict[str, _Value]:
    return {name: value for name, value in mapping.items() if name in names}


AS_THEY_ARE: Final = LabelFates()
"""Every label stays."""


@dataclass(frozen=True, slots=True)
class OpenLabels:
    """Labels of a question of which a change of the config leaves open what becomes of them.

    Attributes:
        gone: the labels that are gone, and nobody has said what becomes of them.
        added: the labels of which nobody has said where they come from.
    """

    gone: tuple[str, ...]
    added: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _SchemeChange:
    """What a change of the label config means for its questions. Those in no part begin anew.

    Attributes:
        carried: question → how its votes are written now; of questions that ask the same as before.
        open: question → its labels without a place, and its new ones.
    """

    carried: Mapping[str, Relabelling] = field(default_factory=dict)
    open: Mapping[str, OpenLabels] = field(default_factory=dict)


def read_change(
    before: Mapping[str, ConfigQuestion], after: LabelConfig, fates: LabelFates = AS_THEY_ARE
) -> _SchemeChange:
    """Compare questions with those of another label config.

    The order of labels, their hints and the visible texts of aliases may differ.

    Args:
        before: the questions by their names.
        after: the other label config.
        fates: what becomes of labels; without it each is expected to stay.
    """
    carried: dict[str, Relabelling] = {}
    open_: dict[str, OpenLabels] = {}
    for new in after.questions:
        old = before.get(new.name)
        if old is None or _without_labels(old, fates) != _without_labels(new, AS_THEY_ARE):
            continue
        said_of = fates.maps.get(new.name, {})
        labels = {label: said_of.get(label, label) for label in label_values(old)}
        options, said = label_values(new), fates.new(new.name)
        gone = tuple(label for label, to in labels.items() if to is not None and to not in options)
        gone += tuple(label for label in said if label not in options)
        fresh = tuple(label for label in options if label not in {*labels.values(), *said})
        if gone or fresh:
            open_[new.name] = OpenLabels(gone, fresh)
        else:
            split = frozenset(fates.parts.get(new.name, {}))
            carried[new.name] = Relabelling(new.control.aggregation, labels, options, split)
    return _SchemeChange(carried, open_)


def label_values(question: ConfigQuestion) -> tuple[str, ...]:
    """The labels that votes on a question name, in the order of the config; empty if it lists none."""
    return tuple(label.value for label in labels_of(question))


def labels_of(question: ConfigQuestion) -> tuple[Label, ...]:
    """The labels of a question, in the order of the config; empty if it lists none."""
    return getattr(question.control, "labels", ())


def _without_labels(question: ConfigQuestion, fates: LabelFates) -> str:
    """A hash of all that a question asks but its labels; labels of others have their new names."""
    control: Any = question.control
    if isinstance(control, RegionChoices):
        named = _named(fates, control.controls, control.only)
        control = replace(control, only=tuple(sorted(named)))
    if hasattr(control, "labels"):
        control = replace(control, labels=())
    conditions = tuple(
        replace(
            condition,
            texts=(),
            answers=condition.answers
            and tuple(
                sorted(
                    chosen
                    for each in condition.answers
                    for chosen in product(*(fates.names(condition.controls, one) for one in each if one))
                )
            ),
        )
        for condition in question.conditions
    )
    return replace(question, control=control, conditions=conditions).digest


def _named(fates: LabelFates, controls: Iterable[str], labels: Iterable[str]) -> list[str]:
    """The labels of some questions after the change, without those that are dropped."""
    controls = tuple(controls)
    return [new for label in labels for new in fates.names(controls, label)]


_REFERENCES = ("whenChoiceValue", "whenLabelValue")


def relabelled_config(xml: str, fates: LabelFates) -> str:
    """A label config with other labels: renamed, put together in the place of the first, left out, or new.

    Conditions that name a label name the new one. The caller checks that the questions stay.

    Args:
        xml: a label config that can be parsed.
        fates: what becomes of labels.
    """
    from lxml import etree  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

    root = root_of(xml)
    questions = {*fates.maps, *fates.parts, *fates.added}
    for name in sorted(questions):
        for control in root.iter("*"):
            if control.get("name") == name:
                _add_choices(control, fates.parts.get(name, {}), fates.added.get(name, {}))
                _relabel_choices(control, fates.maps.get(name, {}))
    for element in root.iter("*"):
        for key, value in element.attrib.items():
            if key.lower() in map(str.lower, _REFERENCES):
                kept = _named(fates, questions, str(value).split(","))
                element.set(key, ",".join(dict.fromkeys(kept)))
    return str(etree.tostring(root, encoding="unicode"))


def with_own_instructions(xml: str, name: str, instructions: str | None) -> str:
    """A label config in which a control has these instructions of its own; ``None`` for none."""
    from lxml import etree  # noqa: PLC0415 - slow

    root = root_of(xml)
    control = next((each for each in root.iter("*") if each.get("name") == name), None)
    if control is None or attribute(control, OWN_INSTRUCTIONS) == instructions:
        return xml
    for key in [key for key in control.attrib if str(key).lower() == OWN_INSTRUCTIONS]:
        del control.attrib[key]
    if instructions is not None:
        control.set(OWN_INSTRUCTIONS, instructions)
    return str(etree.tostring(root, encoding="unicode"))


def _add_choices(
    control: Element, parts: Mapping[str, Sequence[str]], added: Mapping[str, Sequence[str]]
) -> None:
    """Put the parts of a label in its place, and a label that is added behind a label that it is near to."""
    choices = {stored_name(choice): choice for choice in control.iter("Choice", "Label")}
    behind = [(old, new) for old, of in parts.items() for new in of]
    behind += [(next(iter(near), ""), new) for new, near in added.items()]
    last = next(reversed(choices.values()), None)
    for old, new in reversed(behind):
        beside = choices.get(old, last)
        if beside is not None and new not in choices:
            choice = beside.makeelement(beside.tag, {"value": new})
            choice.tail = beside.tail
            beside.addnext(choice)


def restored_config(xml: str, earlier: str, fates: LabelFates) -> str:
    """A label config with the labels that questions had in an earlier one; all else stays as it is.

    The caller checks that the questions are the earlier ones.

    Args:
        xml: the label config.
        earlier: the earlier one.
        fates: what had become of labels.
    """
    from lxml import etree  # noqa: PLC0415 - slow

    root, old = root_of(xml), root_of(earlier)
    changed = {*fates.maps, *fates.parts}
    for name, control in [(each.get("name"), each) for each in root.iter("*")]:
        before = next((each for each in old.iter("*") if name in changed and each.get("name") == name), None)
        if before is not None:
            control[:] = list(before)
    sources: dict[str, list[str]] = {}
    for each in fates.maps.values():
        for label, new in each.items():
            sources.setdefault(new or "", []).append(label)
    for of in fates.parts.values():
        sources |= {part: [label] for label, parts in of.items() for part in parts}
    for element in root.iter("*"):
        for key, value in element.attrib.items():
            if key.lower() in map(str.lower, _REFERENCES):
                listed = (old for label in str(value).split(",") for old in sources.get(label, [label]))
                element.set(key, ",".join(dict.fromkeys(listed)))
    return str(etree.tostring(root, encoding="unicode"))


def _relabel_choices(control: Element, labels: LabelMap) -> None:
    if any(next(choice.iterchildren("Choice"), None) is not None for choice in control.iter("Choice")):
        _rename_nodes(control, labels)
        return
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
        _rename(choice, new)


def _rename_nodes(control: Element, labels: LabelMap) -> None:
    """Rename nodes of a tree of choices. Other changes of a tree are left to the caller's label config."""
    separator = control.get("pathSeparator") or NESTED
    names: dict[Element, set[str]] = {}
    for choice in control.iter("Choice"):
        if next(choice.iterchildren("Choice"), None) is not None:
            continue
        nodes = [*reversed(list(choice.iterancestors("Choice"))), choice]
        path = [stored_name(node) for node in nodes]
        old = separator.join(path)
        new = (labels.get(old, old) or old).split(separator)
        for node, name in zip(nodes, new if len(new) == len(path) else path, strict=True):
            names.setdefault(node, set()).add(name)
    for node, called in names.items():
        if len(called) == 1:
            _rename(node, *called)


def _rename(choice: Element, name: str) -> None:
    stored = "alias" if attribute(choice, "alias") else "value"
    for key in [key for key in choice.attrib if key.lower() == stored]:
        choice.set(key, name)
