"""The fields of a question: what an annotator reads before answering."""

from __future__ import annotations

import re
from collections.abc import Iterable

from backend.questions.objects.field import IMAGE, TAGS, Field
from backend.questions.xml.element import Element, attribute
from backend.questions.xml.tree import Tree, targets

_VARIABLE = re.compile(r"\$([^\s,${}]+)")
_TAGS = {tag.lower(): tag for tag in TAGS}
_LINE_KEYS = {"Paragraphs": ("author", "text"), "Chat": ("role", "content")}
"""Object tag → the default keys of a dialogue line's speaker and words."""


def question_fields(control: Element, tree: Tree) -> tuple[Field, ...]:
    """Return the fields that a control's question is about, one per key.

    The objects that the control is attached to come first. Then follow, in document order, the objects that
    no control is attached to, such as the title of an article. Unattached images are left out, because they
    would exclude all models without vision.

    The attribute ``camvo_fields="a,b"`` lists the keys instead. A key that no object shows is read as Text.
    """
    unattached = [
        name
        for name, element in tree.objects.items()
        if name not in tree.attached and _tag(element) != IMAGE.lower()
    ]
    chosen = [key.strip() for key in (attribute(control, "camvo_fields") or "").split(",") if key.strip()]
    if not chosen:
        return tuple(_by_key([*targets(control), *unattached], tree).values())
    known = _by_key([*targets(control), *tree.objects], tree)
    return tuple(known.get(key) or Field(key, "Text", key) for key in dict.fromkeys(chosen))


def object_obstacle(element: Element) -> str | None:
    """Return why an object's content cannot be read from the task's data, or ``None``."""
    if _tag(element) not in _TAGS:
        return f"{element.tag} is not supported yet"
    if attribute(element, "valueList"):
        return "several images in one tag are not supported yet"
    if _tag(element) != IMAGE.lower() and "url" in (attribute(element, "valueType") or "").lower():
        return "a text behind a URL is not supported yet"
    encoding = (attribute(element, "encoding") or "none").lower()
    return None if encoding == "none" else f"text encoded as {encoding} is not supported yet"


def _by_key(names: Iterable[str], tree: Tree) -> dict[str, Field]:
    fields: dict[str, Field] = {}
    for name in names:
        field = field_of_object(tree.objects[name])
        if field is not None:
            fields.setdefault(field.key, field)
    return fields


def field_of_object(element: Element) -> Field | None:
    """Return the field that an object tag shows; ``None`` if its content is constant or cannot be read."""
    variable = _VARIABLE.fullmatch((attribute(element, "value") or "").strip())
    if variable is None or object_obstacle(element):
        return None
    tag = _TAGS[_tag(element)]
    name_key, text_key = _LINE_KEYS.get(tag, _LINE_KEYS["Paragraphs"])
    return Field(
        key=variable[1],
        tag=tag,
        name=str(element.get("name")),
        name_key=attribute(element, "nameKey") or name_key,
        text_key=attribute(element, "textKey") or text_key,
    )


def _tag(element: Element) -> str:
    return str(element.tag).lower()
