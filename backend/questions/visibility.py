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
from collections.abc import Hashable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache

from backend.questions.xml import Element, Tree, attribute, is_true, stored_name, tag_name, visible_name

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
        """Whether it holds; ``None`` if that is open.

        ``chosen`` has the labels chosen in each of its controls, ``None`` for one that is undecided.
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
    if tag_name(tag) not in _CONDITIONAL:
        return None
    names = ("visibleWhen", "whenTagName", "whenChoiceValue", "whenLabelValue", "whenRole")
    when, *others = (attribute(tag, name) for name in names)
    if when is None:
        # The same without a comma: one stored value of any control
        return None if others[1] is None else _Restriction("", None, others[1], None, None)
    return _Restriction(when, *others) if when in _KINDS else None


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)


_NOT_DISPLAYED = re.compile(
    r"(?<![\w-])(?:display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|transform\s*:\s*scale\(\s*0\s*\)"
    r"|(?:opacity|font-size)\s*:\s*0(?:\.0*)?(?:%|px|em|rem|pt)?\s*(?:;|!|$)"
    r"|(?:left|right|top|bottom|text-indent)\s*:\s*-\d{4,}px)",
    re.IGNORECASE,
)
_NO_SIZE = re.compile(
    r"(?<![\w-])(?:max-)?(?:height|width)\s*:\s*0(?:px|em|rem|%)?\s*(?:;|!|$)", re.IGNORECASE
)
_CLIPPED = re.compile(r"(?<![\w-])overflow(?:-[xy])?\s*:\s*(?:hidden|clip)", re.IGNORECASE)


def _hides(style: str) -> bool:
    """Whether CSS declarations leave nothing to see."""
    cut_away = _NO_SIZE.search(style) is not None and _CLIPPED.search(style) is not None
    return cut_away or _NOT_DISPLAYED.search(style) is not None


@lru_cache(maxsize=4)
def sight_of(tree: Tree) -> _Sight:
    """Return what annotators see of a label config."""
    return _Sight(tree)


class _Sight:
    """What annotators see of a label config, and when."""

    def __init__(self, tree: Tree) -> None:
        self._controls = {str(control.get("name")): control for control in tree.controls}
        self._rules: dict[Element, tuple[_Restriction, ...]] = {}
        self._styled_away: set[Element] = set()
        hidden = _hidden_selectors(tree)
        for tag in tree.places:  # a tag comes after the tags around it
            parent = tag.getparent()
            around, own = self._rules.get(parent, ()), _restriction(tag)
            self._rules[tag] = around if own is None or own in around else (own, *around)
            if parent in self._styled_away or _is_styled_away(tag, hidden):
                self._styled_away.add(tag)
        self._candidates: dict[_Restriction, list[str]] = {}
        self._conditions: dict[_Restriction, Condition] = {}
        self._closures: dict[tuple[_Restriction, ...], frozenset[_Restriction]] = {}
        self._choices: dict[Element, _NamedChoices] = {}
        self._seen = self._ever_seen()

    def _ever_seen(self) -> set[str]:
        """The controls that annotators see in some form; none that wait for one another."""
        seen: set[str] = set()
        left = {name: tag for name, tag in self._controls.items() if tag not in self._styled_away}
        found = True
        while found:
            found = False
            for name, tag in list(left.items()):
                if all(self._can_hold(rule, seen) for rule in self._rules[tag]):
                    seen.add(name)
                    del left[name]
                    found = True
        return seen

    def never(self, tag: Element) -> str | None:
        """Return why annotators can never see a tag, or ``None``."""
        if tag in self._styled_away:
            return "a style hides it"
        for rule in self._rules[tag]:
            if not self._can_hold(rule, self._seen):
                return f"its condition never holds ({_written(rule)})"
        return None

    def _can_hold(self, rule: _Restriction, seen: Set[str]) -> bool:
        """Whether a restriction can hold, if annotators see these controls in some form."""
        if rule.when == "no-region-selected":
            return True
        if rule.when == "choice-unselected":
            # The editor ends with an error if it has values to look for and no such control.
            return rule.control is None or rule.choices is None or self._chooses(rule.control)
        return any(name in seen for name in self._met_by(rule))

    def _met_by(self, rule: _Restriction) -> list[str]:
        """The controls with a choice or a region that a restriction is about."""
        if rule not in self._candidates:
            self._candidates[rule] = (
                [
                    name
                    for name, control in self._controls.items()
                    if rule.control in {None, name} and _makes_regions(control)
                ]
                if rule.when == "region-selected"
                else [name for name in self._named(rule) if self._could_be_chosen(name, rule)]
            )
        return self._candidates[rule]

    def _always_holds(self, rule: _Restriction) -> bool:
        """Whether annotators see what has a restriction in every form, before they select a region."""
        if rule.when == "choice-unselected":
            return self._seen.isdisjoint(self._met_by(rule))
        return rule.when == "no-region-selected"

    def _named(self, rule: _Restriction) -> list[str]:
        """The controls whose choices a restriction is about."""
        if rule.control is not None:
            return [rule.control] if self._chooses(rule.control) else []
        return [name for name, control in self._controls.items() if tag_name(control) == "choices"]

    def _chooses(self, control: str) -> bool:
        return control in self._controls and tag_name(self._controls[control]) in _CHOOSING

    def _could_be_chosen(self, control: str, rule: _Restriction) -> bool:
        tag = self._controls[control]
        if attribute(tag, "value") or attribute(tag, "apiUrl"):
            return True
        answers, _ = self._answers(tag, rule)
        return answers is None or bool(answers)

    def _answers(
        self, control: Element, rule: _Restriction
    ) -> tuple[tuple[tuple[str, ...], ...] | None, tuple[str, ...]]:
        """The sets of labels of which a restriction wants one, and what people see of them."""
        if rule.choices is None or (rule.when and rule.control is None):
            return None, ()
        wanted = dict.fromkeys(rule.choices.split(",")) if rule.when else [rule.choices]
        if (named := self._choices.get(control)) is None:
            named = self._choices[control] = _NamedChoices(control)
        answers: list[tuple[str, ...]] = []
        texts: list[str] = []
        for value in wanted:
            node = named.by_name.get(value) if rule.when else named.leaf(value)
            if node is None:
                continue
            texts.append(node.visible)
            if tag_name(control) != "taxonomy":
                answers.append(node.leaves)
            else:
                answers += [(leaf.path,) for leaf in named.leaves.get(node.stored, ())]
        return tuple(dict.fromkeys(answers)), tuple(dict.fromkeys(texts))

    def conditions(self, tag: Element) -> tuple[Condition, ...]:
        """Return the conditions of a tag, and of the tags around it, that are about choices."""
        rules = [
            rule
            for rule in self._rules[tag]
            if rule.when != "region-selected" and not self._always_holds(rule)
        ]
        return tuple(dict.fromkeys(map(self._condition, rules)))

    def _condition(self, rule: _Restriction) -> Condition:
        if rule not in self._conditions:
            controls = self._named(rule)
            read = [self._answers(self._controls[name], rule) for name in controls]
            answers = None if any(part is None for part, _ in read) else sum((p or () for p, _ in read), ())
            texts = tuple(dict.fromkeys(text for _, part in read for text in part))
            selected = rule.when != "choice-unselected"
            self._conditions[rule] = Condition(tuple(controls), answers, texts, selected)
        return self._conditions[rule]

    def is_conditional(self, tag: Element) -> bool:
        """Return whether there are forms in which annotators do not see a tag."""
        return bool(self._rules[tag])

    def region_obstacle(self, control: Element) -> str | None:
        """Return why a control depends on regions in a way that is not predicted, or ``None``."""
        for rule in self._rules[control]:
            if rule.when == "region-selected" and not is_true(control, "perRegion"):
                return "annotators see it only while a region is selected"
            named = [] if rule.when.endswith("region-selected") else self._named(rule)
            if named and all(is_true(self._controls[name], "perRegion") for name in named):
                return f"it depends on the choice for a region: {', '.join(named)}"
        return None

    def restrictions(self, tag: Element) -> frozenset[Hashable]:
        """Return what must hold for a tag to be seen.

        Annotators see a tag whenever they see another one if its restrictions are among those of the other.
        The restrictions of a control that a tag waits for are among the tag's own.
        """
        rules = self._rules[tag]
        if rules not in self._closures:
            found: set[_Restriction] = set()
            left = list(rules)
            while left:
                rule = left.pop()
                if rule in found or self._always_holds(rule):
                    continue
                found.add(rule)
                if rule.when == "choice-selected" and rule.control in self._controls:
                    left += self._rules[self._controls[rule.control]]
            self._closures[rules] = frozenset(found)
        return self._closures[rules]


def _makes_regions(control: Element) -> bool:
    return tag_name(control).endswith("labels") or tag_name(control) in _MARKING


def _hidden_selectors(tree: Tree) -> frozenset[str]:
    """The selectors ``.class`` and ``#id`` that a Style of the config hides, and Label Studio's own."""
    found = {".hidden", ".invisible", ".opacity-0"}
    for style in tree.styles:
        words = " ".join(filter(None, (attribute(style, "value"), *style.itertext())))
        for selectors, rule in _css_rules(words):
            if _hides(rule):
                found |= {part.split()[-1] for part in selectors.split(",") if part.strip()}
    return frozenset(found)


