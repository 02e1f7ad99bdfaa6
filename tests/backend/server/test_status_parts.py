"""The parts of the status report that are computed from values, without a server."""

from __future__ import annotations

import re
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from scipy.stats import binomtest
from stored_rounds import a_key, a_round

from backend import settings
from backend.ledger import Ledger, projects, rounds
from backend.ledger.blind_tasks import BlindQueue, QueuedTask
from backend.ledger.projects import FailedTasks, Project
from backend.ledger.reports import SCORE_BINS, Block, CheckedRow
from backend.server.status import build
from backend.server.status.build import _label_studio_address, build_report
from backend.server.status.drawings import (
    _confusion,
    _course,
    _drawn,
    _label_shares,
    _Priced,
    _prices,
    _score_histogram,
)
from backend.server.status.formats import of, templates
from backend.server.status.promises import certify_report, estimate_report, score_check_report
from backend.server.status.question_reports import best_single_report
from backend.server.status.report import ConfusionCount, LabelCount, ModelReport, Share
from backend.server.status.work import SAME_COMMAND, _failure_fix
from camvo.student import STUDENT

NO_SHARE = Share.of(())


def scores(**counts: int) -> list[int]:
    """How many labels have a score of 0.9, given as ``at90=…``, and so on."""
    bins = [0] * SCORE_BINS
    for name, count in counts.items():
        bins[int(name.removeprefix("at"))] = count
    return bins


def checked(count: int, right: int, *, score: float = 0.9, audit: bool = False) -> list[CheckedRow]:
    return [CheckedRow(audit, score, float(number < right)) for number in range(count)]


# -- the estimate


def test_with_ten_blind_labels_the_share_is_theirs_with_the_exact_interval() -> None:
    rows = checked(10, 8, audit=True) + checked(50, 50)
    found = estimate_report(scores(at90=200), rows)
    low, high = binomtest(8, 10).proportion_ci(method="exact")
    assert found is not None
    assert (found.basis, found.checked, found.share) == ("blind", 10, 0.8)
    assert (found.low, found.high) == pytest.approx((low, high))


def test_with_fewer_the_score_is_corrected_by_reviewed_labels_and_called_that() -> None:
    found = estimate_report(scores(at90=200), checked(9, 9, audit=True) + checked(40, 6))
    assert found is not None
    assert (found.basis, found.checked) == ("reviewed", 40)
    assert found.share == pytest.approx(0.15, abs=0.04)
    assert found.low is not None
    assert found.high is not None
    assert found.low < found.share < found.high


def test_with_nine_of_both_it_is_the_mean_score_without_an_interval() -> None:
    found = estimate_report(scores(at90=100, at70=100), checked(9, 0, audit=True) + checked(9, 0))
    assert found is not None
    assert (found.basis, found.low, found.high) == ("score", None, None)
    assert found.share == pytest.approx(0.805)


def test_without_a_label_there_is_no_estimate() -> None:
    assert estimate_report(scores(), []) is None


def test_reviewed_labels_can_say_that_scores_promise_too_much_but_not_too_little() -> None:
    assert score_check_report(checked(40, 6)).off == "high"  # type: ignore[union-attr]
    assert score_check_report(checked(40, 40, score=0.4)).off is None  # type: ignore[union-attr]
    blind = checked(40, 40, score=0.4, audit=True)
    assert score_check_report(blind).off == "low"  # type: ignore[union-attr]


# -- certificates


def blind(task: int, reward: float | None) -> QueuedTask:
    return QueuedTask(1, task, task, 0.99, reward, "", "", None, 0)


def test_the_blind_labels_that_a_certificate_needs_are_counted_from_the_queue() -> None:
    queue = BlindQueue(tuple(blind(task, 1.0 if task < 20 else None) for task in range(100)))
    found = certify_report(queue, scores(at99=500), 0.9)
    assert found is not None
    assert (found.target, found.waiting, found.next_task) == (0.9, 80, 20)
    assert 0 < found.needed < 80  # type: ignore[operator]


def test_a_lower_target_is_named_if_the_waiting_tasks_cannot_certify_the_own_one() -> None:
    queue = BlindQueue(tuple(blind(task, float(task % 8 != 0) if task < 80 else None) for task in range(200)))
    found = certify_report(queue, scores(at99=500), 0.97)
    assert found is not None
    assert found.target < 0.97
    assert 0 < found.needed <= found.waiting  # type: ignore[operator]


