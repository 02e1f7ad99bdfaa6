"""What a replay recommends, and what it warns of."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.commands.replay.inputs import VotesFile, oddities
from backend.commands.replay.runs import _AVERAGED, _QUANTILES, Summary
from backend.commands.replay.table import _verdict


def setting(
    policy: str, accuracy: float, cost: float, *, delta: float | None = None, worst: float | None = None
) -> Summary:
    """A setting of a table whose full vote is right in 80% of the items."""
    means: dict[str, float | None] = dict.fromkeys(_AVERAGED)
    least = accuracy if worst is None else worst
    met = None if delta is None else float(least >= delta * 0.8)
    means |= {"accuracy": accuracy, "full_accuracy": 0.8, "agreement": accuracy, "target_met": met}
    means |= {"cost": 10.0 * cost, "cost_share": cost, "relative_accuracy": accuracy / 0.8}
    quantiles: dict[str, list[float] | None] = dict.fromkeys(_AVERAGED)
    quantiles["relative_accuracy"] = [least / 0.8, *[accuracy / 0.8] * (len(_QUANTILES) - 1)]
    return Summary(policy, delta, None, None, 3, means, dict.fromkeys(_AVERAGED), quantiles)


CAMVO = setting("camvo", 0.78, 0.6, delta=0.97)
JOINT = setting("joint", 0.799, 0.28)
MAJORITY = setting("majority", 0.8, 1.0)


def bought(settings: list[Summary]) -> list[str]:
    """The policies that the verdict calls best buys."""
    lines = (line.removeprefix("The best buy is ") for line in _verdict(settings))
    return [
        line.strip().partition(":")[0]
        for line in lines
        if " right at " in line and " every shuffle " not in line
    ]


def test_a_setting_that_another_beats_is_not_recommended() -> None:
    said = "\n".join(_verdict([CAMVO, JOINT, MAJORITY]))
    assert bought([CAMVO, JOINT, MAJORITY]) == ["joint", "majority"]
    assert "joint: 79.9% right at 28.0% of the cost of asking every model" in said
    assert "camvo" not in said


def test_the_cheapest_that_reaches_a_target_may_be_of_any_policy() -> None:
    (said,) = [line for line in _verdict([CAMVO, JOINT, MAJORITY]) if "0.97" in line]
    assert "in every shuffle is joint: " in said


def test_a_target_that_was_missed_in_one_shuffle_is_missed() -> None:
    wavering = setting("camvo", 0.79, 0.1, delta=0.97, worst=0.7)
    lines = _verdict([wavering, MAJORITY])
    assert "0 of 1 settings met their target in every shuffle." in lines
    assert any("in every shuffle is majority: " in line for line in lines)


def test_where_nothing_reaches_a_target_the_nearest_is_named() -> None:
    (said,) = [line for line in _verdict([setting("camvo", 0.7, 0.1, delta=0.97)]) if "nearest" in line]
    assert "camvo with δ = 0.97 comes nearest, with 87.5% of it in the worst shuffle." in said


def test_one_setting_alone_is_recommended_to_nobody() -> None:
    assert _verdict([MAJORITY]) == [
        "The full vote, with all models weighted by their true accuracy, is 80.0% right."
    ]


def test_without_truth_the_best_buys_are_by_agreement() -> None:
    blind = [
        Summary(*one_key(one), 3, one.means | {"full_accuracy": None, "accuracy": None}, {}, one.quantiles)
        for one in (JOINT, MAJORITY)
    ]
    assert "  joint: 79.9% in agreement at 28.0% of the cost of asking every model" in _verdict(blind)


def one_key(summary: Summary) -> tuple[str, None, None, None]:
    return summary.policy, None, None, None


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5)), min_size=2, max_size=12))
def test_the_best_buys_are_those_that_no_other_beats(points: list[tuple[int, int]]) -> None:
    settings = [setting(f"p{i}", right / 10, cost / 5) for i, (right, cost) in enumerate(points)]
    best = {(right / 10, cost / 5) for right, cost in (points[int(name[1:])] for name in bought(settings))}
    unbeaten = {
        (right / 10, cost / 5)
        for right, cost in points
        if not any(r >= right and c <= cost and (r, c) != (right, cost) for r, c in points)
    }
    assert best == unbeaten


# warnings


def odd(folder: Path, content: str, k_mins: Sequence[int] = (), *, ordered: bool = False) -> list[str]:
    (folder / "votes.csv").write_text(content, encoding="utf-8")
    return oddities(VotesFile.read(folder / "votes.csv"), k_mins, ordered=ordered)


def test_labels_that_several_columns_name_are_not_odd(tmp_path: Path) -> None:
    assert odd(tmp_path, "truth,a,b\nyes,yes,no\nno,no,yes\n") == []


def test_a_label_that_nobody_else_uses_is_named_with_its_model(tmp_path: Path) -> None:
    assert odd(tmp_path, "truth,a,b\nyes,yes,yes\nyes,yes,N/A\nyes,yes,N/A\n") == [
        "the label 'N/A' reads as a missing value; leave such cells blank",
        "only 'b' names the label 'N/A' (2 items); a typing error?",
    ]


def test_a_truth_that_no_model_names_is_said(tmp_path: Path) -> None:
    assert odd(tmp_path, "truth,a,b\nyes,yes,yes\nmaybe,yes,yes\n") == [
        "no model ever names the truth 'maybe' (1 item), so no policy can be right there"
    ]


def test_successive_numbers_as_labels_look_like_a_scale_until_they_are_read_as_one(tmp_path: Path) -> None:
    stars = "a,b\n9,10\n10,11\n11,9\n"
    assert odd(tmp_path, stars) == [
        "the labels look like a scale: if they are one, --ordered exact reads them as one"
    ]
    assert odd(tmp_path, stars, ordered=True) == []


@pytest.mark.parametrize("labels", [("0", "1"), ("1", "2", "4"), ("low", "2", "3")])
def test_other_labels_look_like_no_scale(tmp_path: Path, labels: tuple[str, ...]) -> None:
    assert odd(tmp_path, "a,b\n" + "".join(f"{label},{label}\n" for label in labels)) == []


def test_the_only_model_of_a_table_is_not_odd(tmp_path: Path) -> None:
    assert odd(tmp_path, "a\nyes\nno\n") == []


def test_many_odd_labels_are_counted(tmp_path: Path) -> None:
    rows = "".join(f"yes,yes,label {number}\n" for number in range(9))
    found = odd(tmp_path, f"truth,a,b\n{rows}")
    assert len(found) == 6
    assert found[-1] == "4 more labels are named in one column only"


@pytest.mark.parametrize(("k_mins", "count"), [([1, 3, 7], 0), ([9, 3, 9], 1), ([8, 9], 2)])
def test_a_k_min_above_the_number_of_models_is_said_once(
    k_mins: list[int], count: int, tmp_path: Path
) -> None:
    seven = f"{','.join('abcdefg')}\n{','.join(['yes'] * 7)}\n"
    assert len(odd(tmp_path, seven, k_mins)) == count
