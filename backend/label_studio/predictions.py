"""Rounds as a prediction in the form that Label Studio stores."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain
from typing import Any, TypeAlias

from backend.errors import LabelStudioMissingError
from backend.label_studio.client import Client
from backend.label_studio.payloads import WebhookEvent, is_id
from backend.ledger.human_annotations import Annotation
from backend.ledger.rounds import Round
from backend.questions import ConfigQuestion, LabelConfig, TaskQuestion
from backend.questions.controls import AnyOf
from backend.questions.question import visible_answers
from backend.questions.relabelling import labels_of
from backend.questions.spans import RegionChoices, Spans
from camvo.votes.sets import read_subset
from camvo.votes.spans import read_spans

ANSWERED = "camvo_answered"
"""The entry of an annotation with the names of the questions that it answers; without it, all of them."""


def annotations_in(event: WebhookEvent, config: LabelConfig) -> Iterator[Annotation]:
    """Read the annotations of an event.

    Three kinds of annotation teach nothing:

    - skipped ones, although their result still holds the prediction that filled the form;
    - those that Label Studio made from predictions in bulk, which no human looked at, unless somebody has
      marked them as ground truth;
    - those that answer no question, as with a label that the config does not have.

    Entries without a valid id are left out. One from elsewhere may name the questions that it answers
    (:data:`ANSWERED`): the form has no way to leave open which of several labels fit.
    """
    for raw in event.annotations:
        if not is_id(raw.get("id")):
            continue
        result = _regions(raw)
        answered = raw.get(ANSWERED)
        answers = {
            question.name: question.vote_from_annotation(result)
            for question in config.questions
            if not isinstance(answered, list) or question.name in answered
        }
        labels = {control: label for control, label in answers.items() if label is not None}
        ground_truth = bool(raw.get("ground_truth"))
        counts = bool(labels) and not raw.get("was_cancelled")
        yield Annotation(
            project=event.project_key,
            annotation_id=raw["id"],
            task=raw["task"] if is_id(raw.get("task")) else None,
            updated_at=str(raw.get("updated_at") or ""),
            labels=labels,
            ground_truth=ground_truth,
            teaches=counts and (ground_truth or not _made_in_bulk(raw)),
            origin=_origin(result),
            prediction_shown=_was_filled(raw),
            completed_by=raw["completed_by"] if is_id(raw.get("completed_by")) else None,
            lead_time=_seconds(raw.get("lead_time")),
        )


def relabelled_result(
    result: Sequence[Any],
    before: ConfigQuestion,
    after: ConfigQuestion,
    labels: Mapping[str, str | None],
    original: str | None,
) -> list[Any]:
    """Return an annotation's result with the labels that a question has now.

    Args:
        result: the result, as Label Studio stores it.
        before: the question with the labels that are in it.
        after: the question now.
        labels: old label → new label; one that becomes none stays as it is, unless ``original`` says more.
        original: the vote that the annotation was before its labels became one.
    """
    stored = {json.dumps(label.stored): label.value for label in labels_of(before)}
    names = {label.value: label.stored for label in labels_of(after)}

    def changed(entries: list[Any], item: Mapping[str, Any]) -> list[Any]:
        values = [stored.get(json.dumps(entry)) for entry in entries]
        if original is not None and any(labels.get(value or "", value) is None for value in values if value):
            said = _said_at(item, after.control, original)
            return [names[label] for label in said if label in names] or entries
        new = [
            names.get(labels.get(value or "", value) or "", entry)
            for value, entry in zip(values, entries, strict=True)
        ]
        return [entry for place, entry in enumerate(new) if entry not in new[:place]]

    items: list[Any] = []
    for item in result:
        value = item.get("value") if isinstance(item, Mapping) else None
        if not isinstance(value, Mapping) or item.get("from_name") != after.name:
            items.append(item)
            continue
        lists = {key: changed(value[key], value) for key in _LISTS if isinstance(value.get(key), list)}
        items.append({**item, "value": {**value, **lists}})
    return items


def _said_at(value: Mapping[str, Any], control: object, vote: str) -> Sequence[str]:
    """The labels that a vote gives an item of a result; of spans, those that it has in the item's place."""
    if isinstance(control, AnyOf):
        return list(read_subset(vote))
    if isinstance(control, Spans):
        place = control.place(value)
        return [each.label for each in read_spans(vote) if each[:2] == place[:2]]
    return [vote]


