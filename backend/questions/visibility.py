"""When annotators see a tag of a label config, as Label Studio's editor decides it.

Read from the source of the editor of Label Studio 1.23 (``mixins/Visibility.js`` and the tags that use it):

- Only View, Markdown, Choices, Taxonomy and TextArea have conditions. Other tags ignore theirs, but are
  hidden with a View around them.
- ``whenChoiceValue`` is divided at commas, and spaces count. Each part is a choice's alias or value.
- A choice of a control that is hidden itself does not count as selected.
- ``choice-unselected`` is the opposite of ``choice-selected``, so it holds while the other control is hidden.
- Without ``whenTagName`` any selected choice counts, and ``whenChoiceValue`` is ignored.
- ``whenChoiceValue`` without ``visibleWhen`` is one stored value, which any control may have.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property, lru_cache

from backend.questions.xml import Element, Tree, attribute, is_true, stored_name, visible_name

_CONDITIONAL = frozenset({"view", "markdown", "choices", "taxonomy", "textarea"})
"""The tags that the editor hides by a condition of their own."""

_CHOOSING = frozenset({"choices", "taxonomy"})
_MARKING = frozenset(
    {"rectangle", "ellipse", "polygon", "keypoint", "brush", "bitmask", "vector", "videorectangle", "chat"}
)
_SEPARATOR = " / "
"""What joins the names of a nested choice in a vote."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on the choices of other controls, on which annotators see a tag.

    Attributes:
        controls: the controls of which one must meet it.
        answers: sets of labels, as votes name them; one of these must be chosen whole. ``None`` if any label
            will do.
        texts: the visible names of the labels.
        selected: whether one must be chosen, or none of them may be.
    """

    controls: tuple[str, ...]
    answers: tuple[tuple[str, ...], ...] | None
    texts: tuple[str, ...]
    selected: bool

    def __str__(self) -> str:
        """The condition in words, for people and models."""
        named = " or ".join(map(_quoted, self.controls)) or "nothing"
        if self.answers is None:
            return f"{named} has {'an' if self.selected else 'no'} answer"
        return f"{named} is {'' if self.selected else 'not '}{' or '.join(map(_quoted, self.texts))}"

    def holds(self, chosen: Sequence[Set[str] | None]) -> bool | None:
        """Return whether it holds; ``None`` if that is open.

        Args:
            chosen: the labels chosen in each of its controls; ``None`` for one that is undecided.
        """
        met = [None if labels is None else self._met(labels) for labels in chosen]
        if True in met:
            return self.selected
        return None if None in met else not self.selected

    def _met(self, labels: Set[str]) -> bool:
        if self.answers is None:
            return bool(labels)
        return any(labels >= set(answer) for answer in self.answers)


@dataclass(frozen=True, slots=True)
class _Restriction:
    """What a tag's attributes say about when it is seen, as they are written."""

    when: str
    control: str | None
    choices: str | None
    labels: str | None
    roles: str | None


_KINDS = frozenset({"choice-selected", "choice-unselected", "region-selected", "no-region-selected"})


def _restriction(tag: Element) -> _Restriction | None:
    """Return a tag's own restriction; ``None`` if the editor always shows the tag."""
    if _name(tag) not in _CONDITIONAL:
        return None
    names = ("visibleWhen", "whenTagName", "whenChoiceValue", "whenLabelValue", "whenRole")
    when, *others = (attribute(tag, name) for name in names)
    if when is None:
        # The same without a comma: one stored value of any control
        return None if others[1] is None else _Restriction("", None, others[1], None, None)
    return _Restriction(when, *others) if when in _KINDS else None


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


def _around(tag: Element) -> Iterator[Element]:
    yield tag
    yield from tag.iterancestors()


def _name(tag: Element) -> str:
    return str(tag.tag).lower()


_NOT_DISPLAYED = re.compile(
    r"(?<![\w-])(?:display\s*:\s*none|visibility\s*:\s*hidden|opacity\s*:\s*0(?:\.0*)?%?\s*(?:;|!|$))",
    re.IGNORECASE,
)
_RULE = re.compile(r"([^{}]+)\{([^{}]*)\}")
_COMMENT = re.compile(r"/\*.*?\*/", re.DOTALL)


@lru_cache(maxsize=4)
def sight_of(tree: Tree) -> _Sight:
    """Return what annotators see of a label config."""
    return _Sight(tree)


