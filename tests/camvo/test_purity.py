from __future__ import annotations

import doctest
import importlib
import pkgutil
import subprocess
import sys

import pytest

import camvo

MODULES = sorted(module.name for module in pkgutil.walk_packages(camvo.__path__, "camvo."))


def test_the_algorithm_imports_nothing_that_touches_the_world():
    program = f"""
import importlib, sys
for name in {MODULES!r}:
    importlib.import_module(name)
loaded = {{name.partition(".")[0] for name in sys.modules}}
print(sorted(loaded & {{"flask", "litellm", "sqlalchemy", "backend", "torch", "sentence_transformers"}}))
assert "numpy" in loaded
"""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    "name",
    [
        "camvo.replays.bernoulli_copula",
        "camvo.numerics.beta_likelihood",
        "camvo.subsets.confidence",
        "camvo.numerics.laplace",
        "camvo.votes.numbers",
        "camvo.votes.texts",
        "camvo.state.vote_patterns",
        "camvo.votes.rankings",
        "camvo.state.state",
        "camvo.votes.labels",
    ],
)
def test_the_examples_in_the_docstrings_are_true(name):
    result = doctest.testmod(importlib.import_module(name))
    assert result.attempted > 0
    assert result.failed == 0
