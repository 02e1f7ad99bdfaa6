"""The tasks of a Label Studio project in the form that a dataset's tasks have."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from backend.datasets.sources.row import Row
from backend.datasets.tasks import DatasetTask
from backend.label_studio import stored_predictions
from backend.label_studio.client import Client
from backend.label_studio.payloads import parse_task

PAGE = 200
"""Tasks that are fetched together."""


def project_tasks(client: Client, number: int, *, untouched: bool = False) -> Iterator[DatasetTask]:
    """Read a project's tasks page by page; those that cannot be read are left out.

    Args:
        client: Label Studio.
        number: the project's number.
        untouched: whether tasks are left out that somebody has annotated or begun to.

    Raises:
        LabelStudioError: Label Studio refused, or cannot be reached.
    """
    for page in client.pages(number, size=PAGE):
        for raw in stored_predictions.untouched(page)[0] if untouched else page:
            if (parsed := parse_task(raw)) is not None:
                yield dataset_task(*parsed)


def dataset_task(number: int, data: Mapping[str, Any]) -> DatasetTask:
    """One task in that form."""
    return DatasetTask(Row(f"task {number}", dict(data)), str(number), number, data)
