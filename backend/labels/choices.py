"""Choices: one label of a list, chosen for the whole task.

Label Studio stores ``{"choices": ["<alias or visible text>"]}``; its validator rejects the visible text of a
choice that has an alias.
"""

from __future__ import annotations

from collections.abc import Mapping

from backend.labels.element import Element, attribute, is_true
from backend.labels.label import Label


def obstacle(control: Element) -> str | None:
    """Why this Choices cannot be voted on, or ``None``."""
    mode = attribute(control, "choice") or "single"
    if mode not in {"single", "single-radio"}:
        return f'choice="{mode}" is not supported yet'
    if attribute(control, "value") or attribute(control, "apiUrl"):
        return "choices that come from the task's data are not supported yet"
    choices = list(control.iter("Choice"))
    if is_true(control, "allowNested") or any(choice.find(".//Choice") is not None for choice in choices):
        return "nested choices are not supported yet"
    if any(not _text(choice) for choice in choices):
        return "a Choice has no value"
    return None


def labels(control: Element) -> tuple[Label, ...]:
    """The labels in the order of the config, which is the order that breaks ties."""
    return tuple(
        Label(attribute(choice, "alias") or _text(choice), _text(choice), attribute(choice, "hint"))
        for choice in control.iter("Choice")
    )


def value(label: Label) -> dict[str, object]:
    """What Label Studio stores for a label."""
    return {"choices": [label.value]}


def stored(value: Mapping[str, object]) -> str | None:
    """The one choice that a stored value holds; ``None`` for none and for several."""
    match value.get("choices"):
        case [str(choice)]:
            return choice
        case _:
            return None


def _text(choice: Element) -> str:
    return attribute(choice, "value") or attribute(choice, "alias") or ""