def _css_rules(words: str) -> Iterator[tuple[str, str]]:
    """Yield the selectors and the declarations of each rule, except of those for some screens only."""
    parts = words.split("/*")
    plain = " ".join([parts[0], *(part.partition("*/")[2] for part in parts[1:])])
    depth, selectors = 0, ""
    for piece in re.split(r"([{}])", plain):
        if piece == "{":
            depth += 1
        elif piece == "}":
            depth, selectors = max(depth - 1, 0), ""
        elif depth == 0:
            selectors = piece
        elif depth == 1:
            yield selectors, piece


def _is_styled_away(tag: Element, hidden: Set[str]) -> bool:
    if _hides(attribute(tag, "style") or ""):
        return True
    classes = (attribute(tag, "className") or "").split()
    return any(f".{each}" in hidden for each in classes) or f"#{attribute(tag, 'idAttr')}" in hidden


def _written(rule: _Restriction) -> str:
    parts = {
        "visibleWhen": rule.when or None,
        "whenTagName": rule.control,
        "whenChoiceValue": rule.choices,
        "whenLabelValue": rule.labels,
        "whenRole": rule.roles,
    }
    return " ".join(f'{name}="{value}"' for name, value in parts.items() if value is not None)


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
    nested = tag_name(control) == "taxonomy" or is_true(control, "allowNested")
    separator = attribute(control, "pathSeparator") if tag_name(control) == "taxonomy" else None
    yield from _nodes_below(control, (), separator or _SEPARATOR, nested=nested)


