"""Which policies have a student (:mod:`camvo.student.student`), and which have one unless told otherwise."""

from __future__ import annotations

from collections.abc import Collection

from camvo.policies.ensemble import Ensemble
from camvo.policies.policy import Policy
from camvo.policies.staged import Staged
from camvo.student.taught_texts import STUDENT


def can_have_student(policy: Policy) -> bool:
    """Whether a student can vote beside the policy: it answers first, so the policy must ask in stages."""
    return isinstance(policy, Staged)


def has_student_by_default(policy: Policy, models: Collection[str]) -> bool:
    """Whether a student votes beside the policy unless somebody says otherwise.

    Args:
        policy: any policy.
        models: the names of the models; one with the student's name leaves no room for a student.
    """
    return isinstance(policy, Ensemble) and policy.studies and STUDENT not in models
