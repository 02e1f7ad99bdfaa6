"""Why a control cannot be voted on. The SDK accepts all of these without a word."""

from __future__ import annotations

from backend.questions.controls.tags import SUPPORTED
from backend.questions.objects.reading import fields, unreadable
from backend.questions.xml.element import Element, is_true
from backend.questions.xml.tree import Tree, targets


def obstacle(control: Element, tree: Tree) -> str | None:
    """The first reason that is found, or ``None`` for a control that can be voted on."""
    if str(control.tag).lower() == "chat":
        return "the messages that annotators add to a Chat are not voted on"
    module = SUPPORTED.get(str(control.tag).lower())
    if module is None:
        return f"{control.tag} is not supported yet"
    return _misplaced(control, tree) or module.obstacle(control, tree) or _unattached(control, tree)


def _misplaced(control: Element, tree: Tree) -> str | None:
    name = str(control.get("name"))
    if "{{" in name or any(str(parent.tag).lower() == "repeater" for parent in control.iterancestors()):
        return "a control inside a Repeater is not supported"
    if tree.uses[name] > 1:
        return f'the name "{name}" is used more than once in this config'
    if is_true(control, "perRegion") and str(control.tag).lower() != "choices":
        return f"perRegion is not supported for {control.tag}: regions are only given Choices"
    return "perItem is not supported yet" if is_true(control, "perItem") else None


def _unattached(control: Element, tree: Tree) -> str | None:
    for name in targets(control):
        if name not in tree.objects:
            return f'toName="{name}" names no object of this config'
        if tree.uses[name] > 1:
            return f'toName="{name}" names more than one tag of this config'
        reason = unreadable(tree.objects[name])
        if reason is not None:
            return f'it is attached to "{name}", and {reason}'
    return None if fields(control, tree) else 'no object shows it a text of the task: value="$key"'
