"""Which tasks use each stored answer: the one that it was bought for, and those that share it."""

from __future__ import annotations

from sqlalchemy import select, union_all

from backend.ledger.database import tables

_answers, _links = tables.answers.c, tables.answer_tasks.c

ANSWER_USERS = union_all(
    select(_answers.key, _answers.task).where(_answers.task.is_not(None)),
    select(_links.key, _links.task),
).subquery()
"""Rows of ``key`` and ``task``."""
