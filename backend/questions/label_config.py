"""A whole label config: the questions it asks, and the controls that cannot be voted on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from backend.errors import BadLabelConfigError
from backend.questions.controls.obstacles import obstacle
from backend.questions.controls.tags import SUPPORTED
from backend.questions.objects.reading import fields
from backend.questions.question import ConfigQuestion
from backend.questions.xml.element import Element, attribute
from backend.questions.xml.tree import Tree, read, targets


@dataclass(frozen=True, slots=True)
class Skipped:
    """A control that gets no predictions, and why. The others of its config do."""

    control: str
    tag: str
    reason: str


@dataclass(frozen=True, slots=True)
class LabelConfig:
    """The controls of a label config in document order: those that can be voted on, and the others."""

    questions: tuple[ConfigQuestion, ...]
    skipped: tuple[Skipped, ...]


@lru_cache(maxsize=128)
def parse(xml: str) -> LabelConfig:
    """Read a label config. The 128 latest texts are remembered.

    Raises:
        BadLabelConfigError: it cannot be read, or has no control tag.
    """
    tree = read(xml)
    if not tree.controls:
        raise BadLabelConfigError(
            "the label config has no control tag, so there is nothing to label",
            where="label_config",
            fix='add one: <Choices name="…" toName="…"> with two or more <Choice value="…"/>',
        )
    questions: list[ConfigQuestion] = []
    skipped: list[Skipped] = []
    for control in tree.controls:
        reason = obstacle(control, tree)
        if reason is None:
            questions.append(_question(control, tree))
        else:
            skipped.append(Skipped(str(control.get("name")), str(control.tag), reason))
    return LabelConfig(tuple(questions), tuple(skipped))


def _question(control: Element, tree: Tree) -> ConfigQuestion:
    return ConfigQuestion(
        name=str(control.get("name")),
        to_name=targets(control)[0],
        tag=str(control.tag),
        control=SUPPORTED[str(control.tag).lower()].read(control, tree),
        fields=fields(control, tree),
        instructions=attribute(control, "camvo_instructions"),
    )
