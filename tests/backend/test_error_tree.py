from __future__ import annotations

import inspect
import re

import pytest

from backend import errors
from backend.errors import ModelError, Usage
from camvo import errors as core
from camvo.errors import CamvoError

CLASSES = {
    member
    for module in (core, errors)
    for _, member in inspect.getmembers(module, inspect.isclass)
    if issubclass(member, CamvoError)
}


def test_every_error_has_its_own_code():
    codes = [error.code for error in CLASSES]
    repeated = {code for code in codes if codes.count(code) > 1}
    assert repeated == {errors.DISK_FULL}  # of an output and of the ledger: the cure is the same
    assert all(re.fullmatch(r"[a-z_]+", code) for code in codes)


@pytest.mark.parametrize(
    ("details", "text"),
    [
        ({}, "no price"),
        ({"where": "models[2]"}, "models[2]: no price"),
        ({"where": "models[2]", "fix": "write input_price: 0"}, "models[2]: no price (write input_price: 0)"),
        ({"fix": "write input_price: 0"}, "no price (write input_price: 0)"),
    ],
    ids=["bare", "where", "where and fix", "fix"],
)
def test_the_text_of_an_error_says_where_what_and_how_to_fix_it(details, text):
    assert str(CamvoError("no price", **details)) == text


def test_exactly_the_temporary_model_errors_are_retried():
    retried = {error.__name__ for error in CLASSES if issubclass(error, ModelError) and error.retry}
    assert retried == {"RateLimitedError", "UnavailableError"}


def test_a_model_error_carries_the_usage_of_the_failed_call():
    assert ModelError("refused", usage=Usage(10, 2, 0.5)).usage == Usage(10, 2, 0.5)
    assert ModelError("refused").usage is None


def test_every_error_has_a_docstring():
    assert all(error.__doc__ for error in CLASSES)
