"""The element tree of a label config.

Label Studio's own SDK parses it. The SDK merges elements that share a name; this module keeps them apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from backend.errors import BadLabelConfigError
from backend.questions.xml.element import Element


@dataclass(frozen=True, slots=True)
class Tree:
    """The control and object elements of a config in document order.

    Attributes:
        controls: the control elements.
        objects: name → object element.
        uses: name → number of elements with that name. The SDK accepts duplicates and keeps the last one.
        attached: the names of all objects that some control is attached to.
    """

    controls: tuple[Element, ...]
    objects: Mapping[str, Element]
    uses: Mapping[str, int]
    attached: frozenset[str]


def parse_tree(xml: str) -> Tree:
    """Parse a label config. The SDK decides which elements are controls and which are objects.

    Raises:
        BadLabelConfigError: the text is not XML, or it has a DOCTYPE (which could declare entities).
    """
    if "<!DOCTYPE" in xml:
        raise BadLabelConfigError(
            "a label config must not have a DOCTYPE", where="label_config", fix="remove <!DOCTYPE …>"
        )
    from label_studio_sdk.label_interface.control_tags import ControlTag  # noqa: PLC0415 - takes a second
    from label_studio_sdk.label_interface.interface import LabelInterface  # noqa: PLC0415

    try:
        known_controls, known_objects, _, root = LabelInterface(xml).parse(xml)
    except Exception as error:  # the SDK raises bare exceptions, and lxml's and pydantic's own
        raise BadLabelConfigError(
            f"the label config cannot be read: {error}",
            where="label_config",
            fix="copy it again from Label Studio: Settings, Labeling Interface, Code",
        ) from error
    controls: list[Element] = []
    objects: dict[str, Element] = {}
    named = [element for element in root.iter("*") if element.get("name")]
    for element in named:
        name = element.get("name")
        is_control = ControlTag.validate_node(element)
        if is_control or (name in known_controls and name in known_objects):  # Chat is both
            controls.append(element)
        if not is_control and name in known_objects:
            objects[name] = element
    return Tree(
        controls=tuple(controls),
        objects=objects,
        uses=Counter(element.get("name") for element in named),
        attached=frozenset(name for control in controls for name in targets(control)),
    )


def targets(control: Element) -> list[str]:
    """Return the names of the objects that a control is attached to (``toName``)."""
    return str(control.get("toName") or "").split(",")
