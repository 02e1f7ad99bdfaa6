"""The annotations in a webhook, with the humans' labels read through the label config."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from backend.label_studio.payloads import is_id
from backend.label_studio.webhooks import WebhookEvent
from backend.ledger.human_annotations import Annotation
from backend.questions import LabelConfig


def annotations_in(event: WebhookEvent, config: LabelConfig) -> Iterator[Annotation]:
    """Read the annotations of an event.

    Two kinds of annotation teach nothing:

    - skipped ones, although their result still holds the prediction that filled the form;
    - those that Label Studio made from predictions in bulk, which no human looked at, unless somebody has
      marked them as ground truth.

    Entries without a valid id are left out.
    """
    for raw in event.annotations:
        if not is_id(raw.get("id")):
            continue
        result = _regions(raw)
        answers = {question.name: question.vote_from_annotation(result) for question in config.questions}
        ground_truth = bool(raw.get("ground_truth"))
        yield Annotation(
            project=event.project_key,
            annotation_id=raw["id"],
            task=raw["task"] if is_id(raw.get("task")) else None,
            updated_at=str(raw.get("updated_at") or ""),
            labels={control: label for control, label in answers.items() if label is not None},
            ground_truth=ground_truth,
            teaches=not raw.get("was_cancelled") and (ground_truth or not _made_in_bulk(raw)),
            origin=_origin(result),
            prediction_shown=bool(raw.get("prediction")) or raw.get("parent_prediction") is not None,
            completed_by=raw["completed_by"] if is_id(raw.get("completed_by")) else None,
            lead_time=_seconds(raw.get("lead_time")),
        )


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
