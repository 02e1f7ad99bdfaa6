"""A project in a ledger whose tasks have labels by models and whose blind tasks have labels by people.

Nothing is asked: rounds and answers are stored as they would be after the fact.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

from stored_rounds import PROJECT, a_key, a_round

from backend import settings as settings_module
from backend.annotation.job import is_audit
from backend.ledger import Ledger, blind_tasks, projects, rounds
from backend.ledger.blind_tasks import BlindQueues
from backend.ledger.rounds import Round
from backend.server.status.build import build_report
from backend.server.status.report import SharesReport
from backend.settings import Settings

CONFIG = """<View><Text name="text" value="$text"/><Choices name="mood" toName="text"{}>
<Choice value="Glad"/><Choice value="Sad"/><Choice value="Odd"/></Choices></View>"""


def settings(**changes: object) -> Settings:
    return settings_module.load(None).model_copy(update=changes)


class BlindProject:
    """A ledger with one question.

    Args:
        ledger: a migrated ledger.
        choice: attributes of the question's tag.
        audit: the share of blind tasks.
    """

    def __init__(self, ledger: Ledger, choice: str = "", audit: float = 0.2) -> None:
        self.ledger, self.audit, self.rounds = ledger, audit, dict[int, Round]()
        with ledger.write() as connection:
            projects.remember(
                connection, PROJECT, extra_params=None, label_config=CONFIG.format(choice), now=1.0
            )

    def predict(
        self,
        labels: Sequence[str],
        plan_of: Callable[[int], dict[str, object]] | None = None,
        **changes: object,
    ) -> None:
        """Store a round for each label, with a plan by task; a hash of the task decides which are blind."""
        first, new = len(self.rounds) + 1, dict[int, Round]()
        for task, label in enumerate(labels, start=first):
            values = {"cost_usd": 0.001, "full_cost_usd": 0.004, "score": 0.98, **changes}
            values |= {} if plan_of is None else {"plan": plan_of(task)}
            audit = is_audit(PROJECT, task, self.audit)
            new[task] = a_round(a_key(task), label=label, audit=audit, **values)
        with self.ledger.write() as connection:
            numbers = rounds.insert_each(connection, list(new.values()))
            for (task, round_), number in zip(new.items(), numbers, strict=True):
                self.rounds[task] = replace(round_, id=number)
                if round_.audit:
                    blind_tasks.enter(connection, round_, number)

    @property
    def queue(self) -> list[int]:
        """The blind tasks in the order in which they are to be labelled."""
        with self.ledger.read() as connection:
            return [
                blind.task for queue in BlindQueues(connection, PROJECT).all().values() for blind in queue
            ]

    def answer(self, tasks: Sequence[int], human: Callable[[int], str | None]) -> None:
        """People label blind tasks; ``None`` is a skipped one."""
        with self.ledger.write() as connection:
            for task in tasks:
                round_, label = self.rounds[task], human(task)
                reward = None if label is None else float(label == round_.label)
                rounds.set_human(connection, round_.id, label, reward)
                said = {} if reward is None else {task: reward}
                blind_tasks.record_answer(connection, round_, round_.id, said, label or "")

    @contextmanager
    def copied(self, path: Path) -> Iterator[BlindProject]:
        """The same project in a copy of its SQLite ledger."""
        with self.ledger.read() as connection, closing(sqlite3.connect(path)) as target:
            connection.connection.driver_connection.backup(target)  # type: ignore[union-attr]
        with closing(Ledger(f"sqlite:///{path}")) as ledger:
            copy = BlindProject.__new__(BlindProject)
            copy.ledger, copy.audit, copy.rounds = ledger, self.audit, dict(self.rounds)
            yield copy

    def shares(self) -> SharesReport | None:
        with self.ledger.read() as connection:
            [project] = build_report(connection, settings(), now=2.0, certificates=True).projects
        [question] = project.questions
        return question.shares


def random_label(seed: str, task: int, labels: Sequence[str]) -> str:
    """One of the labels, by a hash."""
    return labels[hashlib.sha256(f"{seed}{task}".encode()).digest()[0] % len(labels)]
