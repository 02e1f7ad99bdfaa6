"""The commands that a project is told to run: of Label Studio's projects, and of labelled files."""

from __future__ import annotations

from dataclasses import dataclass

from backend.ledger.projects import is_of_label_studio


@dataclass(frozen=True, slots=True)
class Commands:
    """What to run for one project.

    Attributes:
        predict: labels the tasks without a label.
        failed: asks about failed tasks again.
        again: does so with one more attempt of each model.
        refresh: labels tasks anew whose question has changed.
        recount: counts kept votes again.
        correct_scores: what to do, once more labels are taught, about scores that are off.
        hear_people: what to do if no human label has come.
    """

    predict: str
    failed: str
    again: str
    refresh: str
    recount: str
    correct_scores: str
    hear_people: str


def commands_of(key: str) -> Commands:
    """The commands for a project, by its key in the ledger."""
    if not is_of_label_studio(key):
        return _of_file(f"camvo label … --name {key}")
    predict = f"camvo predict --project {key.partition('.')[0]}"
    return Commands(
        predict=predict,
        failed=f"{predict} --failed",
        again=f"{predict} --again",
        refresh=f"{predict} --refresh",
        recount=f"{predict} --recount",
        correct_scores=f"run {predict} --refresh",
        hear_people="if people have annotated, look at Settings → Webhooks in Label Studio: one must end in "
        "/webhook and be active",
    )


def _of_file(label: str) -> Commands:
    return Commands(
        predict=label,
        failed=f"{label} --retry-failed",
        again=f"{label} --retry-failed",
        refresh=label,
        recount=f"{label} --recount",
        correct_scores=f"run camvo teach with them, and {label} --recount",
        hear_people=f"{label} --blind 300 writes a sample for people, and camvo teach takes it back",
    )
