"""Predictions that Label Studio holds: whose task nobody has touched, and how one is replaced in its place.

A prediction keeps its number and its model version when it is replaced. So the Data Manager, which averages
the scores of one version, never sees two countings of a task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backend.label_studio.client import Client


def is_annotated(task: Mapping[str, Any]) -> bool:
    """Whether a task, as the client lists it, has an annotation; a skipped one counts."""
    return bool(task.get("annotations"))


def is_drafted(task: Mapping[str, Any]) -> bool:
    """Whether somebody has begun to annotate a task."""
    return bool(task.get("draft_exists") or task.get("drafts"))


def untouched(tasks: Sequence[dict[str, Any]]) -> tuple[list[dict[str, Any]], set[int]]:
    """The tasks that nobody has annotated or begun to, and the numbers of those with a draft alone."""
    unannotated = [task for task in tasks if not is_annotated(task)]
    drafted = {int(task["id"]) for task in unannotated if is_drafted(task)}
    return [task for task in unannotated if task["id"] not in drafted], drafted


def of_version(task: Mapping[str, Any], version: str) -> list[dict[str, Any]]:
    """A task's predictions of one model version, the oldest first."""
    stored = [prediction for prediction in task["predictions"] if prediction["model_version"] == version]
    return sorted(stored, key=lambda prediction: int(prediction["id"]))


def replace_prediction(
    client: Client, existing: Sequence[Mapping[str, Any]], prediction: Mapping[str, Any]
) -> bool:
    """Update the oldest prediction of a version if it differs, and delete the others.

    Args:
        client: Label Studio.
        existing: the task's predictions of the version, the oldest first, at least one.
        prediction: what it is to be.

    Returns:
        Whether anything was changed.

    Raises:
        LabelStudioError: Label Studio refused, or cannot be reached.
    """
    first, *duplicates = existing
    for duplicate in duplicates:
        client.remove_prediction(duplicate["id"])
    differs = (first["result"], first["score"]) != (prediction["result"], prediction["score"])
    if differs:
        client.change_prediction(first["id"], {"result": prediction["result"], "score": prediction["score"]})
    return differs or bool(duplicates)
