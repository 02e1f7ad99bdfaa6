"""The humans' label for a round: which answers count, and how several become one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from backend.ledger import human_annotations
from backend.ledger.rounds import RoundKey, Teacher
from backend.settings import Settings
from camvo.votes import consensus, registry
from camvo.votes.aggregation import Aggregation


def aggregation_of(plan: Mapping[str, Any]) -> Aggregation:
    """The aggregation that counted the votes of a round, read from its stored plan."""
    return registry.restore_aggregation(plan.get("aggregation"))


def human_label(connection: Connection, key: RoundKey, plan: Mapping[str, Any]) -> str | None:
    """The humans' label for the question of a round.

    Ground truth annotations count alone if there are any. Several answers are counted by the question's own
    aggregation, each with the same weight. Not counted are:

    - skipped annotations and those made from predictions in bulk;
    - annotations that are withdrawn (``camvo ledger forget``);
    - answers that are not among the plan's options: the models could not give them either.

    Args:
        connection: a transaction.
        key: the round's key.
        plan: the round's stored plan.

    Returns:
        The label; ``None`` if no answer counts or the answers are tied.
    """
    aggregation, options = aggregation_of(plan), plan["labels"]
    teaching = [
        annotation
        for annotation in human_annotations.of_task(connection, key.project, key.task)
        if annotation.teaches
        and not annotation.withdrawn
        and consensus.is_answer(aggregation, annotation.labels.get(key.control), options)
    ]
    truths = [annotation for annotation in teaching if annotation.ground_truth]
    answers = [annotation.labels[key.control] for annotation in truths or teaching]
    return consensus.agreed_answer(aggregation, answers, options)


def teacher(voted: str, human: str | None, settings: Settings) -> tuple[str, Teacher]:
    """The label that rewards are computed with, and its source.

    It is the human label if there is one and ``human_rewards`` is on, else the voted label.
    """
    return (voted, "vote") if human is None or not settings.human_rewards else (human, "human")


def confirmation(voted: str, human: str | None, plan: Mapping[str, Any]) -> float | None:
    """The reward in [0, 1] of the voted label against the human one; ``None`` without a human label."""
    return None if human is None else aggregation_of(plan).reward(voted, human)
