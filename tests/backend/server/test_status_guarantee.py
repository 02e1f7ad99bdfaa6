"""The score from which no review is needed, as /status and camvo report derive it from blind labels."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from pathlib import Path

import migrated
import pytest
from rich.console import Console
from sqlalchemy import update
from stored_rounds import PROJECT, a_key, a_round

from backend import settings
from backend.commands import report as command
from backend.ledger import Ledger, blind_tasks, deletions, projects, rounds
from backend.ledger.blind_tasks import BlindQueues
from backend.ledger.database import tables
from backend.ledger.rounds import Round
from backend.server.status import build
from backend.server.status.build import build_report
from backend.server.status.formats import of
from backend.server.status.report import GuaranteeReport, Report
from backend.settings import Environment
from camvo.scores.guarantee import queue_place


class Audited:
    """A ledger of one question, whose rounds and human answers are stored without models."""

    def __init__(self, ledger: Ledger) -> None:
        self.ledger = ledger
        self._tasks: Iterator[int] = count(1)
        self._rounds: dict[int, Round] = {}
        with ledger.write() as connection:
            projects.remember(connection, PROJECT, extra_params=None, label_config=None, now=1.0)

    def store(self, scores: Sequence[float], *, audit: bool = True, audited: bool = True) -> list[int]:
        """Store rounds with these scores and return their tasks, blind ones in the order of the queue."""
        tasks = [next(self._tasks) for _ in scores]
        with self.ledger.write() as connection:
            for task, score in zip(tasks, scores, strict=True):
                round_ = a_round(a_key(task), score=score, audit=audit, audited=audited)
                number = rounds.insert_each(connection, [round_])[0]
                if audit:
                    blind_tasks.enter(connection, round_, number)
                    self._rounds[task] = replace(round_, id=number)
        return sorted(tasks, key=lambda task: queue_place(PROJECT, task))

    def answer(self, tasks: Sequence[int], reward: float) -> None:
        with self.ledger.write() as connection:
            for task in tasks:
                blind_tasks.record_answer(
                    connection, self._rounds[task], self._rounds[task].id, {task: reward}, ""
                )

    def delete(self, tasks: Sequence[int]) -> None:
        with self.ledger.write() as connection:
            deletions.mark_deleted(connection, PROJECT, tasks, 2.0)
            deletions.forget_deleted(connection, PROJECT, tasks)

    def report(self, target: float = 0.97, audit: float = 0.0) -> Report:
        with self.ledger.read() as connection:
            loaded = settings.load(None).model_copy(update={"guarantee": target, "audit": audit})
            return build_report(connection, loaded, now=2.0)

    def guarantee(self, target: float = 0.97) -> GuaranteeReport:
        [project] = self.report(target).projects
        [question] = project.questions
        return question.guarantee


@pytest.fixture
def audited(sqlite_ledger: Ledger) -> Audited:
    return Audited(sqlite_ledger)


def with_mixed_labels(audited: Audited) -> Audited:
    """Blind labels that are right from score 0.9 on and half the time below, and as many other tasks."""
    high, low = audited.store([0.95] * 250), audited.store([0.6] * 20)
    audited.store([0.95] * 250 + [0.6] * 20, audit=False)
    audited.answer(high, 1.0)
    audited.answer(low[::2], 1.0)
    audited.answer(low[1::2], 0.0)
    return audited


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Audited]:
    """Only to be read: several tests look at it."""
    ledger = Ledger(migrated.sqlite(tmp_path_factory.mktemp("mixed") / "ledger.sqlite"))
    yield with_mixed_labels(Audited(ledger))
    ledger.close()


def test_the_score_that_the_blind_labels_support_is_named(mixed: Audited) -> None:
    guaranteed = mixed.guarantee()
    assert (guaranteed.threshold, guaranteed.audits, guaranteed.right) == (0.7, 250, 250.0)
    assert guaranteed.low is not None
    assert 0.97 <= guaranteed.low < 1.0


def test_freed_labels_are_counted_over_all_tasks(mixed: Audited) -> None:
    guaranteed = mixed.guarantee()
    assert (guaranteed.labels, guaranteed.freed, guaranteed.beyond) == (500, 500 / 540, 0)


def test_labels_that_were_given_beside_a_prediction_certify_nothing(audited: Audited) -> None:
    audited.store([0.95] * 300, audit=False)
    guaranteed = audited.guarantee()
    assert (guaranteed.threshold, guaranteed.low, guaranteed.blind) == (None, None, 0)
    assert (guaranteed.audits, guaranteed.labels, guaranteed.freed) == (0, 0, 0.0)
    assert (guaranteed.counting, guaranteed.labels_hash) == (None, None)


def test_a_higher_target_may_be_out_of_reach(mixed: Audited) -> None:
    assert mixed.guarantee(0.995).threshold is None


# -- the queue


def test_labels_behind_a_gap_certify_nothing(audited: Audited) -> None:
    first, *others = audited.store([0.99] * 200)
    audited.answer(others, 1.0)
    waiting = audited.guarantee()
    assert (waiting.threshold, waiting.run, waiting.labelled, waiting.blind) == (None, 0, 199, 200)
    assert waiting.next_task == first
    audited.answer([first], 1.0)
    assert (audited.guarantee().threshold, audited.guarantee().next_task) == (0.5, None)


def test_the_front_of_the_first_cohort_speaks_for_all_of_it(audited: Audited) -> None:
    tasks = audited.store([0.99] * 300)
    audited.store([0.99] * 700, audit=False)
    audited.answer(tasks[:160], 1.0)
    guaranteed = audited.guarantee()
    assert (guaranteed.run, guaranteed.labels, guaranteed.beyond) == (160, 1000, 0)


def test_later_arrivals_neither_break_a_certificate_nor_are_covered_by_it(audited: Audited) -> None:
    tasks = audited.store([0.99] * 200)
    audited.answer(tasks[:160], 1.0)
    audited.store([0.99] * 100)
    audited.store([0.99] * 50, audit=False)
    guaranteed = audited.guarantee()
    assert (guaranteed.run, guaranteed.labels, guaranteed.beyond) == (160, 200, 150)


def test_of_a_later_cohort_the_labelled_share_is_covered(audited: Audited) -> None:
    audited.answer(audited.store([0.99] * 150), 1.0)
    later = audited.store([0.99] * 20)
    audited.store([0.99] * 80, audit=False)
    audited.answer(later[:5], 1.0)
    assert (audited.guarantee().labels, audited.guarantee().beyond) == (150 + 25, 75)
    audited.answer(later[5:], 1.0)
    assert (audited.guarantee().labels, audited.guarantee().beyond) == (250, 0)


def test_skipped_and_deleted_tasks_count_as_wrong(audited: Audited) -> None:
    tasks = audited.store([0.99] * 170)
    audited.answer(tasks, 1.0)
    assert audited.guarantee().threshold == 0.5
    audited.delete(tasks[:5])
    guaranteed = audited.guarantee()
    assert (guaranteed.threshold, guaranteed.run) == (None, 170)


# -- what a certificate names


def test_a_certificate_names_its_counting_and_its_labels(audited: Audited) -> None:
    tasks = audited.store([0.99] * 6)
    audited.answer(tasks[:3], 1.0)
    three = audited.guarantee()
    assert audited.guarantee() == three
    audited.answer(tasks[3:4], 1.0)
    four = audited.guarantee()
    audited.answer(tasks[:1], 0.0)
    changed = audited.guarantee()
    assert len({three.labels_hash, four.labels_hash, changed.labels_hash}) == 3
    assert three.counting != four.counting == changed.counting


# -- for people


def test_people_are_told_too(audited: Audited, tmp_path: Path) -> None:
    mixed = with_mixed_labels(audited)
    [waiting] = mixed.store([0.6])
    screen, environment = io.StringIO(), Environment(database_url=f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    command.print_report(Console(file=screen, width=300), environment, project=None, as_json=False)
    html = " ".join(build.render_page(mixed.report(), overview=False).split())
    guaranteed = mixed.guarantee()
    assert guaranteed.counting is not None
    for shown in (screen.getvalue(), html):
        assert "270 of 271 blind tasks labelled" in shown
        assert f"task {waiting}" in shown
        assert guaranteed.counting[:12] in shown
    assert "from score 0.7 on" in screen.getvalue()
    assert "<strong>0.7</strong> need no review" in html
    assert "support no score from which" in build.render_page(mixed.report(0.995), overview=False)


# -- tasks from before the audit


def test_labels_from_before_the_audit_are_not_covered(audited: Audited) -> None:
    audited.store([0.99] * 100, audit=False, audited=False)
    tasks = audited.store([0.99] * 200)
    audited.store([0.99] * 50, audit=False)
    audited.answer(tasks, 1.0)
    guaranteed = audited.guarantee()
    assert (guaranteed.labels, guaranteed.beyond) == (250, 100)


def test_a_deleted_blind_task_closes_its_cohort_as_an_answer_does(audited: Audited) -> None:
    tasks = audited.store([0.99] * 2)
    audited.delete(tasks[:1])
    [later] = audited.store([0.99])
    with audited.ledger.read() as connection:
        [queue] = BlindQueues(connection, PROJECT).all().values()
    assert queue.ends == {1: 2}
    assert {each.task: each.cohort for each in queue} == {1: 1, 2: 1, later: 2}


def test_labels_that_no_blind_task_could_be_drawn_from_are_not_covered(audited: Audited) -> None:
    first = audited.store([0.99] * 150)
    audited.answer(first[:1], 1.0)
    audited.store([0.99] * 100, audit=False, audited=False)  # a run without --blind
    second = audited.store([0.99] * 150)
    audited.answer([*first[1:], *second], 1.0)
    guaranteed = audited.guarantee()
    assert (guaranteed.labels, guaranteed.beyond) == (300, 100)


def test_the_estimate_of_all_labels_does_not_rest_on_blind_ones_alone_if_they_came_later(
    audited: Audited,
) -> None:
    audited.store([0.99] * 100, audit=False, audited=False)
    audited.answer(audited.store([0.99] * 20), 1.0)
    [question] = audited.report().projects[0].questions
    assert question.estimate is not None
    assert question.estimate.basis != "blind"


# -- the advice can be followed


def steps(audited: Audited, tasks: int, audit: float = 0.0) -> dict[str, str]:
    """The next steps of a project with so many tasks, of which ``audit`` keeps a share blind: code → text."""
    with audited.ledger.write() as connection:
        projects.remember(connection, PROJECT, task_number=tasks, now=1.0)
    return {step.code: step.text for step in audited.report(audit=audit).projects[0].next_steps}


def test_nobody_is_told_to_keep_tasks_blind_once_all_are_predicted(audited: Audited) -> None:
    audited.store([0.95] * 60, audit=False)
    assert not {"keep_blind", "more_blind"} & steps(audited, 60).keys()


def test_the_share_to_keep_blind_is_one_that_suffices_among_the_tasks_left(audited: Audited) -> None:
    audited.store([0.99] * 60, audit=False)
    text = steps(audited, 1060)["keep_blind"]
    assert text == (
        f"Keep some of the other {of(1000, 'task')} blind: set audit: 0.31 in camvo.yaml before they are"
        " predicted; about 273 blind labels would certify 97%, and nothing else can"
    )


def test_a_target_that_takes_thousands_of_labels_gives_way_where_the_number_of_tasks_is_not_known(
    audited: Audited,
) -> None:
    audited.store([0.93] * 30, audit=False)
    [text] = [step.text for step in audited.report().projects[0].next_steps if step.code == "keep_blind"]
    assert "would certify 85%" in text  # 90% would take 1,061


@pytest.mark.parametrize(("audit", "advised"), [(0.3, True), (0.31, False)])
def test_to_keep_tasks_blind_is_advised_unless_audit_keeps_enough(
    audited: Audited, audit: float, advised: bool
) -> None:
    audited.store([0.99] * 60, audit=False)
    assert ("keep_blind" in steps(audited, 1060, audit)) is advised


@pytest.mark.parametrize(("audit", "advised"), [(0.0, True), (0.4, False)])
def test_to_keep_more_tasks_blind_is_advised_unless_audit_keeps_enough(
    audited: Audited, audit: float, advised: bool
) -> None:
    audited.answer(audited.store([0.99] * 20), 1.0)
    assert ("more_blind" in steps(audited, 1020, audit)) is advised


def test_a_lower_share_is_named_where_the_tasks_left_are_too_few_for_the_own_one(audited: Audited) -> None:
    audited.store([0.99] * 60, audit=False)
    text = steps(audited, 120)["keep_blind"]
    assert "97" not in text
    assert "blind labels would certify" in text


def test_a_lower_share_that_is_certified_already_is_named_with_its_setting(audited: Audited) -> None:
    audited.answer(audited.store([0.99] * 114), 1.0)
    audited.answer(audited.store([0.99] * 6), 0.0)
    text = steps(audited, 120)["not_certifiable"]
    assert text.endswith(". The blind labels certify 85% (if you set guarantee: 0.85 in camvo.yaml) already")


def test_scores_that_promise_too_little_are_no_reason_to_distrust_what_is_certified(audited: Audited) -> None:
    audited.answer(audited.store([0.8] * 300), 1.0)
    with audited.ledger.write() as connection:
        connection.execute(update(tables.rounds).values(confirmed=1.0))
    [project] = audited.report().projects
    [alert] = [alert for alert in project.alerts if alert.code == "score_off"]
    assert "promise too little" in alert.message
    assert alert.fix is not None
    assert "do not accept labels" not in alert.fix
    assert "accept what the blind labels certify before votes are counted again" in alert.fix


def test_certified_labels_that_nobody_has_annotated_are_to_be_accepted(audited: Audited) -> None:
    audited.store([0.99] * 40, audit=False)
    audited.answer(audited.store([0.99] * 300), 1.0)
    [project] = audited.report().projects
    [step] = [step for step in project.next_steps if step.code == "accept"]
    threshold = audited.guarantee().threshold
    assert step.text.startswith(
        f"Accept the certified labels: 40 tasks with a score of at least {threshold:g}"
    )
    assert step.command == f"camvo accept --project {project.id} --above {threshold:g}"


def test_where_the_scores_alone_stand_in_the_way_right_blind_labels_are_not_called_wrong(
    audited: Audited,
) -> None:
    scores = [0.78 + 0.005 * place for place in range(38)]
    audited.answer(audited.store(scores), 1.0)
    with audited.ledger.write() as connection:
        connection.execute(update(tables.rounds).values(confirmed=1.0))
    text = steps(audited, 38)["not_certifiable"]
    assert "too many labels are wrong" not in text
    assert "100.0% of 38 blind labels are right, but the scores promise less" in text


def test_where_nothing_can_be_certified_that_is_said_with_what_the_blind_labels_show(
    audited: Audited,
) -> None:
    audited.store([0.99] * 4)
    audited.store([0.99] * 50, audit=False)
    text = steps(audited, 54)["blind_labels"]
    assert text.startswith("Nothing can be certified: certifying 97% would take about ")
    assert "4 tasks can still get one. Label the 4 that wait all the same: they show the share" in text


def test_the_blind_task_that_keeps_labels_behind_it_from_counting_is_named_with_their_number(
    audited: Audited,
) -> None:
    def held_up(labels: int) -> str:
        return f"Label task {first} first: {labels} blind labels behind it in the queue can count only then"

    tasks, first = audited.store([0.99] * 60), audited.guarantee().next_task
    others = [task for task in tasks if task != first]
    audited.answer(others[:10], 1.0)
    text = steps(audited, 60)["blind_labels"]
    assert re.fullmatch(rf"Label \d+ more blind tasks to certify .*\. {held_up(10)}", text)
    audited.answer(others[10:], 1.0)
    assert steps(audited, 60)["blind_labels"] == held_up(59)
    audited.answer(tasks, 1.0)
    assert "blind_labels" not in steps(audited, 60)
