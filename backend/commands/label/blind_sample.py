"""A random sample of a dataset that people label without seeing what the models say.

The sample is the tasks with the smallest draws. It is the same for every order of the rows, and a larger
sample contains a smaller one.
"""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from backend.annotation.job import audit_draw
from backend.datasets.index import Index
from backend.datasets.sinks.result import PREFIX, cell
from backend.datasets.sinks.whole_file import WholeFile
from backend.datasets.tasks import DatasetTask, task_name
from backend.errors import ConfigError
from backend.questions import LabelConfig
from camvo.scores.blind_queue import queue_place

PROJECT, TASK, ID, LABEL = (f"{PREFIX}{name}" for name in ("project", "task", "id", "label"))
"""The columns of the file, beside the texts."""

ANNOTATOR = f"{PREFIX}annotator"
"""A column that may be added: who gave the row's label."""


def audit_share(index: Index, project: str, size: int) -> float:
    """The share of tasks to keep blind so that exactly ``size`` of this dataset are.

    Raises:
        ConfigError: the dataset has fewer tasks.
    """
    if size > index.tasks:
        raise ConfigError(
            f"{size} is more than the {index.tasks} tasks of the file", where="--blind", fix="give less"
        )
    draws = index.smallest(partial(_draw, project), size + 1)
    last = draws[size - 1]
    following = draws[size] if len(draws) > size else (1 << 63)
    share = (last + following) / 2 / 2**63
    return min(share, math.nextafter(1.0, 0.0))


def _draw(project: str, task: int) -> int:
    return audit_draw(project, task) >> 1  # SQLite's integers have a sign


def write_blind_sample(path: Path, project: str, config: LabelConfig, sample: Sequence[DatasetTask]) -> None:
    """Write a sample in the order in which it is to be labelled.

    Labels certify from the front of this order, without a gap, so the file may be labelled in part.

    Args:
        path: the file.
        project: the project's key.
        config: names the controls to label.
        sample: the blind tasks.
    """
    sample = sorted(sample, key=lambda task: (queue_place(project, task.number), task.number))
    labels = label_columns(config)
    texts = list(dict.fromkeys(key for task in sample for key in task.data))
    # Spreadsheets read UTF-8 by the mark that this encoding begins with.
    with WholeFile(path) as file, io.TextIOWrapper(file, "utf-8-sig", errors="replace", newline="") as text:
        writer = csv.writer(text)
        writer.writerow([PROJECT, TASK, ID, *texts, *labels])
        writer.writerows(
            [project, task_name(task.number), task.id]
            + [cell(task.data.get(key)) for key in texts]
            + [""] * len(labels)
            for task in sample
        )


def label_columns(config: LabelConfig) -> dict[str, str]:
    """Column of a label → the name of its control."""
    names = [question.name for question in config.questions]
    return {LABEL: names[0]} if len(names) == 1 else {f"{LABEL}_{name}": name for name in names}
