from __future__ import annotations

import pytest

from camvo.errors import InvalidParameterError
from camvo.policies.camvo import CaMVo, CCaMVo
from camvo.policies.named import POLICIES, parameters_of, policy_by_name

PARAMETERS = {
    "alpha": 0.7,
    "lambda_r": 5.0,
    "estimator": "mle",
    "delta": 0.8,
    "k_min": 2,
    "n0": 4,
    "confidence": "exact",
    "agreement": 0.9,
    "max_stages": 2,
    "worth": 50.0,
    "share": 0.3,
    "threshold": 0.9,
    "model": "a",
    "models": ("a", "b"),
    "first": 7,
    "lambda_l": 2.0,
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_takes_its_own_parameters_and_ignores_the_others(name):
    policy = policy_by_name(name, PARAMETERS)
    assert type(policy) is POLICIES[name]
    values = {
        parameter: getattr(policy, parameter) for parameter in parameters_of(name) if parameter in PARAMETERS
    }
    assert values == {parameter: PARAMETERS[parameter] for parameter in values}


def test_a_missing_parameter_has_its_default():
    assert policy_by_name("camvo", {"delta": 0.8}) == CaMVo(delta=0.8)


def test_ccamvo_ignores_the_parameter_confidence():
    assert policy_by_name("ccamvo", PARAMETERS).confidence == CCaMVo().confidence == "copula"


def test_a_parameter_out_of_its_range_is_refused():
    with pytest.raises(InvalidParameterError):
        policy_by_name("camvo", {"delta": 2.0})
