from __future__ import annotations

import ast
import doctest
import inspect
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

import camvo

NAMES = [
    *("CaMVo", "CCaMVo", "Joint"),
    *("Baseline", "Majority", "Single", "Fixed", "Random", "Cascade", "BestSingle", "Router"),
    *("Policy", "Observation", "Plan", "Decision"),
    *("State", "Contribution"),
    *(
        "LabelVote",
        "NumericVote",
        "OpenNumericVote",
        "RankingVote",
        "SubsetVote",
        "SpanVote",
        "OpenVote",
        "OrderedVote",
    ),
    *("Scorer", "Guarantee"),
    *("VotesTable", "replay"),
    *("Question", "Task", "ScoredLabel"),
    *("CamvoError", "InvalidParameterError", "SnapshotError"),
]
"""The public API. Removing or renaming one of them breaks programs that import the library."""

SOURCE = Path(camvo.__file__).read_text("utf-8")


def names_for_type_checkers() -> Mapping[str, str]:
    """Name → module, as the imports that only type checkers see have it."""
    (block,) = (node for node in ast.parse(SOURCE).body if isinstance(node, ast.If))
    return {
        alias.name: node.module or ""
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }


def test_the_public_names_are_these():
    assert sorted(camvo.__all__) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_public_name_has_a_docstring_with_an_example(name):
    documented = inspect.getdoc(getattr(camvo, name))
    assert documented
    assert [example for example in doctest.DocTestParser().get_examples(documented) if example.want]


@pytest.mark.parametrize("name", NAMES)
def test_the_example_is_where_doctest_finds_it(name):
    public = getattr(camvo, name)
    tests = doctest.DocTestFinder(exclude_empty=True).find(public, name)
    assert public.__module__.startswith("camvo.")
    assert [test for test in tests if test.name == name and test.examples]


@pytest.mark.parametrize("name", NAMES)
def test_type_checkers_see_the_same_object(name):
    home = sys.modules[names_for_type_checkers()[name]]
    assert getattr(home, name) is getattr(camvo, name)


def test_type_checkers_see_no_other_name():
    assert names_for_type_checkers().keys() == set(NAMES)


def test_a_name_that_does_not_exist_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no attribute 'Camvo'"):
        _ = camvo.Camvo


def test_the_public_names_are_listed_by_dir():
    assert set(NAMES) <= set(dir(camvo))


def test_nothing_is_imported_before_it_is_used():
    code = "import sys, camvo; print(sorted({'numpy', 'scipy', 'camvo.policies'} & sys.modules.keys()))"
    done = subprocess.run(  # noqa: S603 - our own
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == "[]"