_LISTS = ("choices", "taxonomy", "labels", "hypertextlabels", "paragraphlabels")
"""The entries of a result item's value that list labels."""


def _was_filled(annotation: Mapping[str, Any]) -> bool:
    """Whether the form held a prediction; one that is too doubtful to be filled in has no result."""
    prediction = annotation.get("prediction")
    if isinstance(prediction, Mapping) and prediction:
        return bool(prediction.get("result", True))
    return annotation.get("parent_prediction") is not None


def _seconds(value: object) -> float | None:
    """A time in seconds, ``None`` unless it is a positive number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0.0 < value < math.inf else None


def _regions(annotation: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    result = annotation.get("result")
    return [region for region in result if isinstance(region, Mapping)] if isinstance(result, list) else []


def _made_in_bulk(annotation: Mapping[str, Any]) -> bool:
    """Whether Label Studio itself turned a prediction into this annotation: it has no lead time then."""
    from_prediction = annotation.get("parent_prediction") is not None or bool(annotation.get("bulk_created"))
    return from_prediction and annotation.get("lead_time") is None


def _origin(result: Sequence[Mapping[str, Any]]) -> str | None:
    """The origin of the whole form; one changed region makes it "prediction-changed"."""
    origins = {region["origin"] for region in result if isinstance(region.get("origin"), str)}
    if len(origins) > 1:
        return "prediction-changed" if origins & {"prediction", "prediction-changed"} else "manual"
    return next(iter(origins), None)


_Answer: TypeAlias = tuple[TaskQuestion, str, float]
"""A question with its label and the label's score."""

Prediction: TypeAlias = dict[str, Any] | list[Any]
"""Label Studio's answer for one task: a prediction, a list of them, or ``[]`` for none."""


def prediction_of(
    decided: Sequence[tuple[TaskQuestion, Round]], model_version: str, prefill: float
) -> dict[str, Any]:
    """One prediction with the regions of every decided question.

    Each region carries its question's score: the probability that the label is right, or in general the
    reward it is expected to earn. The prediction's ``score``, by which Label Studio sorts, is the product of
    the questions' scores: errors are treated as independent.

    Label Studio fills the form with whatever regions a prediction has, and sorts by its score alone. So a
    question that is too doubtful to be filled in has no region, and counts in the score all the same.
    A question whose condition does not hold for the other labels has no region, and does not count.

    Args:
        decided: the decided questions with their rounds.
        model_version: must equal the backend's title in Label Studio, or the score column stays blank.
        prefill: the least score of a question that the form is filled with.
    """
    answers = [(question, round_.label, round_.score) for question, round_ in decided]
    return _prediction(answers, model_version, prefill)


def without_lists(predictions: Sequence[Prediction]) -> list[Prediction]:
    """The ensemble's prediction for each task, for Label Studio's editor, which takes no lists."""
    return [answer[-1] if isinstance(answer, list) and answer else answer for answer in predictions]


def model_predictions(
    decided: Sequence[tuple[TaskQuestion, Round]], model_version: str
) -> list[dict[str, Any]]:
    """One prediction per model that voted, in alphabetical order, to show annotators who voted for what.

    Label Studio stores all predictions of a list, and its label stream fills the form of a new task with the
    last one, so these must come before the ensemble's prediction. Each has its own version,
    ``<model_version>/<model>``: the score column, uncertainty sampling and an opened task's form read the
    ensemble's version only. The score is the model's correctness as estimated by the plan.
    """
    voters = sorted({arm for _, round_ in decided for arm, vote in round_.votes.items() if vote is not None})
    return [
        _prediction(
            [
                (question, vote, round_.plan["arms"][arm]["correctness"])
                for question, round_ in decided
                if (vote := round_.votes.get(arm)) is not None
            ],
            f"{model_version}/{arm}",
        )
        for arm in voters
    ]


def _visible(answers: Sequence[_Answer]) -> list[_Answer]:
    """The answers to the questions that annotators see in a form with these answers, in the same order."""
    labels = {question.name: label for question, label, _ in answers}
    seen = visible_answers([question.config for question, _, _ in answers], labels)
    return [answer for answer in answers if answer[0].name in seen]


