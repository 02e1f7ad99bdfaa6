from __future__ import annotations

import pytest

from camvo.errors import InvalidParameterError
from camvo.policies.camvo import CaMVo, CCaMVo
from camvo.policies.named import POLICIES, named, parameters_of

GIVEN = {
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
    "lambda_l": 2.0,
}


@pytest.mark.parametrize("name", POLICIES)
def test_a_policy_has_the_parameters_that_were_given_as_far_as_it_takes_them(name):
    policy = named(name, GIVEN)
    assert type(policy) is POLICIES[name]
    taken = {parameter: getattr(policy, parameter) for parameter in parameters_of(name) if parameter in GIVEN}
    assert taken == {parameter: GIVEN[parameter] for parameter in taken}


def test_what_is_not_given_is_as_the_policy_has_it():
    assert named("camvo", {"delta": 0.8}) == CaMVo(delta=0.8)


def test_ccamvo_is_confident_in_its_own_way_whatever_is_given():
    assert named("ccamvo", GIVEN).confidence == CCaMVo().confidence == "copula"


def test_a_parameter_out_of_its_range_is_refused():
    with pytest.raises(InvalidParameterError):
        named("camvo", {"delta": 2.0})