def test_without_a_blind_task_it_is_said_how_many_would_certify() -> None:
    found = certify_report(BlindQueue(), scores(at99=1000), 0.97)
    assert found is not None
    assert (found.target, found.waiting, found.next_task, found.wanted) == (0.97, 0, None, found.needed)


def test_no_more_blind_labels_are_asked_for_than_the_project_has_tasks() -> None:
    plenty = certify_report(BlindQueue(), scores(at99=160), 0.97, unpredicted=1000)
    few = certify_report(BlindQueue(), scores(at99=160), 0.97, unpredicted=40)
    none = certify_report(BlindQueue(), scores(at99=160), 0.97, unpredicted=3)
    assert plenty is not None
    assert few is not None
    assert none is not None
    assert (plenty.target, plenty.needed) == (0.97, plenty.wanted)
    assert few.target < 0.97
    assert 0 < few.needed <= 40  # type: ignore[operator]
    assert (none.needed, none.wanted) == (None, plenty.wanted)


# -- models


def model(name: str, **values: Any) -> ModelReport:
    empty = ModelReport(name, True, 0, 0, NO_SHARE, NO_SHARE, NO_SHARE, 0, {}, None, None, 0.0, None)
    return replace(empty, **values)


def single(name: str, price: float, **shares: Share) -> ModelReport:
    return replace(model(name), calls=100, failures={}, cost_usd=100 * price, **shares)


def test_the_best_single_model_is_found_by_blind_labels_first_and_costs_its_mean_price() -> None:
    models = [
        single("cheap", 0.001, audit=Share.of([(20, 12)]), reviewed=Share.of([(20, 20)])),
        single("dear", 0.003, audit=Share.of([(20, 18)]), reviewed=Share.of([(20, 15)])),
    ]
    found = best_single_report(models, None, 500, lambda model, audit: Share.of([(20 + audit, 19)]))
    assert found is not None
    assert (found.model, found.basis, found.share) == ("dear", "blind", 0.9)
    assert found.labels == Share.of([(21, 19)])
    assert found.usd == pytest.approx(1.5)


def test_without_checked_votes_of_every_model_agreement_decides_and_is_named() -> None:
    models = [
        single("cheap", 0.001, agreement=Share.of([(50, 45)]), reviewed=Share.of([(3, 3)])),
        single("dear", 0.003, agreement=Share.of([(50, 40)]), reviewed=Share.of([(20, 20)])),
    ]
    found = best_single_report(models, None, 10, lambda model, audit: NO_SHARE)
    assert found is not None
    assert (found.model, found.basis, found.labels) == ("cheap", "agreement", None)


# -- links


@pytest.mark.parametrize(
    ("hostname", "configured", "shown"),
    [
        ("https://a.example.org/ls/", None, "https://a.example.org/ls"),
        (None, "http://b.example.org", "http://b.example.org"),
        ("https://a.example.org", "http://b.example.org", "https://a.example.org"),
        ("javascript:alert(1)", None, None),
        ("http://user:secret@a.example.org", None, None),
        (None, None, None),
    ],
)
def test_only_an_address_that_a_browser_can_open_safely_becomes_a_link(
    hostname: str | None, configured: str | None, shown: str | None
) -> None:
    stored = Project("7.1", 0, None, None, None, 0.0, hostname=hostname)
    assert _label_studio_address(stored, configured) == shown


# -- drawings


def test_names_in_a_drawing_are_escaped_and_may_be_in_any_script() -> None:
    drawing = _drawn(_label_shares, "names", (LabelCount("<b>bold</b>", 3), LabelCount("日本語", 2)))
    assert "<b>" not in drawing.svg
    assert "日本語" in drawing.svg
    assert 'id="names-' in drawing.svg


def test_equal_data_is_drawn_once() -> None:
    assert _drawn(_score_histogram, "again", (1,) * 20) is _drawn(_score_histogram, "again", (1,) * 20)


@pytest.mark.parametrize(
    ("draw", "data"),
    [
        (_course, ((Block(1, 0.0, 0.0, 0, 0.0, 0.0),),)),
        (_course, (tuple(Block(5, 0.1, 0.2, 3, 2.0, 0.0) for _ in range(20)),)),
        (_confusion, ((ConfusionCount("a", "a", 1),),)),
        (_confusion, (tuple(ConfusionCount(f"{n}", f"{n % 5}", n) for n in range(1, 13)),)),
        (_prices, ((_Priced("free", 0.0, 1.0, 0.5, 1.0),), None, "right, blind")),
        (_score_histogram, ((0,) * 19 + (1,),)),
    ],
)
def test_little_and_odd_data_can_be_drawn_and_takes_the_colours_of_the_page(draw: Any, data: Any) -> None:
    drawing = _drawn(draw, "odd", *data)
    assert drawing.svg.startswith("<svg")
    assert "var(--paper" in drawing.svg
    assert 'role="img"' in drawing.svg