class _Sight:
    """What annotators see of a label config, and when.

    Args:
        tree: the label config.
    """

    def __init__(self, tree: Tree) -> None:
        self._tree = tree
        self._controls = {str(control.get("name")): control for control in tree.controls}
        self._nevers: dict[Element, str | None] = {}
        self._known: dict[Element, frozenset[_Restriction]] = {}

    @cached_property
    def _hidden_names(self) -> frozenset[str]:
        """The selectors ``.class`` and ``#id`` that a Style of the config hides."""
        found: set[str] = set()
        for style in self._tree.styles:
            words = " ".join(filter(None, (attribute(style, "value"), *style.itertext())))
            for selectors, rule in _RULE.findall(_COMMENT.sub(" ", words)):
                if _NOT_DISPLAYED.search(rule):
                    found |= {part.split()[-1] for part in selectors.split(",") if part.strip()}
        return frozenset(found)

    def _is_styled_away(self, tag: Element) -> bool:
        if _NOT_DISPLAYED.search(attribute(tag, "style") or ""):
            return True
        classes = (attribute(tag, "className") or "").split()
        return any(f".{each}" in self._hidden_names for each in classes) or (
            f"#{attribute(tag, 'idAttr')}" in self._hidden_names
        )

    def never(self, tag: Element) -> str | None:
        """Return why annotators can never see a tag, or ``None``."""
        if tag not in self._nevers:
            self._nevers[tag] = self._never(tag, frozenset())
        return self._nevers[tag]

    def _never(self, tag: Element, asking: frozenset[str]) -> str | None:
        if any(self._is_styled_away(each) for each in _around(tag)):
            return "a style hides it"
        for each in _around(tag):
            if (rule := _restriction(each)) is not None and not self._can_hold(rule, asking):
                return f"its condition never holds ({_written(rule)})"
        return None

    def _can_hold(self, rule: _Restriction, asking: frozenset[str]) -> bool:
        """Whether a restriction can hold; one that waits for itself cannot."""
        if rule.when == "region-selected":
            return any(
                rule.control in {None, name} and self._never(control, asking) is None
                for name, control in self._controls.items()
                if _name(control).endswith("labels") or _name(control) in _MARKING
            )
        if rule.when == "no-region-selected":
            return True
        if rule.when == "choice-unselected":
            # The editor ends with an error if it has values to look for and no such control.
            return rule.control is None or rule.choices is None or self._chooses(rule.control)
        return any(
            self._could_be_chosen(name, rule) and self._never(self._controls[name], asking | {name}) is None
            for name in self._named(rule)
            if name not in asking
        )

    def _always_holds(self, rule: _Restriction) -> bool:
        """Whether annotators see what has a restriction in every form, before they select a region."""
        if rule.when == "choice-unselected":
            named = self._named(rule)
            return not any(self._could_be_chosen(name, rule) for name in named) or all(
                self.never(self._controls[name]) is not None for name in named
            )
        return rule.when == "no-region-selected"

    def _named(self, rule: _Restriction) -> list[str]:
        """The controls whose choices a restriction is about."""
        if rule.control is not None:
            return [rule.control] if self._chooses(rule.control) else []
        return [name for name, control in self._controls.items() if _name(control) == "choices"]

    def _chooses(self, control: str) -> bool:
        return control in self._controls and _name(self._controls[control]) in _CHOOSING

    def _could_be_chosen(self, control: str, rule: _Restriction) -> bool:
        tag = self._controls[control]
        if _is_dynamic(tag):
            return True
        answers, _ = self._answers(tag, rule)
        return answers is None or bool(answers)

    def _answers(
        self, control: Element, rule: _Restriction
    ) -> tuple[tuple[tuple[str, ...], ...] | None, tuple[str, ...]]:
        """The sets of labels of which a restriction wants one, and what people see of them."""
        if rule.choices is None or (rule.when and rule.control is None):
            return None, ()
        wanted = rule.choices.split(",") if rule.when else [rule.choices]
        answers: list[tuple[str, ...]] = []
        texts: list[str] = []
        nodes = list(_nodes(control))
        for value in wanted:
            found = [node for node in nodes if value in {node.stored, node.visible}]
            if not rule.when:
                found = [node for node in found if value == node.stored and node.is_leaf]
            for node in found[:1]:
                texts.append(node.visible)
                if _name(control) != "taxonomy":
                    answers.append(node.leaves)
                else:
                    answers += [(leaf.path,) for leaf in nodes if leaf.is_leaf and leaf.stored == node.stored]
        return tuple(dict.fromkeys(answers)), tuple(dict.fromkeys(texts))

    def conditions(self, tag: Element) -> tuple[Condition, ...]:
        """Return the conditions of a tag, and of the tags around it, that are about choices."""
        found = []
        for each in _around(tag):
            rule = _restriction(each)
            if rule is None or rule.when == "region-selected" or self._always_holds(rule):
                continue
            controls = self._named(rule)
            read = [self._answers(self._controls[name], rule) for name in controls]
            answers = None if any(part is None for part, _ in read) else sum((p or () for p, _ in read), ())
            texts = tuple(dict.fromkeys(text for _, part in read for text in part))
            found.append(Condition(tuple(controls), answers, texts, rule.when != "choice-unselected"))
        return tuple(dict.fromkeys(found))

    def is_conditional(self, tag: Element) -> bool:
        """Return whether there are forms in which annotators do not see a tag."""
        return any(_restriction(each) is not None for each in _around(tag))

    def region_obstacle(self, control: Element) -> str | None:
        """Return why a control depends on regions in a way that is not predicted, or ``None``."""
        for each in _around(control):
            rule = _restriction(each)
            if rule is None:
                continue
            if rule.when == "region-selected" and not is_true(control, "perRegion"):
                return "annotators see it only while a region is selected"
            named = [] if rule.when.endswith("region-selected") else self._named(rule)
            if named and all(is_true(self._controls[name], "perRegion") for name in named):
                return f"it depends on the choice for a region: {', '.join(named)}"
        return None

    def is_seen_with(self, tag: Element, control: Element) -> bool:
        """Return whether annotators see a tag whenever they see a control.

        They do if each restriction of the tag is one of the control's, or of the controls that it waits for.
        """
        return self._all_restrictions(tag) <= self._all_restrictions(control)

    def _all_restrictions(self, tag: Element) -> frozenset[_Restriction]:
        if tag not in self._known:
            self._known[tag] = self._restrictions(tag, frozenset())
        return self._known[tag]

    def _restrictions(self, tag: Element, asking: frozenset[str]) -> frozenset[_Restriction]:
        rules = {rule for each in _around(tag) if (rule := _restriction(each)) is not None}
        own = frozenset(rule for rule in rules if not self._always_holds(rule))
        implied = [
            self._restrictions(self._controls[rule.control], asking | {rule.control})
            for rule in own
            if rule.when == "choice-selected" and rule.control in self._controls.keys() - asking
        ]
        return own.union(*implied)


