"""Which policies have a student, and which have one unless told otherwise."""

from __future__ import annotations

import pytest

from camvo.policies.camvo import CaMVo
from camvo.policies.joint import Joint
from camvo.policies.named import POLICIES
from camvo.policies.sequential import Sequential
from camvo.policies.studying import can_have_student, has_student_by_default


def test_of_all_policies_only_joint_has_a_student_by_default() -> None:
    assert [name for name, policy in POLICIES.items() if policy.studies] == ["joint"]


def test_a_policy_that_plans_one_task_differently_keeps_its_student() -> None:
    assert has_student_by_default(Joint().within(0.5).asking_everyone())


def test_a_policy_of_a_callers_own_has_none_by_default() -> None:
    assert not has_student_by_default(object())  # type: ignore[arg-type]


@pytest.mark.parametrize(("policy", "can"), [(Joint(), True), (Sequential(), True), (CaMVo(), False)])
def test_policies_that_ask_in_stages_can_have_a_student(policy: object, can: bool) -> None:
    assert can_have_student(policy) == can  # type: ignore[arg-type]
