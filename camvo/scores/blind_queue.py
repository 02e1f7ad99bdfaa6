"""The queue of blind tasks: which of their labels may certify, whatever people label first (issue 14, A.5).

The guarantee needs the blind tasks to be a random sample. People choose what they label, so the labelled ones
are not: the easy-looking come first, the difficult ones are skipped, and somebody stops when the result looks
good. The blind tasks therefore stand in a queue, and only its unbroken run of answered tasks counts:

- Tasks arrive in **cohorts**. A cohort takes arrivals until one of its tasks is answered; later arrivals form
  the next cohort. So nobody who knows an answer can still add a task before another one.
- Within a cohort, tasks stand in the order of a hash of their number. A task's look cannot change its place.
- The **run** is what is answered without a gap, from the front. A task that is passed over ends it.
- A task counts with the *least* that its answers say (:class:`Verdicts`). Skipped and deleted ones count as
  wrong, so leaving out a wrong label gains nothing.

Each counted reward is then at most the one that an honest answer would have given, in an order that was
fixed before any answer. The betting test rises with every reward (:mod:`camvo.scores.guarantee`), so its
error holds for every order of labelling, every omission and every moment to stop.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import takewhile
from statistics import median_low


def queue_place(project: str, task: int) -> int:
    """A task's place within its cohort: a hash in [0, 2⁶³), independent of the one that makes it blind.

    Args:
        project: the project's key.
        task: the task's number.
    """
    digest = hashlib.sha256(f"queue:{project}:{task}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


@dataclass(frozen=True, slots=True)
class BlindTask:
    """One task of the queue, for one question.

    Attributes:
        cohort: the number of its cohort; lower ones come first.
        place: its place in the cohort (:func:`queue_place`).
        task: its number, which decides between equal places.
        score: the score that was fixed before anybody answered, in [0, 1].
        reward: how right its label counts, in [0, 1]; ``None`` while nobody has answered.
    """

    cohort: int
    place: int
    task: int
    score: float
    reward: float | None

    @property
    def position(self) -> tuple[int, int, int]:
        """What the queue is ordered by."""
        return self.cohort, self.place, self.task


def unbroken_run(queue: Iterable[BlindTask]) -> list[BlindTask]:
    """The answered tasks from the front of the queue, up to the first that nobody has answered."""
    in_order = sorted(queue, key=lambda blind: blind.position)
    return list(takewhile(lambda blind: blind.reward is not None, in_order))


@dataclass(frozen=True, slots=True)
class Verdicts:
    """What the answers on one blind task have said about its label. Nothing said is ever taken back.

    A second look is usually given to labels that disagreed with the vote. If it could turn a wrong label
    into a right one, the errors in the vote's favour would stay and the others would go. So the first answer
    bounds what later ones can say, and an answer that is changed counts with the least that it ever said.

    Attributes:
        first: how right the label was by the first answer, in [0, 1]; ``None`` before it.
        lowest: the number of an answer → how right the label was by it, the least of its versions.
    """

    first: float | None = None
    lowest: Mapping[int, float] = field(default_factory=dict)

    def heard(self, standing: Mapping[int, float]) -> Verdicts:
        """The verdicts after these answers, by number in the order of their arrival."""
        first = self.first if self.first is not None else next(iter(standing.values()), None)
        changed = {number: min(reward, self.lowest.get(number, 1.0)) for number, reward in standing.items()}
        return Verdicts(first, {**self.lowest, **changed})

    def reward(self, standing: Iterable[int]) -> float:
        """How right the label counts while these answers stand, in [0, 1].

        It is the first verdict or the lower median of the standing ones, whichever is less. Two people who
        disagree are tied, which the lower median counts as wrong. If no answer stands, because the task was
        skipped or its answers were deleted or withdrawn, the label counts as wrong.
        """
        rewards = [self.lowest[number] for number in standing]
        if self.first is None or not rewards:
            return 0.0
        return min(self.first, median_low(rewards))
