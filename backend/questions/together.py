"""Which questions of a label config are asked together, and which policy they get.

Questions without a condition are asked first, at once. A question under a condition is asked after those that
it depends on, together with the others whose conditions hold by then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from backend.questions.controls import AnyOf
from backend.questions.question import ConfigQuestion, TaskQuestion
from backend.questions.visibility import Condition
from backend.settings.policies import PolicySettings, policy_of
from camvo.policies.policy import Policy


def asked_together(questions: Sequence[TaskQuestion]) -> list[list[TaskQuestion]]:
    """Divide the questions about a task into those that are asked at once, in the order of the stages.

    A question under a condition is asked after those that it depends on.
    """
    stages: list[list[TaskQuestion]] = []
    left = list(questions)
    while left:
        waiting = {question.name for question in left}
        stage = [
            question
            for question in left
            if not any(waiting & set(condition.controls) for condition in question.config.conditions)
        ]
        stages.append(stage or left)  # questions that wait for one another are never asked
        asked = {question.name for question in stages[-1]}
        left = [question for question in left if question.name not in asked]
    return stages


def policy_for(
    settings: PolicySettings, questions: Sequence[ConfigQuestion], asked: Collection[str]
) -> Policy:
    """Return the policy for questions of a label config; without a name, their votes decide it.

    It is the same for a question in every task: all questions that may be asked together with it decide,
    whichever of them one task has.

    Args:
        settings: the section ``policy``, with the project's overrides.
        questions: all questions of the label config.
        asked: the names of some of them.
    """
    if settings.name is not None:
        return policy_of(settings)
    known, names = tuple(questions), sorted(asked)
    together = {question for name in names for question in _together_with(known, name)}
    return policy_of(settings, [question.control.aggregation for question in together])


@lru_cache(maxsize=256)
def _together_with(questions: tuple[ConfigQuestion, ...], name: str) -> tuple[ConfigQuestion, ...]:
    """A question and those that may be asked together with it."""
    by_name = {question.name: question for question in questions}
    own = _waits(by_name, name)
    return tuple(
        other
        for other in questions
        if other.name == name
        or (
            bool(own) == bool(others := _waits(by_name, other.name))
            and name not in _controls(others)
            and other.name not in _controls(own)
            and not any(_excludes(by_name, one, another) for one in own for another in others)
        )
    )


def _waits(by_name: dict[str, ConfigQuestion], name: str) -> frozenset[Condition]:
    """The conditions of a question, and of those that it depends on."""
    found: set[Condition] = set()
    left = [name]
    while left:
        question = by_name.get(left.pop())
        conditions = () if question is None else question.conditions
        new = {each for each in conditions if not by_name.keys().isdisjoint(each.controls)} - found
        found |= new
        left += _controls(new)
    return frozenset(found)


def _controls(conditions: Collection[Condition]) -> Iterator[str]:
    return (control for condition in conditions for control in condition.controls)


def _excludes(by_name: dict[str, ConfigQuestion], one: Condition, other: Condition) -> bool:
    """Whether two conditions want different choices of a control where only one can be chosen."""
    if one.answers is None or other.answers is None or not (one.selected and other.selected):
        return False
    question = by_name.get(one.controls[0]) if len(one.controls) == 1 else None
    if question is None or one.controls != other.controls or isinstance(question.control, AnyOf):
        return False
    return set(one.answers).isdisjoint(other.answers)
