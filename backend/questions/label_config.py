"""A whole label config: the questions it asks, and the controls that cannot be voted on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from backend.errors import BadLabelConfigError
from backend.questions.objects import question_fields
from backend.questions.prompts.messages import PROMPT_VERSION
from backend.questions.question import ConfigQuestion
from backend.questions.redaction import Redactor
from backend.questions.tags.registry import CONTROL_TAGS, control_obstacle
from backend.questions.visibility import sight_of
from backend.questions.xml import Element, Tree, attribute, targets


def epoch_of(
    question: ConfigQuestion, instructions: str | None, embedder: str, redactor: Redactor | None = None
) -> str:
    """Return the epoch of a question, 16 hexadecimal digits. A new epoch starts with a fresh state.

    The epoch depends on the question itself (labels, hints, instructions and fields), the project's
    instructions, the wording of the prompt, the embedder and, if texts are redacted, the redactor. It does
    not depend on other controls of the same config, so changing one control keeps what was learnt about the
    others.
    """
    redaction = [] if redactor is None else [redactor.identity]
    return _digest([question.digest, instructions, PROMPT_VERSION, embedder, *redaction])[:16]


def question_hash(texts: Mapping[str, str]) -> str:
    """Hash one task's texts for one question, 32 hexadecimal digits. An edited task is a new round."""
    return _digest(sorted(texts.items()))[:32]


def _digest(parts: object) -> str:
    return hashlib.sha256(json.dumps(parts, ensure_ascii=True).encode()).hexdigest()


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
    tree = Tree.parse(xml)
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
        conditions=sight_of(tree).conditions(element),
    )
