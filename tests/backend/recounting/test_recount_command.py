"""``camvo predict --recount``, against a served app and the scripted Label Studio."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from recount_project import LABELLED, LEFT, NEW, TASKS, Studio
from served_app import served

from backend.commands.bulk.predicting import PredictionRun
from backend.commands.bulk.recounting import RecountRun, RecountTally
from backend.commands.shared.backend_client import BackendClient


@pytest.fixture
def server(studio: Studio) -> Iterator[BackendClient]:
    with served(studio.backend.app) as client:
        yield client


def run(studio: Studio, server: BackendClient) -> RecountRun:
    project = studio.api.project
    client = studio.api.client()
    return RecountRun(client, server, project["id"], studio.project.key, project["label_config"], batch=4)


def test_it_replaces_what_changed_and_says_how_much(studio: Studio, server: BackendClient) -> None:
    asked = len(studio.backend.server.requests)
    recount = run(studio, server)
    recount.count()
    recount.deliver()
    assert [label for label, _ in studio.shown().values()][LABELLED:] == NEW
    assert studio.pending() == []
    [counting] = studio.countings()
    means = f"{counting.score_before:.3f} → {counting.score_after:.3f}"
    assert recount.tally.summary().splitlines() == [
        f"Counted again: {LEFT} of {LEFT} labels changed, and 0 more scores; mean score {means}",
        f"{LEFT} predictions replaced in Label Studio",
    ]
    assert len(studio.backend.server.requests) == asked


def test_where_no_label_could_be_counted_nothing_changed() -> None:
    tally = RecountTally()
    tally.add({"counted": 0, "labels": 0, "scores": 0, "score_before": 0.0, "score_after": 0.0})
    assert tally.summary().splitlines()[0] == "Counted again: nothing changed"


def test_a_second_run_changes_nothing(studio: Studio, server: BackendClient) -> None:
    for expected in (LEFT, 0):
        recount = run(studio, server)
        recount.count()
        recount.deliver()
        assert recount.tally.replaced == expected


def test_a_run_that_was_stopped_after_the_count_is_finished_by_the_next(
    studio: Studio, server: BackendClient
) -> None:
    run(studio, server).count()
    recount = run(studio, server)
    recount.count()
    recount.deliver()
    assert (recount.tally.counting, recount.tally.replaced) == (None, LEFT)


def test_it_leaves_annotated_and_drafted_tasks(studio: Studio, server: BackendClient) -> None:
    studio.api.annotate(studio.tasks[25], "Sad")
    studio.api.tasks[studio.tasks[26]]["draft_exists"] = True
    before = studio.shown()
    recount = run(studio, server)
    recount.count()
    recount.deliver()
    assert (studio.shown()[25], studio.shown()[26]) == (before[25], before[26])
    assert (recount.tally.drafted, studio.pending()) == (1, [26])


def test_a_task_without_a_round_is_not_asked_about(studio: Studio, server: BackendClient) -> None:
    key, config = studio.project.key, studio.api.project["label_config"]
    unknown = [{"id": 900, "data": {"text": "Never predicted: sunny"}}]
    asked = len(studio.backend.server.requests)
    [answer] = server.predict(key, config, unknown, stored_only=True)
    assert (answer.predictions, answer.code) == ([], "not_stored")
    assert len(studio.backend.server.requests) == asked


def test_refresh_touches_no_annotated_or_drafted_task(studio: Studio, server: BackendClient) -> None:
    studio.api.tasks[studio.tasks[26]]["draft_exists"] = True
    before = studio.shown()
    server.recount(studio.project.key)
    project = studio.api.project
    refresh = PredictionRun(
        client=studio.api.client(),
        predictor=server,
        project=project["id"],
        key=studio.project.key,
        label_config=project["label_config"],
        model_version="camvo",
        refresh=True,
    )
    refresh(lambda done: None)
    after = studio.shown()
    untouched = (*range(LABELLED), 26)
    assert [after[number] for number in untouched] == [before[number] for number in untouched]
    assert after[27] != before[27]


def test_a_recount_while_predictions_are_stored_leaves_none_of_them_old(
    studio: Studio, server: BackendClient
) -> None:
    """The server then finds nothing to replace in Label Studio, and takes the recount as delivered."""
    new = range(LABELLED, len(studio.tasks))
    for number in new:
        studio.api.tasks[studio.tasks[number]]["predictions"].clear()

    def recount_before_the_import(method: str, path: str) -> None:
        if path.endswith("import/predictions") and not studio.countings():
            studio.tend()

    studio.api.before = recount_before_the_import
    project = studio.api.project
    tally = PredictionRun(
        client=studio.api.client(),
        predictor=server,
        project=project["id"],
        key=studio.project.key,
        label_config=project["label_config"],
        model_version="camvo",
    )(lambda done: None)
    assert (len(studio.countings()), studio.pending()) == (1, [])
    assert [studio.shown()[number][0] for number in new] == NEW
    assert tally.repaired == LEFT


def test_the_mean_score_before_and_after_is_stored(studio: Studio) -> None:
    before = [score for _, score in studio.shown().values()][LABELLED:]
    studio.recount()
    [counting] = studio.countings()
    after = [recount.score for number in range(LABELLED, TASKS) if (recount := studio.recounts(number))]
    assert counting.score_before == pytest.approx(sum(before) / LEFT)
    assert counting.score_after == pytest.approx(sum(after) / LEFT)
