"""What an annotator reads before answering: the fields of a question."""

from __future__ import annotations

import re
from collections.abc import Iterable

from backend.questions.objects.field import IMAGE, TAGS, Field
from backend.questions.xml.element import Element, attribute
from backend.questions.xml.tree import Tree, targets

_VARIABLE = re.compile(r"\$([^\s,${}]+)")
_TAGS = {tag.lower(): tag for tag in TAGS}
_LINES = {"Paragraphs": ("author", "text"), "Chat": ("role", "content")}
"""Where the lines of a dialogue have their speaker and their words, unless the tag says otherwise."""


def fields(control: Element, tree: Tree) -> tuple[Field, ...]:
    """The fields that a control's question is about, one entry a key.

    The objects that the control is attached to come first, then, in document order, those that no control is
    attached to: the options of a question, the title of an article. Images are not among those, since they
    would bar the models that cannot see. The attribute ``camvo_fields="a,b"`` names the keys instead; a key
    that no object shows is read as Text.
    """
    free = [
        name
        for name, shown in tree.objects.items()
        if name not in tree.attached and _tag(shown) != IMAGE.lower()
    ]
    chosen = [key.strip() for key in (attribute(control, "camvo_fields") or "").split(",") if key.strip()]
    if not chosen:
        return tuple(_by_key([*targets(control), *free], tree).values())
    known = _by_key([*targets(control), *tree.objects], tree)
    return tuple(known.get(key) or Field(key, "Text", key) for key in dict.fromkeys(chosen))


def unreadable(shown: Element) -> str | None:
    """Why what an object tag shows cannot be read from the task's data, or ``None``."""
    if _tag(shown) not in _TAGS:
        return f"{shown.tag} is not supported yet"
    if attribute(shown, "valueList"):
        return "several images in one tag are not supported yet"
    if _tag(shown) != IMAGE.lower() and "url" in (attribute(shown, "valueType") or "").lower():
        return "a text behind a URL is not supported yet"
    encoding = (attribute(shown, "encoding") or "none").lower()
    return None if encoding == "none" else f"text encoded as {encoding} is not supported yet"


def _by_key(names: Iterable[str], tree: Tree) -> dict[str, Field]:
    found: dict[str, Field] = {}
    for name in names:
        field = field_of(tree.objects[name])
        if field is not None:
            found.setdefault(field.key, field)
    return found


def field_of(shown: Element) -> Field | None:
    """The field that an object tag shows; ``None`` for one that is the same in every task."""
    variable = _VARIABLE.fullmatch((attribute(shown, "value") or "").strip())
    if variable is None or unreadable(shown):
        return None
    tag = _TAGS[_tag(shown)]
    name_key, text_key = _LINES.get(tag, _LINES["Paragraphs"])
    return Field(
        key=variable[1],
        tag=tag,
        name=str(shown.get("name")),
        name_key=attribute(shown, "nameKey") or name_key,
        text_key=attribute(shown, "textKey") or text_key,
    )


def _tag(shown: Element) -> str:
    return str(shown.tag).lower()
