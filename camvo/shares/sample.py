"""Which blind labels are a random sample, and of which tasks.

Blind tasks are chosen by a hash before any vote, and are labelled in the order of another hash
(:mod:`camvo.scores.blind_queue`). Two kinds of them are a random sample of the tasks up to some round:

- all blind tasks up to it, if every one is labelled;
- the front of the first cohort's blind tasks in the order of their places.

A front of the tasks of several cohorts is none: it is labelled only after the first cohort is, so it would
be taken where by chance none of the later tasks has a place in it.

Only answers that count in the queue are considered, so a task that was passed over never is in the sample.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Arrival:
    """One blind task.

    Attributes:
        round: the number of its round; rounds are numbered in the order in which they were stored.
        place: its place by the hash.
        task: its number, which decides between equal places.
        counts: whether it belongs to the run of labelled tasks that counts.
    """

    round: int
    place: int
    task: int
    counts: bool


def random_sample(arrivals: Sequence[Arrival], ends: Iterable[int]) -> tuple[list[Arrival], int] | None:
    """Find the labelled blind tasks that are a random sample of all tasks up to a round.

    Args:
        arrivals: all blind tasks of a question.
        ends: the last round of each cohort.

    Returns:
        The sample and the last round that it speaks for: the last one up to which all blind tasks are
        labelled, else that of the first cohort. ``None`` if there is no such sample.
    """
    descending = sorted(set(ends), reverse=True)
    for end in descending:
        queue = sorted(
            (arrival for arrival in arrivals if arrival.round <= end),
            key=lambda arrival: (arrival.place, arrival.task),
        )
        counted = [arrival for arrival in queue if arrival.counts]
        is_sample = counted == queue or (end == descending[-1] and counted == queue[: len(counted)])
        if counted and is_sample:
            return counted, end
    return None
