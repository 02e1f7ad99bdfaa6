"""A label config as XML: parsed by Label Studio's own SDK, with what the SDK merges kept apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from backend.errors import BadLabelConfigError
from backend.questions.xml.element import Element


@dataclass(frozen=True, slots=True)
class Tree:
    """The control and the object elements of a config in document order.

    ``objects`` maps names to elements. ``uses`` counts how often each name is given away, which the SDK does
    not mind (it keeps the last). ``attached`` holds the names of the objects that a control is attached to.
    """

    controls: tuple[Element, ...]
    objects: Mapping[str, Element]
    uses: Mapping[str, int]
    attached: frozenset[str]


def read(xml: str) -> Tree:
    """Parse a label config. What a control or an object is, the SDK decides.

    Raises:
        BadLabelConfigError: it is not XML, or it declares entities.
    """
    if "<!DOCTYPE" in xml:
        raise BadLabelConfigError(
            "a label config may not have a DOCTYPE", where="label_config", fix="remove <!DOCTYPE …>"
        )
    from label_studio_sdk.label_interface.control_tags import ControlTag  # noqa: PLC0415 - takes a second
    from label_studio_sdk.label_interface.interface import LabelInterface  # noqa: PLC0415

    try:
        known_controls, known_objects, _, root = LabelInterface(xml).parse(xml)
    except Exception as error:  # the SDK raises bare exceptions and lets lxml's and pydantic's through
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
        if is_control or (name in known_controls and name in known_objects):  # Chat is both in one
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
    """The names of the objects that a control is attached to."""
    return str(control.get("toName") or "").split(",")
