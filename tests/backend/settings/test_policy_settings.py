"""Which policy the settings mean."""

from __future__ import annotations

import pytest

from backend.settings import PolicySettings
from backend.settings.policies import in_force, policy_of
from camvo.policies.camvo import CaMVo
from camvo.policies.sequential import Sequential
from camvo.policies.stacked import Stacked
from camvo.votes.labels import LABEL_VOTE
from camvo.votes.numbers import NumericVote


def test_labels_are_asked_about_in_stages_by_default() -> None:
    assert isinstance(policy_of(PolicySettings(), [LABEL_VOTE]), Sequential)


@pytest.mark.parametrize(
    "given",
    [{"delta": 0.97}, {"k_min": 3}, {"n0": 10}, {"confidence": "exact"}],
    ids=lambda given: next(iter(given)),
)
def test_whoever_sets_a_parameter_of_the_papers_policy_gets_that_one(given: dict[str, object]) -> None:
    assert isinstance(policy_of(PolicySettings.model_validate(given), [LABEL_VOTE]), CaMVo)


@pytest.mark.parametrize("given", [{"worth": 10.0}, {"first": 50}], ids=lambda given: next(iter(given)))
def test_whoever_sets_a_parameter_of_the_stacked_vote_gets_that_one(given: dict[str, object]) -> None:
    assert isinstance(policy_of(PolicySettings.model_validate(given), [LABEL_VOTE]), Stacked)


def test_a_project_that_overrides_delta_gets_the_papers_policy() -> None:
    settings = PolicySettings().model_copy(update={"delta": 0.9})
    assert policy_of(settings, [LABEL_VOTE]) == CaMVo(delta=0.9)


def test_questions_without_a_label_are_not_asked_about_in_stages_by_default() -> None:
    assert isinstance(policy_of(PolicySettings(), [LABEL_VOTE, NumericVote(0.0, 5.0)]), CaMVo)


def test_a_policy_that_is_named_is_taken_whatever_else_is_set() -> None:
    settings = PolicySettings(name="sequential", delta=0.9)
    assert isinstance(policy_of(settings, [NumericVote(0.0, 5.0)]), Sequential)


def test_a_task_that_somebody_waits_for_takes_one_stage() -> None:
    policy = policy_of(PolicySettings(), [LABEL_VOTE], alone=True)
    assert isinstance(policy, Sequential)
    assert policy.max_stages == 1


@pytest.mark.parametrize(
    ("given", "name", "idle"),
    [
        ({}, "sequential", []),
        ({"agreement": 0.9, "lambda_l": 2.0}, "sequential", []),
        ({"alpha": 0.5, "lambda_r": 2.0}, "sequential", ["alpha", "lambda_r"]),
        ({"delta": 0.9, "agreement": 0.9, "alpha": 0.5}, "camvo", ["agreement"]),
        ({"name": "ccamvo", "confidence": "exact", "n0": 1}, "ccamvo", ["confidence"]),
        ({"name": "single", "model": "red"}, "single", []),
    ],
)
def test_what_means_nothing_to_the_policy_in_force_is_known(
    given: dict[str, object], name: str, idle: list[str]
) -> None:
    assert in_force(PolicySettings.model_validate(given)) == (name, idle)
