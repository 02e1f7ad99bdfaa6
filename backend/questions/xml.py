"""Attributes of a label config's XML elements, read the way Label Studio's editor reads them."""

from __future__ import annotations

import html
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from backend.errors import BadLabelConfigError


@dataclass(frozen=True, slots=True)
class Label:
    """A label with its stored value and its visible text.

    Field names are part of a question's identity (:attr:`ConfigQuestion.digest`).

    Attributes:
        value: what votes, decisions and the ledger hold: the alias if there is one, else the visible text.
            Nested labels have the whole path here, joined.
        text: the visible text, which models see and answer with; for nested labels the whole path, joined.
        hint: explains the label to annotators and to models.
        path: for nested labels, the list that Label Studio stores in place of ``value``.
    """

    value: str
    text: str
    hint: str | None = None
    path: tuple[str, ...] | None = None

    @property
    def stored(self) -> str | list[str]:
        """The label's entry in Label Studio's list of chosen labels."""
        return self.value if self.path is None else list(self.path)


Element: TypeAlias = Any
"""An lxml element; lxml has no type hints."""


def tag_name(element: Element) -> str:
    """The element's tag in small letters, in which tags are compared."""
    return str(element.tag).lower()


def attribute(element: Element, name: str) -> str | None:
    """Return an attribute's value; ``None`` if it is absent or blank.

    The case of the name is ignored, because the editor reads all names in lower case.
    """
    for key, value in element.attrib.items():
        if str(key).lower() == name.lower() and str(value).strip():
            return str(value)
    return None


VARIABLE = re.compile(r"\$(\w(?:[\w.\[\]]*[\w\]])?)", re.ASCII)
"""A variable among words, as the editor finds it; a full stop after it belongs to the words."""


def shown_value(element: Element) -> str:
    """Return what a tag shows: the words inside it, else its value; blank if it has neither.

    The editor reads words inside a tag that has no tags inside; a HyperText may have any.
    """
    tags = [child for child in element if isinstance(child.tag, str)]
    inner = ""
    if not tags:
        inner = "".join(filter(None, [element.text, *(child.tail for child in element)]))
    elif tag_name(element) == "hypertext":
        from lxml import etree  # type: ignore[import-untyped]  # noqa: PLC0415 - slow

        inner = (element.text or "") + "".join(etree.tostring(child, encoding="unicode") for child in element)
    return inner.strip() or attribute(element, "value") or ""


def is_true(element: Element, name: str) -> bool:
    """Return whether a boolean attribute is switched on."""
    return (attribute(element, name) or "").strip().lower() == "true"


def _child_choices(element: Element) -> Iterator[Element]:
    """Yield the choices right below a tag; Views between them do not count as a level."""
    for child in element:
        if str(child.tag) == "Choice":
            yield child
        elif isinstance(child.tag, str):
            yield from _child_choices(child)


def child_labels(element: Element) -> tuple[Label, ...]:
    """Return the choices right below a tag, in document order."""
    return tuple(
        Label(stored_name(choice), visible_name(choice), _hint(choice)) for choice in _child_choices(element)
    )


NESTED: Final = " / "
"""Between the names of a path, unless the control says otherwise."""


def leaf_labels(element: Element, separator: str) -> tuple[Label, ...]:
    """Return the choices that have no choices below them, in document order, named by their whole paths."""
    return tuple(_leaf_labels(element, separator, (), ()))


def _leaf_labels(
    element: Element, separator: str, stored: tuple[str, ...], visible: tuple[str, ...]
) -> Iterator[Label]:
    for choice in _child_choices(element):
        path, words = (*stored, stored_name(choice)), (*visible, visible_name(choice))
        if next(_child_choices(choice), None) is None:
            yield Label(separator.join(path), separator.join(words), _hint(choice), path)
        else:
            yield from _leaf_labels(choice, separator, path, words)


def _hint(choice: Element) -> str | None:
    """Return what explains a choice: its hint, or the words of ``html``, which is shown in its place."""
    shown = html.unescape(re.sub(r"<[^<>]*>", " ", attribute(choice, "html") or ""))
    return attribute(choice, "hint") or " ".join(shown.split()) or None


def stored_name(choice: Element) -> str:
    """Return what Label Studio stores for a choice: its alias, else its value; blank if it has neither."""
    return attribute(choice, "alias") or attribute(choice, "value") or ""


def visible_name(choice: Element) -> str:
    """Return what annotators see of a choice: its value, else its alias; blank if it has neither."""
    return attribute(choice, "value") or attribute(choice, "alias") or ""


