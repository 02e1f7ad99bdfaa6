"""What earlier projects taught is a prior of skills: of their differences, as strong as projects agree."""

from __future__ import annotations

import numpy as np
import pytest

from camvo.state.contribution import Contribution
from camvo.state.earlier import _BY_PRICE, _MOST_ROUNDS, Earlier, Lesson, SkillPrior
from camvo.state.state import State

ARMS = ("a", "b", "c", "d")
SKILLS = (2.0, 1.0, 0.5, 0.0)


def lesson(project: str, skills: tuple[float, ...] = SKILLS, rounds: float = 400.0) -> Lesson:
    return Lesson(project, tuple(zip(ARMS, skills, strict=False)), rounds)


def prior(*lessons: Lesson) -> SkillPrior:
    found = Earlier(lessons).prior(ARMS)
    assert found is not None
    return found


def test_a_harder_project_teaches_the_same_differences() -> None:
    harder = lesson("2", tuple([skill - 3.0 for skill in SKILLS]))
    differences = prior(lesson("1"), harder).means
    np.testing.assert_allclose(differences, np.array(SKILLS) - np.mean(SKILLS), atol=1e-6)


def test_projects_that_agree_make_a_stronger_prior_than_projects_that_do_not() -> None:
    agreed = prior(lesson("1"), lesson("2"), lesson("3"))
    parted = prior(lesson("1"), lesson("2", SKILLS[::-1]), lesson("3"))
    assert (agreed.precision > 2.0 * parted.precision).all()


def test_a_project_of_few_rounds_teaches_nothing() -> None:
    assert Earlier((lesson("1", rounds=20.0),)).prior(ARMS) is None


def test_one_known_arm_is_no_prior() -> None:
    assert Earlier((lesson("1"),)).prior(("a", "x", "y")) is None


def test_skills_as_they_were_are_not_moved_whatever_the_level() -> None:
    by, _ = prior(lesson("1")).beside(np.array(SKILLS) + 1.0, 100.0)
    np.testing.assert_allclose(by, 0.0, atol=1e-9)


def test_skills_of_few_rounds_are_moved_further_than_those_of_many() -> None:
    flat = np.ones(4)
    few, many = (prior(lesson("1")).beside(flat, rounds)[0] for rounds in (12.0, 400.0))
    assert few[0] > 3.0 * many[0] > 0.0
    assert few[3] < 3.0 * many[3] < 0.0


def test_an_arm_that_broke_keeps_little_of_its_prior() -> None:
    far, near = (np.array([skill, *SKILLS[1:]]) for skill in (-4.0, 1.0))
    moved = [prior(lesson("1")).beside(skills, 100.0)[0][0] for skills in (far, near)]
    assert moved[0] / 6.0 < moved[1] / 2.0


@pytest.mark.parametrize(
    ("skills", "least", "most"), [(SKILLS, 30.0, _MOST_ROUNDS), ((0, 3, 0, 3), 0.0, 12.0)]
)
def test_the_prior_counts_as_rounds_while_votes_bear_it_out(
    skills: tuple[float, ...], least: float, most: float
) -> None:
    _, rounds = prior(lesson("1"), lesson("2")).beside(np.array(skills, dtype=float), 200.0)
    assert least < rounds <= most


def test_a_new_arm_gets_no_head_start() -> None:
    found = Earlier((lesson("1"),)).prior((*ARMS, "new"))
    assert found is not None
    by, rounds = found.beside(np.array([*SKILLS, 3.0]), 50.0)
    assert rounds == 0.0
    np.testing.assert_allclose(by, 0.0, atol=1e-9)


def test_lessons_come_to_a_state_as_a_contribution_and_stay_in_its_snapshot() -> None:
    earlier, state = Earlier((lesson("1"), lesson("2"))), State(2)
    state.add(Contribution.unpack(Contribution.of_earlier(earlier, 2).pack()))
    assert (state.earlier, state.rounds) == (earlier, 0)
    assert State.restore(state.snapshot()).earlier == earlier


def test_later_lessons_take_the_place_of_earlier_ones() -> None:
    state = State(2)
    for earlier in (Earlier((lesson("1"), lesson("2"))), Earlier((lesson("2"),))):
        state.add(Contribution.of_earlier(earlier, 2))
    assert state.earlier == Earlier((lesson("2"),))


def test_two_arms_differ_as_their_prices_say_whatever_they_voted() -> None:
    found = Earlier().priced({"a": 5.0, "b": 0.5}).prior(("a", "b"))
    assert found is not None
    for skills in ([2.0, 1.0], [0.0, 3.0]):
        by, head_start = found.beside(np.array(skills), 400.0)
        first, second = (skills + by).tolist()
        assert first - second == pytest.approx(_BY_PRICE)
        assert by.sum() == pytest.approx(0.0)
        assert head_start == 0.0


def test_prices_of_nearly_the_same_ratio_say_the_same() -> None:
    one, other = (Earlier().priced({"a": price, "b": 1.0}) for price in (9.0, 11.0))
    assert one == other


def test_a_free_arm_and_a_much_more_expensive_one_differ_no_more_than_the_largest_ratio() -> None:
    free, cheap = (Earlier().priced({"a": 5.0, "b": price}) for price in (0.0, 1e-9))
    assert free == cheap
    assert free.dearer == ("a", pytest.approx(1.5 * _BY_PRICE))


@pytest.mark.parametrize("prices", [{"a": 1.0, "b": 1.0}, {"a": 0.0, "b": 0.0}, {"a": 1.0}])
def test_prices_that_do_not_differ_are_no_prior(prices: dict[str, float]) -> None:
    assert Earlier().priced(prices).prior(tuple(prices)) is None


def test_of_three_arms_prices_say_nothing() -> None:
    prices = {"a": 5.0, "b": 0.5, "c": 0.05}
    assert Earlier().priced(prices).prior(tuple(prices)) is None


def test_earlier_projects_overrule_what_prices_say_of_two_arms() -> None:
    found = Earlier((lesson("1"),)).priced({"a": 0.1, "b": 5.0}).prior(("a", "b"))
    assert found is not None
    by, _ = found.beside(np.zeros(2), 100.0)
    assert by[0] - by[1] == pytest.approx(1.0)