def _prediction(answers: Sequence[_Answer], model_version: str, prefill: float = 0.0) -> dict[str, Any]:
    """A prediction of several questions, each with its label and the label's score."""
    answers = _visible(answers)
    filled = {answer[0].name for answer in _visible([each for each in answers if each[2] >= prefill])}
    regions = {
        question.name: [region | {"score": score} for region in question.result_items(label)]
        if question.name in filled
        else []
        for question, label, score in answers
    }
    for question, _, _ in answers:
        if isinstance(control := question.config.control, RegionChoices):
            regions |= _classified(question.name, control, regions)
    score = math.prod(question_score for _, _, question_score in answers)
    return {
        "result": list(chain(*regions.values())),
        "score": min(max(score, 0.0), 1.0),
        "model_version": model_version,
    }


def _classified(
    name: str, control: RegionChoices, regions: Mapping[str, list[dict[str, Any]]]
) -> dict[str, list[dict[str, Any]]]:
    """The regions that can have a class, each with an ``id``; under ``name`` the items that assign one."""
    marked = {
        carrier: [
            {"id": f"{carrier}-{place}"} | region for place, region in enumerate(regions.get(carrier, ()))
        ]
        for carrier in control.controls
    }
    return {**marked, name: control.attach_to_regions(list(chain(*marked.values())), regions[name])}


def is_annotated(task: Mapping[str, Any]) -> bool:
    """Whether a task, as the client lists it, has an annotation; a skipped one counts."""
    return bool(task.get("annotations"))


def _is_drafted(task: Mapping[str, Any]) -> bool:
    """Whether somebody has begun to annotate a task."""
    return bool(task.get("draft_exists") or task.get("drafts"))


def is_touched(task: Mapping[str, Any]) -> bool:
    """Whether somebody has annotated or skipped a task, or begun to annotate it."""
    return is_annotated(task) or _is_drafted(task)


def untouched(tasks: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], set[int]]:
    """The tasks that nobody has annotated or begun to, and the numbers of those with a draft alone."""
    unannotated = [task for task in tasks if not is_annotated(task)]
    drafted = {int(task["id"]) for task in unannotated if _is_drafted(task)}
    return [task for task in unannotated if task["id"] not in drafted], drafted


def of_version(task: Mapping[str, Any], version: str) -> list[dict[str, Any]]:
    """A task's predictions of one model version, the oldest first."""
    stored = [prediction for prediction in task["predictions"] if prediction["model_version"] == version]
    return sorted(stored, key=lambda prediction: int(prediction["id"]))


_AT_ONCE = 4
"""Predictions that are replaced at once; Label Studio 1.23.2 is no faster with more."""


@dataclass(frozen=True, slots=True)
class Outdated:
    """A stored prediction that is to be another, or that Label Studio holds several times.

    It is changed in its place, by a request of its own. To delete and import many together would be faster,
    but Label Studio refuses the annotation of a person whose form was filled from a deleted prediction.

    Attributes:
        number: the number of the prediction that stays.
        changes: what to change in it; empty for nothing.
        duplicates: the numbers of its duplicates.
    """

    number: int
    changes: Mapping[str, Any]
    duplicates: Sequence[int]

    def replace(self, client: Client) -> None:
        """Change it, and delete its duplicates; another run may have deleted any of them already.

        Raises:
            LabelStudioError: Label Studio refused, or cannot be reached.
        """
        for duplicate in self.duplicates:
            with suppress(LabelStudioMissingError):
                client.remove_prediction(duplicate)
        if self.changes:
            with suppress(LabelStudioMissingError):
                client.change_prediction(self.number, self.changes)


def outdated(task: Mapping[str, Any], answer: Sequence[Mapping[str, Any]]) -> Iterator[Outdated]:
    """The stored predictions of a task that differ from those that it is to have; missing ones are left out.

    Of several predictions of one version the oldest stays.
    """
    for wanted in answer:
        if not (existing := of_version(task, wanted["model_version"])):
            continue
        first, *others = existing
        fields = ("result", "score")
        differs = any(first[name] != wanted[name] for name in fields)
        if differs or others:
            changes = {name: wanted[name] for name in fields} if differs else {}
            yield Outdated(first["id"], changes, [other["id"] for other in others])


def replace_all(client: Client, found: Sequence[Outdated]) -> None:
    """Replace predictions, :data:`_AT_ONCE` at a time.

    Raises:
        LabelStudioError: Label Studio refused, or cannot be reached; the others may have been replaced.
    """
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(lambda each: each.replace(client), found))
