"""A whole label config: the questions it asks, and the controls that cannot be voted on."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, Literal

from backend.errors import BadLabelConfigError
from backend.questions.controls import TaskContent
from backend.questions.objects import locate_html, object_obstacle, question_fields, shown_keys, storable_text
from backend.questions.prompts.messages import PROMPT_VERSION
from backend.questions.question import ConfigQuestion, Words
from backend.questions.redaction import Redactor
from backend.questions.tags.registry import CONTROL_TAGS, control_obstacle
from backend.questions.visibility import sight_of
from backend.questions.xml import CAPTIONS, VARIABLE, Element, Tree, attribute, shown_value, tag_name, targets
from camvo.votes.labels import has_vote_model

_OBJECTS = frozenset({"text", "hypertext"})
_ATTRIBUTES = {"list": "title", "textarea": "placeholder", "taxonomy": "placeholder"}


@lru_cache(maxsize=4)
def _all_words(tree: Tree) -> tuple[tuple[Element, Words], ...]:
    """All words of a label config, hidden ones too, each with its element."""
    found: list[tuple[Element, Words]] = []
    for element, place in tree.places.items():
        name = tag_name(element)
        if name in CAPTIONS or name in _OBJECTS:
            words = shown_value(element)
        elif name in _ATTRIBUTES:
            words = attribute(element, _ATTRIBUTES[name]) or ""
        else:
            continue
        if name == "hypertext":
            words = locate_html(words).text
        if re.search(r"\w", VARIABLE.sub("", words)) and not VARIABLE.fullmatch(words.strip()):
            found.append((element, Words(place, storable_text(words).strip())))
    return tuple(found)


def _words_for(control: Element, tree: Tree) -> tuple[Words, ...]:
    """Return the words that annotators read whenever they see a control, in the order of the page.

    Words inside another control, such as a Header among its choices, are left out.
    """
    found = _words_by_control(tree)[1].get(control, ())
    shared = _words_within(tree, sight_of(tree).restrictions(control))
    return tuple(sorted((*shared, *found), key=lambda words: words.place)) if found else shared


@lru_cache(maxsize=4)
def _words_by_control(
    tree: Tree,
) -> tuple[tuple[tuple[Element, Words], ...], dict[Element, tuple[Words, ...]]]:
    """The visible words outside controls, each with its element, and those inside each control."""
    controls, sight = set(tree.controls), sight_of(tree)
    outside: list[tuple[Element, Words]] = []
    inside: dict[Element, tuple[Words, ...]] = {}
    for element, words in _all_words(tree):
        around = [each for each in (element, *element.iterancestors()) if each in controls]
        if sight.never(element) is not None:
            continue
        if not around:
            outside.append((element, words))
        elif sight.restrictions(element) <= sight.restrictions(around[0]):
            inside[around[0]] = (*inside.get(around[0], ()), words)
    return tuple(outside), inside


@lru_cache(maxsize=32)
def _words_within(tree: Tree, restrictions: frozenset[Hashable]) -> tuple[Words, ...]:
    """The words outside controls that are seen under the restrictions of a control."""
    words, sight = _words_by_control(tree)[0], sight_of(tree)
    return tuple(each for element, each in words if sight.restrictions(element) <= restrictions)


OWN_INSTRUCTIONS: Final = "camvo_instructions"
"""The attribute of a control with instructions for its question alone."""


def epoch_of(
    question: ConfigQuestion, instructions: str | None, embedder: str, redactor: Redactor | None
) -> str:
    """Return the epoch of a question, 16 hexadecimal digits. A new epoch starts with a fresh state.

    The epoch depends on the question itself (labels, hints, instructions and fields), the project's
    instructions, the wording of the prompt, the embedder and, if texts are redacted, the redactor. It does
    not depend on other controls of the same config, so changing one control keeps what was learnt about the
    others.
    """
    return _epoch(question.digest, instructions, embedder, *([] if redactor is None else [redactor.identity]))


@lru_cache(maxsize=256)
def _epoch(question: str, instructions: str | None, embedder: str, *redaction: str) -> str:
    return _digest([question, instructions, PROMPT_VERSION, embedder, *redaction])[:16]


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
class PagePart:
    """A part of the page that annotators see, and whether models are shown it.

    Attributes:
        kind: a field of the tasks' data, words of the page, or a question.
        text: the field's key, the words, or the control's name.
        sent: when models are shown it: ``always``, with some questions, or under a condition.
        unsent: why models are not shown it; ``None`` if they are.
    """

    kind: Literal["field", "words", "question"]
    text: str
    sent: str
    unsent: str | None = None


@dataclass(frozen=True, slots=True)
class LabelConfig:
    """The controls of a label config in document order: those that can be voted on, and the skipped ones.

    ``page`` has the questions and all that stands beside the controls, in the order of the page. ``xml`` is
    the config as it was read.
    """

    questions: tuple[ConfigQuestion, ...]
    skipped: tuple[SkippedControl, ...]
    page: tuple[PagePart, ...] = ()
    xml: str = ""


def labels_decided(question: ConfigQuestion) -> tuple[str, ...]:
    """The labels of a question whose answer is one label; none for others."""
    control = question.control
    return control.options(TaskContent({}, {})) if has_vote_model(control.aggregation) else ()


@lru_cache(maxsize=128)
def parse_label_config(xml: str) -> LabelConfig:
    """Parse a label config. The 128 most recently used configs are cached.

    Raises:
        BadLabelConfigError: the XML cannot be read, or it has no control tag.
    """
    tree = Tree.parse(xml)
    if not tree.controls:
        raise BadLabelConfigError(
            "the label config has no control tag with a name and a toName, so there is nothing to label",
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
    while (waiting := _waiting_in_vain(questions)) is not None:
        questions.remove(waiting[0])
        skipped.append(SkippedControl(waiting[0].name, waiting[0].tag, waiting[1]))
    return LabelConfig(tuple(questions), tuple(skipped), _page(questions, tree), xml)


def _waiting_in_vain(questions: Sequence[ConfigQuestion]) -> tuple[ConfigQuestion, str] | None:
    """A question that waits for a choice that is never predicted, and the reason; ``None`` without one."""
    predicted = {question.name for question in questions}
    for question in questions:
        for condition in question.conditions:
            if condition.selected and predicted.isdisjoint(condition.controls):
                controls = " or ".join(condition.controls)
                return question, f"it waits for a choice in {controls}, which gets no prediction"
    return None


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
            fix="correct what is said of a control, or add one that can be (docs/tags.md)",
        )


def _question(element: Element, tree: Tree) -> ConfigQuestion:
    return ConfigQuestion(
        name=str(element.get("name")),
        to_name=targets(element)[0],
        tag=str(element.tag),
        control=CONTROL_TAGS[tag_name(element)].read_control(element, tree),
        fields=question_fields(element, tree),
        instructions=attribute(element, OWN_INSTRUCTIONS),
        category=(attribute(element, "camvo_context") or "").strip() or None,
        conditions=sight_of(tree).conditions(element),
        words=_words_for(element, tree),
        place=tree.places[element],
    )


def _page(questions: Sequence[ConfigQuestion], tree: Tree) -> tuple[PagePart, ...]:
    """Return the parts of the page, in their order."""
    parts = [(each.place, PagePart("question", each.name, _asked(each))) for each in questions]
    readers: dict[str, list[ConfigQuestion]] = {}
    places: dict[str, int] = {}
    for question in questions:
        for each in question.fields:
            readers.setdefault(each.key, []).append(question)
            places[each.key] = min(each.place, places.get(each.key, each.place))
    parts += [
        (place, PagePart("field", key, _sent_with(readers[key], questions))) for key, place in places.items()
    ]
    unsent = {key: element for element, keys in shown_keys(tree) for key in keys if key not in readers}
    parts += [
        (tree.places[element], PagePart("field", key, "", _reason(element, tree)))
        for key, element in unsent.items()
    ]
    shown: dict[int, list[ConfigQuestion]] = {}
    for question in questions:
        for words in question.words:
            shown.setdefault(words.place, []).append(question)
    for element, words in _all_words(tree):
        by = shown.get(words.place, [])
        why = None if by else _reason(element, tree)
        parts.append(
            (words.place, PagePart("words", words.text, _sent_with(by, questions) if by else "", why))
        )
    return tuple(part for _, part in sorted(parts, key=lambda placed: placed[0]))


def _sent_with(readers: Sequence[ConfigQuestion], questions: Sequence[ConfigQuestion]) -> str:
    """With which questions a part is sent."""
    if len(readers) == len(questions):
        return "always"
    return "with " + ", ".join(question.name for question in readers)


def _asked(question: ConfigQuestion) -> str:
    return "if " + " and ".join(map(str, question.conditions)) if question.conditions else "always"


def _reason(element: Element, tree: Tree) -> str:
    """Why models are not shown a part of the page that no question reads."""
    if (hidden := sight_of(tree).never(element)) is not None:
        return f"annotators never see it: {hidden}"
    if element in tree.objects.values() and (obstacle := object_obstacle(element)) is not None:
        return obstacle
    if sight_of(tree).is_conditional(element):
        return "annotators see it only under a condition under which no question is asked"
    return "no question that is asked reads it"
