"""A control tag of a label config, as a question to vote on; which are asked together, by which policy."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from backend.errors import EmptyTextError
from backend.questions.controls import AnyOf, Control, TaskContent
from backend.questions.objects import IMAGE, Field, in_page_order
from backend.questions.redaction import Redactor
from backend.questions.visibility import Condition, visible
from backend.settings.policies import PolicySettings, policy_of
from camvo.policies.policy import Policy
from camvo.votes.aggregation import Aggregation
from camvo.votes.sets import read_subset


@dataclass(frozen=True, slots=True)
class Words:
    """Words of the page.

    Attributes:
        place: where they stand: their element's place in the config.
        text: the words; ``$name`` stands for the text of a field.
    """

    place: int
    text: str


_OWN = frozenset({"textarea", "taxonomy"})
"""Tags whose words are about themselves alone."""


@dataclass(frozen=True)
class ConfigQuestion:
    """A control tag: what is asked, and which fields of the task it is about.

    Attributes:
        name: the control's name, Label Studio's ``from_name``.
        to_name: the first object that the control is attached to.
        tag: the control tag's name.
        control: what is particular to this tag.
        fields: the fields that the question is about; first those of the objects it is attached to.
        instructions: the control's attribute ``camvo_instructions``.
        category: the key of the task's data with the task's category, the control's attribute
            ``camvo_context``. Models do not see it; the policy learns how good each model is in it.
        conditions: on the choices of other controls; annotators see this one only if all hold.
        words: what annotators read on the page beside the data, in its order.
        place: where the control stands on the page.
    """

    name: str
    to_name: str
    tag: str
    control: Control
    fields: tuple[Field, ...]
    instructions: str | None = None
    category: str | None = None
    conditions: tuple[Condition, ...] = ()
    words: tuple[Words, ...] = ()
    place: int = 0

    def about(self, data: Mapping[str, object], redactor: Redactor | None = None) -> TaskQuestion:
        """Return the question about the task with this data.

        Args:
            data: the task's data.
            redactor: replaces parts of the texts that models see.

        Raises:
            MissingFieldError: the task's data lacks a key, or holds no text there.
            EmptyTextError: the first field is blank.
            RedactionError: the redactor failed.
            TaskError: the task leaves nothing to decide.
        """
        texts = self.texts(data)
        pictures = [field.key for field in self.fields if field.tag == IMAGE and field.key in texts]
        images = {key: texts.pop(key) for key in list(texts) if key in pictures}
        redacted = {} if redactor is None else redactor.redact(texts)
        content = TaskContent(
            texts | {key: text.text for key, text in redacted.items()},
            data,
            {key: address for key, address in images.items() if address.strip()},
            redacted,
        )
        key = self.category
        category = "" if key is None else Field(key, "Text", key).text(data).strip()
        return TaskQuestion(self, content, self.control.options(content), category)

    def texts(self, data: Mapping[str, object]) -> dict[str, str]:
        """Return field key → plain text (for an image its address), in the order of the page.

        The first field is what is labelled, so it must not be blank; the others may be. Optional fields that
        the task lacks are blank, since the page's words name them.

        Raises:
            MissingFieldError: the task's data lacks a key, or holds no text there.
            EmptyTextError: the first field is blank.
        """
        first = self.fields[0]
        texts = {
            field.key: "" if field is not first and field.is_absent(data) else field.text(data)
            for field in in_page_order(self.fields)
        }
        if not texts[first.key].strip():
            what = "image" if first.tag == IMAGE else "text"
            raise EmptyTextError(
                f"there is no {what} to label", where=first.where, fix="skip or delete the task"
            )
        return texts

    @cached_property
    def digest(self) -> str:
        """SHA-256 (hex) of everything that prompts say about the question; part of its epoch."""
        identity = [
            self.name,
            self.tag.lower(),
            asdict(self.control),  # type: ignore[call-overload]  # a Control is a dataclass
            [[each.key, each.tag, each.name_key, each.text_key] for each in in_page_order(self.fields)],
            self.instructions,
            *([] if self.category is None else [{"context": self.category}]),
            *([{"page": _page(self)}] if self.words else []),
            *([{"conditions": [asdict(each) for each in self.conditions]}] if self.conditions else []),
        ]
        return hashlib.sha256(json.dumps(identity).encode()).hexdigest()

    def __hash__(self) -> int:
        return hash(self.digest)  # it is computed once, and all fields would be hashed each time

    def vote_from_annotation(self, result: Sequence[object]) -> str | None:
        """Return the vote that an annotation's ``result`` gives on this question.

        ``None`` if the annotator left the control alone and that is not an answer, or if the result does not
        fit the config as it is now.
        """
        items = [item for item in result if isinstance(item, Mapping) and item.get("from_name") == self.name]
        if any(item.get("type") != self.tag.lower() for item in items):
            return None
        return self.control.vote_from_annotation(items)

    def chosen(self, vote: str) -> frozenset[str]:
        """Return the labels in a vote; conditions of other questions are about them."""
        return frozenset(read_subset(vote)) if isinstance(self.control, AnyOf) else frozenset({vote})


def visible_answers(questions: Iterable[ConfigQuestion], labels: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the answers that annotators see in a form that is filled with all of them.

    The others are hidden, because their conditions do not hold: they are neither stored nor counted.

    Args:
        questions: the questions of the label config.
        labels: question → its vote. A question that the config does not have is counted as visible.
    """
    seen = _seen(questions, labels, frozenset())
    return frozenset(name for name in labels if seen.get(name, True))