def _written(rule: _Restriction) -> str:
    parts = {
        "visibleWhen": rule.when or None,
        "whenTagName": rule.control,
        "whenChoiceValue": rule.choices,
        "whenLabelValue": rule.labels,
        "whenRole": rule.roles,
    }
    return " ".join(f'{name}="{value}"' for name, value in parts.items() if value is not None)


def _is_dynamic(control: Element) -> bool:
    return any(attribute(control, name) for name in ("value", "apiUrl"))


@dataclass(frozen=True, slots=True)
class _Node:
    """A choice, with the votes for the leaves below it."""

    stored: str
    visible: str
    path: str
    leaves: tuple[str, ...]
    is_leaf: bool


def _nodes(control: Element) -> Iterator[_Node]:
    """Yield the choices of a control, inner ones too, in document order."""
    nested = _name(control) == "taxonomy" or is_true(control, "allowNested")
    separator = attribute(control, "pathSeparator") if _name(control) == "taxonomy" else None
    yield from _nodes_below(control, (), separator or _SEPARATOR, nested=nested)


def _nodes_below(tag: Element, path: tuple[str, ...], separator: str, *, nested: bool) -> Iterator[_Node]:
    for child in tag:
        if not isinstance(child.tag, str):
            continue
        if str(child.tag) != "Choice":
            yield from _nodes_below(child, path, separator, nested=nested)
            continue
        whole = (*path, stored_name(child))
        below = list(_nodes_below(child, whole, separator, nested=nested)) if nested else []
        name = separator.join(whole)
        leaves = tuple(node.path for node in below if node.is_leaf) or (name,)
        yield _Node(stored_name(child), visible_name(child), name, leaves, not below)
        yield from below


def visible(
    conditions: Mapping[str, Sequence[Condition]],
    chosen: Mapping[str, Set[str]],
    undecided: Set[str] = frozenset(),
) -> dict[str, bool | None]:
    """Return control → whether annotators see it in a form with some choices; ``None`` if that is open.

    Args:
        conditions: control → its conditions, for the controls of interest.
        chosen: control → the labels chosen there; those of hidden controls do not count.
        undecided: controls that are still to be decided. No label is ever chosen in any other control.
    """
    known: dict[str, bool | None] = {}

    def labels_in(control: str, asking: frozenset[str]) -> Set[str] | None:
        if control not in chosen and control not in undecided:
            return frozenset()
        seen = sees(control, asking)
        if seen is False:
            return frozenset()
        return chosen.get(control) if seen else None

    def sees(control: str, asking: frozenset[str]) -> bool | None:
        if control in asking:
            return False  # it waits for itself
        if control not in known:
            found = [
                condition.holds([labels_in(each, asking | {control}) for each in condition.controls])
                for condition in conditions.get(control, ())
            ]
            known[control] = False if False in found else None if None in found else True
        return known[control]

    return {control: sees(control, frozenset()) for control in conditions}