def test_a_few_labels_have_a_line_of_their_cost_over_its_whole_width_and_no_tick_twice() -> None:
    drawing = _drawn(_course, "few", (Block(1, 0.04, 0.05, 0, 0.0, 0.0),))
    [line] = re.findall(r'<path d="([^"]*)"[^>]* style="fill: none; stroke: var\(--colour-0', drawing.svg)
    ends = [float(x) for x in re.findall(r"[ML] ([\d.]+) ", line)]
    assert max(ends) - min(ends) > 50.0
    ticks = re.findall(r">(\d+)</text>", drawing.svg)
    assert ticks == ["0", "1"]


def test_a_file_that_was_labelled_is_no_project_of_label_studio() -> None:
    file = Project("reviews.v2", 0, None, "<View/>", None, 0.0)
    assert _label_studio_address(file, "http://label-studio:8080") is None


# -- what to do next


def test_a_project_without_a_label_is_told_to_have_its_tasks_labelled(sqlite_ledger: Ledger) -> None:
    with sqlite_ledger.write() as connection:
        projects.remember(connection, "7.100", label_config=None, extra_params=None, now=1.0)
        [project] = build_report(connection, settings.load(None), now=2.0).projects
    assert [(step.code, step.command) for step in project.next_steps] == [
        ("predict", "camvo predict --project 7")
    ]


def test_a_task_that_lacks_the_label_of_one_question_is_not_missing_among_those_to_predict(
    sqlite_ledger: Ledger,
) -> None:
    """It has a prediction and has failed; 7 of 10 tasks have neither."""
    with sqlite_ledger.write() as connection:
        projects.remember(connection, "7.100", task_number=10, now=1.0)
        rounds.insert_each(connection, [a_round(a_key(1)), a_round(a_key(2))])
        for task in (2, 3):
            FailedTasks(connection, "7.100").record(task, "no_vote", 1.0)
        [project] = build_report(connection, settings.load(None), now=2.0).projects
    [text] = [step.text for step in project.next_steps if step.code == "predict"]
    assert text == "Let models label the other 7 tasks"


@pytest.mark.parametrize("kinds", range(2, 6))
def test_no_two_kinds_of_tasks_have_the_same_name(kinds: int) -> None:
    filters = templates("backend.server.status", "templates").filters
    names = [filters["kind_of_tasks"](place, kinds) for place in range(1, kinds + 1)]
    assert (names[0], names[-1], len(set(names))) == ("Easy", "Hard", kinds)


@pytest.mark.parametrize(
    ("name", "said"),
    [(STUDENT, "votes at no cost"), ("gone", "no longer asked"), ("m/writer", "camvo refine")],
)
def test_the_student_is_not_called_a_model_that_is_no_longer_asked(name: str, said: str) -> None:
    report = ModelReport(
        name, False, 1, 1, NO_SHARE, NO_SHARE, NO_SHARE, 0, {}, None, None, 0.0, examples=None
    )
    template = build._environment().get_template("models.html")
    module = build._environment().get_template("parts.html").module
    page = template.render(project=SimpleNamespace(models=[report]), parts=module)
    assert said in page


@pytest.mark.parametrize("code", ["stopping", "text_empty", "budget_exhausted"])
def test_where_tasks_wait_that_did_not_fail_the_advice_is_a_command_that_asks_about_them_too(
    code: str,
) -> None:
    assert _failure_fix(code, SAME_COMMAND).endswith("run the same command")


@pytest.mark.parametrize(
    ("number", "verb", "said"),
    [
        (1, "", "1 task"),
        (0, "", "0 tasks"),
        (1, "are", "1 task is"),
        (2, "are", "2 tasks are"),
        (1, "wait", "1 task waits"),
        (1_000, "have", "1,000 tasks have"),
    ],
)
def test_a_number_agrees_with_its_noun_and_verb(number: int, verb: str, said: str) -> None:
    assert of(number, "task", verb) == said