class _NamedChoices:
    """The choices of a control, by their names: a restriction may name hundreds of thousands."""

    def __init__(self, control: Element) -> None:
        self.by_name: dict[str, _Node] = {}
        self.leaves: dict[str, list[_Node]] = {}
        for node in _nodes(control):
            self.by_name.setdefault(node.stored, node)
            self.by_name.setdefault(node.visible, node)
            if node.is_leaf:
                self.leaves.setdefault(node.stored, []).append(node)

    def leaf(self, stored: str) -> _Node | None:
        """The first choice with a stored name and none below it; ``None`` if there is none."""
        return next(iter(self.leaves.get(stored, ())), None)


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
    seen: dict[str, bool | None] = {}
    left = list(conditions)

    def labels_in(control: str) -> Set[str] | None:
        if seen.get(control, True) is False or not (control in chosen or control in undecided):
            return frozenset()
        return chosen.get(control) if seen.get(control) else None

    while left:
        waiting = set(left)
        for control in left:
            found = [
                condition.holds([labels_in(each) for each in condition.controls])
                for condition in conditions[control]
            ]
            others = {each for condition in conditions[control] for each in condition.controls}
            if None not in found or False in found or waiting.isdisjoint(others):
                seen[control] = False if False in found else None if None in found else True
                waiting.discard(control)
        if len(waiting) == len(left):  # they wait for one another: nothing is selected in them
            others = {each for condition in conditions[left[0]] for each in condition.controls}
            seen[left[0]] = None if others & undecided - waiting else False
            waiting.discard(left[0])
        left = [control for control in left if control in waiting]
    return seen
