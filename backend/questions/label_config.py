"""A whole label config: the questions it asks, and the controls that cannot be voted on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from backend.errors import BadLabelConfigError
from backend.questions.objects.question_fields import question_fields
from backend.questions.question import ConfigQuestion
from backend.questions.tags.obstacles import control_obstacle
from backend.questions.tags.registry import CONTROL_TAGS
from backend.questions.xml.element import Element, attribute
from backend.questions.xml.tree import Tree, parse_tree, targets


@dataclass(frozen=True, slots=True)
class SkippedControl:
    """A control that gets no predictions, and the reason. Other controls of the config are not affected."""

    control: str
    tag: str
    reason: str


@dataclass(frozen=True, slots=True)
class LabelConfig:
    """The controls of a label config in document order: those that can be voted on, and the skipped ones."""

    questions: tuple[ConfigQuestion, ...]
    skipped: tuple[SkippedControl, ...]


@lru_cache(maxsize=128)
def parse_label_config(xml: str) -> LabelConfig:
    """Parse a label config. The 128 most recently used configs are cached.

    Raises:
        BadLabelConfigError: the XML cannot be read, or it has no control tag.
    """
    tree = parse_tree(xml)
    if not tree.controls:
        raise BadLabelConfigError(
            "the label config has no control tag, so there is nothing to label",
            where="label_config",
            fix='add one: <Choices name="…" toName="…"> with two or more <Choice value="…"/>',
        )
    questions: list[ConfigQuestion] = []
    skipped: list[SkippedControl] = []
    for element in tree.controls:
        reason = control_obstacle(element, tree)
        if reason is None:
            questions.append(_question(element, tree))
        else:
            skipped.append(SkippedControl(str(element.get("name")), str(element.tag), reason))
    return LabelConfig(tuple(questions), tuple(skipped))


def require_questions(config: LabelConfig) -> None:
    """Check that a label config asks something that can be voted on.

    Raises:
        BadLabelConfigError: it has no such control.
    """
    if not config.questions:
        skipped = "; ".join(f"{control.control}: {control.reason}" for control in config.skipped)
        raise BadLabelConfigError(
            f"none of its controls can be voted on ({skipped})",
            where="label_config",
            fix="add a control that can be (docs/tags.md)",
        )


def _question(element: Element, tree: Tree) -> ConfigQuestion:
    return ConfigQuestion(
        name=str(element.get("name")),
        to_name=targets(element)[0],
        tag=str(element.tag),
        control=CONTROL_TAGS[str(element.tag).lower()].read_control(element, tree),
        fields=question_fields(element, tree),
        instructions=attribute(element, "camvo_instructions"),
        category=(attribute(element, "camvo_context") or "").strip() or None,
    )