def hidden_questions(questions: Iterable[ConfigQuestion], labels: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the questions that annotators do not see, whatever else is decided.

    Args:
        questions: the questions about a task. Those without a label are still to be decided.
        labels: question → its decided vote.
    """
    asked = list(questions)
    seen = _seen(asked, labels, frozenset(question.name for question in asked) - labels.keys())
    return frozenset(name for name, is_seen in seen.items() if is_seen is False)


def questions_to_ask(questions: Iterable[ConfigQuestion], labels: Mapping[str, str]) -> frozenset[str]:
    """Return the names of the undecided questions that annotators certainly see.

    Args:
        questions: the questions about a task. Those without a label are still to be decided.
        labels: question → its decided vote.
    """
    asked = list(questions)
    undecided = frozenset(question.name for question in asked) - labels.keys()
    return frozenset(name for name, is_seen in _seen(asked, labels, undecided).items() if is_seen) & undecided


def _seen(
    questions: Iterable[ConfigQuestion], labels: Mapping[str, str], undecided: Set[str]
) -> dict[str, bool | None]:
    asked = {question.name: question for question in questions}
    if not any(question.conditions for question in asked.values()):
        return dict.fromkeys(asked, True)
    chosen = {name: asked[name].chosen(label) for name, label in labels.items() if name in asked}
    return visible({name: each.conditions for name, each in asked.items()}, chosen, undecided)


def _page(question: ConfigQuestion) -> list[list[str]]:
    """The words around the question and its fields, in the order of the page."""
    parts = [
        *((words.place, ["words", words.text]) for words in question.words),
        *((each.place, ["field", each.key]) for each in question.fields),
        (question.place, ["question"]),
    ]
    return [part for _, part in sorted(parts)]


@dataclass(frozen=True, slots=True)
class TaskQuestion:
    """A question about one task.

    Attributes:
        config: the question of the label config.
        content: the task's texts and images.
        options: what votes can name, for example the labels' values.
        category: the task's category; blank if it has none.
    """

    config: ConfigQuestion
    content: TaskContent
    options: tuple[str, ...]
    category: str = ""

    @property
    def name(self) -> str:
        """The control's name."""
        return self.config.name

    @property
    def aggregation(self) -> Aggregation:
        """How the control counts votes."""
        return self.config.control.aggregation

    @property
    def texts(self) -> Mapping[str, str]:
        """Field key → plain text as models see it."""
        return self.content.texts

    @property
    def source(self) -> Mapping[str, str]:
        """Field key → plain text before redaction, or address of an image: the parts that an edit changes."""
        originals = {key: text.original for key, text in self.content.redacted.items()}
        return {**self.texts, **originals, **self.images}

    @property
    def images(self) -> Mapping[str, str]:
        """Field key → address of an image."""
        return self.content.images

    @property
    def context(self) -> str:
        """The text to embed: what models see, or the images' file names if all texts are blank.

        The embedder cannot see images, so only a caption or a file name can tell them apart.
        """
        words = "\n".join(self.texts.values())
        return words if words.strip() else "\n".join(map(_file_name, self.images.values()))

    def vote_from_answer(self, answer: object) -> str | None:
        """Return the vote in a model's answer, a JSON value; ``None`` if the answer is not valid."""
        return self.config.control.vote_from_answer(answer, self.content)

    def result_items(self, vote: str) -> list[dict[str, Any]]:
        """Return the result items of a prediction for ``vote``, as Label Studio stores them.

        Raises:
            InvalidParameterError: the vote does not answer the question.
        """
        config = self.config
        common = {"from_name": config.name, "to_name": config.to_name, "type": config.tag.lower()}
        # The value comes first: the Data Manager shows only the beginning of a prediction's JSON.
        return [item | (common | item) for item in config.control.result_items(vote, self.content)]


def _file_name(address: str) -> str:
    """Return the name of an image's file as words, without its suffix; empty for a ``data:`` URL.

    >>> _file_name("https://example.org/a/red_wool-scarf.jpg?size=2")
    'red wool scarf'
    >>> _file_name("data:image/png;base64,AA==")
    ''
    """
    if address.startswith("data:"):
        return ""
    parts = urlsplit(address)
    path = parse_qs(parts.query).get("d", [parts.path])[0]  # /data/local-files/?d=folder/name.jpg
    return PurePosixPath(unquote(path)).stem.replace("_", " ").replace("-", " ")


def asked_together(questions: Sequence[TaskQuestion]) -> list[list[TaskQuestion]]:
    """Divide the questions about a task into those that are asked at once, in the order of the stages.

    A question under a condition is asked after those that it depends on.
    """
    stages: list[list[TaskQuestion]] = []
    left = list(questions)
    while left:
        waiting = {question.name for question in left}
        stage = [
            question
            for question in left
            if not any(waiting & set(condition.controls) for condition in question.config.conditions)
        ]
        stages.append(stage or left)  # questions that wait for one another are never asked
        asked = {question.name for question in stages[-1]}
        left = [question for question in left if question.name not in asked]
    return stages


def policy_for(
    settings: PolicySettings, questions: Sequence[ConfigQuestion], asked: Collection[str]
) -> Policy:
    """Return the policy for questions of a label config; without a name, their votes decide it.

    It is the same for a question in every task: all questions that may be asked together with it decide,
    whichever of them one task has.

    Args:
        settings: the section ``policy``, with the project's overrides.
        questions: all questions of the label config.
        asked: the names of some of them.
    """
    if settings.name is not None:
        return policy_of(settings)
    known, names = tuple(questions), sorted(asked)
    together = {question for name in names for question in _together_with(known, name)}
    return policy_of(settings, [question.control.aggregation for question in together])


@lru_cache(maxsize=256)
def _together_with(questions: tuple[ConfigQuestion, ...], name: str) -> tuple[ConfigQuestion, ...]:
    """A question and those that may be asked together with it."""
    by_name = {question.name: question for question in questions}
    own = _waits(by_name, name)
    return tuple(
        other
        for other in questions
        if other.name == name
        or (
            bool(own) == bool(others := _waits(by_name, other.name))
            and name not in _controls(others)
            and other.name not in _controls(own)
            and not any(_excludes(by_name, one, another) for one in own for another in others)
        )
    )


def _waits(by_name: dict[str, ConfigQuestion], name: str) -> frozenset[Condition]:
    """The conditions of a question, and of those that it depends on."""
    found: set[Condition] = set()
    left = [name]
    while left:
        question = by_name.get(left.pop())
        conditions = () if question is None else question.conditions
        new = {each for each in conditions if not by_name.keys().isdisjoint(each.controls)} - found
        found |= new
        left += _controls(new)
    return frozenset(found)


def _controls(conditions: Collection[Condition]) -> Iterator[str]:
    return (control for condition in conditions for control in condition.controls)


def _excludes(by_name: dict[str, ConfigQuestion], one: Condition, other: Condition) -> bool:
    """Whether two conditions want different choices of a control where only one can be chosen."""
    if one.answers is None or other.answers is None or not (one.selected and other.selected):
        return False
    question = by_name.get(one.controls[0]) if len(one.controls) == 1 else None
    if question is None or one.controls != other.controls or isinstance(question.control, AnyOf):
        return False
    return set(one.answers).isdisjoint(other.answers)