_MOST_CHARACTERS, _MOST_ELEMENTS, _MOST_NAMED, _MOST_ATTRIBUTES = 1_000_000, 5_000, 300, 100
"""The largest label config that is read: its characters, elements, elements with a name (controls and
objects), and attributes of an element or objects of a control. One with 100,000 choices takes ten seconds to
read, and no model chooses among so many."""


def _refuse_large(root: Element) -> None:
    """Refuse a config that takes seconds to read."""
    elements = list(root.iter("*"))
    _refuse_more(len(elements), _MOST_ELEMENTS, "elements")
    _refuse_more(sum("name" in each.attrib for each in elements), _MOST_NAMED, "controls and objects")
    _refuse_more(max(len(each.attrib) for each in elements), _MOST_ATTRIBUTES, "attributes in one tag")
    _refuse_more(max(len(targets(each)) for each in elements), _MOST_ATTRIBUTES, "names in one toName")


def _refuse_more(number: int, most: int, what: str) -> None:
    """Refuse a label config that is too large."""
    if number > most:
        raise BadLabelConfigError(
            f"the label config has {number:,} {what}, and at most {most:,} are read",
            where="label_config",
            fix="remove what this project does not need, or divide it among several projects",
        )


_DECLARATION = re.compile(r"^\ufeff?\s*<\?xml\s[^>]*\?>")
"""An XML declaration. Label Studio ignores its encoding, and lxml refuses one in a string."""

_COPY_AGAIN: Final = "copy it again from Label Studio: Settings, Labeling Interface, Code"

CAPTIONS = frozenset({"header", "markdown", "panel"})


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """The control and object elements of a config in document order.

    ``uses`` counts the elements of each name: the SDK accepts duplicates and keeps the last one. ``attached``
    names the objects that some control is attached to. ``captions`` are the tags with words of the page, such
    as a Header, that no control can be attached to; ``styles`` are the Style tags. ``places`` numbers all
    elements in the order of the page.
    """

    controls: tuple[Element, ...]
    objects: Mapping[str, Element]
    uses: Mapping[str, int]
    attached: frozenset[str]
    captions: tuple[Element, ...]
    styles: tuple[Element, ...]
    places: Mapping[Element, int]

    @classmethod
    def parse(cls, xml: str) -> Tree:
        """Parse a label config. The SDK decides which elements are controls and which are objects."""
        _refuse_more(len(xml), _MOST_CHARACTERS, "characters")
        xml = _DECLARATION.sub("", xml)
        if "<!DOCTYPE" in xml:
            raise BadLabelConfigError(
                "a label config must not have a DOCTYPE", where="label_config", fix="remove <!DOCTYPE …>"
            )
        from label_studio_sdk.label_interface.control_tags import ControlTag  # noqa: PLC0415 - slow
        from label_studio_sdk.label_interface.interface import LabelInterface  # noqa: PLC0415
        from lxml import etree  # noqa: PLC0415

        try:
            _refuse_large(etree.fromstring(xml))
            known_controls, known_objects, _, root = LabelInterface(xml).parse(xml)
        except BadLabelConfigError:
            raise
        except Exception as error:  # the SDK raises bare exceptions, and lxml's and pydantic's own
            raise BadLabelConfigError(
                f"the label config cannot be read: {error}",
                where="label_config",
                fix="write each & as &amp;" if "EntityRef" in str(error) else _COPY_AGAIN,
            ) from error
        controls: list[Element] = []
        objects: dict[str, Element] = {}
        places = {element: place for place, element in enumerate(root.iter("*"))}
        named = [element for element in places if element.get("name")]
        for element in named:
            name = element.get("name")
            is_control = ControlTag.validate_node(element)
            if is_control or (name in known_controls and name in known_objects):  # Chat is both
                controls.append(element)
            if not is_control and name in known_objects:
                objects[name] = element
        return cls(
            controls=tuple(controls),
            objects=objects,
            uses=Counter(element.get("name") for element in named),
            attached=frozenset(name for control in controls for name in targets(control)),
            captions=tuple(element for element in places if tag_name(element) in CAPTIONS),
            styles=tuple(element for element in places if tag_name(element) == "style"),
            places=places,
        )


def root_of(xml: str) -> Element:
    """The root of a label config that can be parsed, to change it; a declared encoding does not count."""
    from lxml import etree  # noqa: PLC0415 - slow

    return etree.fromstring(_DECLARATION.sub("", xml))


def targets(control: Element) -> list[str]:
    """Return the names of the objects that a control is attached to (``toName``)."""
    return str(control.get("toName") or "").split(",")
