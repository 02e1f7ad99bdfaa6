"""``camvo predict``: every task once, whatever was there, whoever interferes, wherever it is stopped."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from label_studio_api import PROJECT, LabelStudioApi, region

from backend.commands.bulk import predicting
from backend.commands.bulk.predicting import _TRIES, PredictionRun, Tally
from backend.commands.shared.backend_client import BackendAwayError, Progress, TaskAnswer
from backend.errors import BodyTooLargeError, LabelStudioError, LabelStudioUnreachableError


@pytest.fixture(scope="module", autouse=True)
def waited() -> Iterator[list[float]]:
    """The seconds that runs sleep, without sleeping."""
    waited: list[float] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            predicting,
            "time",
            SimpleNamespace(sleep=waited.append, monotonic=lambda: sum(waited), strftime=time.strftime),
        )
        yield waited


class Oracle:
    """A backend that answers with what it is told: task → the predictions of each time it is asked."""

    def __init__(self, score: float = 0.75) -> None:
        self.score = score
        self.late: Counter[int] = Counter()
        self.asked: list[list[int]] = []
        self.longest = 1000
        self.votes = False
        self.blind: set[int] = set()
        self.failing: dict[int, str] = {}
        self.failures: set[int] = set()

    def failed_tasks(self, key: str) -> list[int]:
        return sorted(self.failures)

    def progress(
        self, key: str, first: int = 0, last: int | None = None, after: int | None = None
    ) -> Progress:
        return Progress(0, 0, 0.001 * sum(map(len, self.asked)))

    def predict(
        self,
        key: str,
        label_config: str,
        tasks: Sequence[Mapping[str, Any]],
        *,
        stored_only: bool = False,
    ) -> list[TaskAnswer]:
        if stored_only:
            return [TaskAnswer([], "not_stored")] * len(tasks)
        if len(tasks) > self.longest:
            raise BodyTooLargeError("too many")
        self.asked.append([task["id"] for task in tasks])
        return [self._answer(task["id"]) for task in tasks]

    def _answer(self, task: int) -> TaskAnswer:
        if task in self.failing:
            self.failures.add(task)
            return TaskAnswer([], self.failing[task], f"mend {self.failing[task]}")
        if task in self.blind:
            return TaskAnswer([], "audit")
        if self.late[task]:
            self.late[task] -= 1
            return TaskAnswer([], "deadline", "ask again")
        self.failures.discard(task)
        return TaskAnswer(self._predictions())

    def _predictions(self) -> list[dict[str, Any]]:
        mine = prediction("camvo", self.score)
        return [mine, prediction("red", 0.5)] if self.votes else [mine]


def prediction(version: str, score: float, mood: str = "Glad") -> dict[str, Any]:
    return {"result": [region(mood)], "score": score, "model_version": version}


def run(api: LabelStudioApi, oracle: Oracle, **changes: Any) -> Tally:
    advanced: list[int] = []
    given = {
        "client": api.client(),
        "predictor": oracle,
        "project": PROJECT,
        "key": api.project_key,
        "label_config": api.project["label_config"],
        "model_version": "camvo",
        "batch": 2,
        **changes,
    }
    tally = PredictionRun(**given)(advanced.append)
    assert sum(advanced) == len(api.tasks)
    return tally


def test_every_task_gets_one_prediction(api: LabelStudioApi) -> None:
    numbers = api.add_tasks(*"abcde")
    assert run(api, Oracle()) == Tally(created=5)
    assert api.predictions() == [(number, "camvo", 0.75) for number in numbers]


def test_predictions_that_label_studio_did_not_take_are_not_counted_as_stored(api: LabelStudioApi) -> None:
    numbers = api.add_tasks(*"abcd")

    def stop_after_two(method: str, path: str) -> None:
        if path.endswith("/import/predictions") and api.predictions():
            api.answers[method, path] = (503, {})

    api.before, tally = stop_after_two, Tally()
    with pytest.raises(LabelStudioError):
        run(api, Oracle(), tally=tally)
    assert len(api.predictions()) == 2 < len(numbers)
    assert tally.summary().startswith("2 predictions stored, 0 replaced")


def test_a_second_run_asks_nothing_and_stores_nothing(api: LabelStudioApi) -> None:
    api.add_tasks(*"abcde")
    run(api, Oracle())
    oracle = Oracle()
    assert run(api, oracle) == Tally(unchanged=5)
    assert oracle.asked == []


def test_only_missing_leaves_our_predictions_and_does_not_see_those_of_others(api: LabelStudioApi) -> None:
    ours, others = api.add_tasks("a", "b")
    api.predict(ours, "camvo", 0.2)
    api.predict(others, "another", 0.2)
    assert run(api, Oracle()) == Tally(created=1, unchanged=1)
    assert api.predictions() == [(ours, "camvo", 0.2), (others, "another", 0.2), (others, "camvo", 0.75)]


def test_tasks_are_asked_about_in_a_random_order_that_every_run_has(api: LabelStudioApi) -> None:
    numbers = api.add_tasks(*map(str, range(40)))
    orders = []
    for _ in range(2):
        oracle = Oracle()
        assert run(api, oracle, refresh=True).left == 0
        orders.append([task for request in oracle.asked for task in request][: len(numbers)])
    assert orders[0] == orders[1] != numbers
    assert sorted(orders[0]) == numbers


def test_a_task_that_somebody_predicted_while_the_project_was_read_is_left_alone(
    api: LabelStudioApi,
) -> None:
    first, second = api.add_tasks("a", "b")
    listed: list[str] = []

    def predict(method: str, asked: str) -> None:
        listed.extend([asked] if asked.startswith("/api/tasks") else [])
        if len(listed) == 3 and not api.tasks[first]["predictions"]:  # one page was read, and an empty one
            api.predict(first, "camvo")

    api.before = predict
    oracle = Oracle()
    assert run(api, oracle) == Tally(created=1, unchanged=1)
    assert oracle.asked[0] == [second]


def test_a_run_that_was_stopped_goes_on_where_it_was(api: LabelStudioApi) -> None:
    numbers = api.add_tasks(*"abcdef")
    path = f"/api/projects/{PROJECT}/import/predictions"
    stored: list[str] = []

    def stop(method: str, asked: str) -> None:
        stored.extend([asked] if asked == path else [])
        if len(stored) == 2:
            api.answers["POST", path] = (503, {})

    api.before = stop
    with pytest.raises(LabelStudioError):
        run(api, Oracle(), in_order=True)
    api.before, api.answers = (lambda method, asked: None), {}
    oracle = Oracle()
    assert run(api, oracle, in_order=True) == Tally(created=4, unchanged=2)
    assert oracle.asked == [numbers[2:4], numbers[4:]]
    assert Counter(task for task, _, _ in api.predictions()) == Counter(numbers)


def test_a_prediction_that_label_studio_stored_meanwhile_is_not_doubled(api: LabelStudioApi) -> None:
    first, second = api.add_tasks("a", "b")

    class Opened(Oracle):
        def predict(self, *asked: Any, stored_only: bool = False) -> list[TaskAnswer]:
            if not stored_only:
                api.predict(first, "camvo", 0.75)  # somebody opened the task while models were thinking
            return super().predict(*asked, stored_only=stored_only)

    assert run(api, Opened()) == Tally(created=1, unchanged=1)
    assert api.predictions() == [(first, "camvo", 0.75), (second, "camvo", 0.75)]


def test_a_task_that_was_deleted_meanwhile_does_not_cost_the_others_theirs(api: LabelStudioApi) -> None:
    first, second = api.add_tasks("a", "b")

    class Deleted(Oracle):
        def predict(self, *asked: Any, stored_only: bool = False) -> list[TaskAnswer]:
            api.tasks.pop(first, None)
            return super().predict(*asked, stored_only=stored_only)

    given = {"client": api.client(), "predictor": Deleted(), "project": PROJECT, "key": api.project_key}
    tally = PredictionRun(**given, label_config="", model_version="camvo")(lambda tasks: None)
    assert (tally.created, api.predictions()) == (1, [(second, "camvo", 0.75)])


def test_a_late_task_is_asked_for_again_alone(api: LabelStudioApi) -> None:
    first, second = api.add_tasks("a", "b")
    oracle = Oracle()
    oracle.late[second] = 2
    assert run(api, oracle) == Tally(created=2)
    assert oracle.asked == [[first, second], [second], [second]]


def test_a_task_that_never_gets_one_is_given_up_and_counted(api: LabelStudioApi) -> None:
    first, second = api.add_tasks("a", "b")
    oracle = Oracle()
    oracle.late[second] = 1000
    assert run(api, oracle) == Tally(created=1, undecided=1)
    assert oracle.asked == [[first, second], *[[second]] * _TRIES]


def test_waiting_grows_with_every_request_in_vain(api: LabelStudioApi, waited: list[float]) -> None:
    [only] = api.add_tasks("a")
    oracle = Oracle()
    oracle.late[only] = 1000
    waited.clear()
    run(api, oracle)
    assert waited == sorted(waited)
    assert len(waited) == _TRIES - 1


def test_tasks_too_long_for_one_request_are_sent_in_several(api: LabelStudioApi) -> None:
    numbers = api.add_tasks(*"abcde")
    oracle = Oracle()
    oracle.longest = 2
    assert run(api, oracle, batch=5) == Tally(created=5)
    assert sorted(task for asked in oracle.asked for task in asked) == numbers


def test_a_single_task_too_long_is_counted_and_the_others_stored(api: LabelStudioApi) -> None:
    api.add_tasks("a")
    oracle = Oracle()
    oracle.longest = 0
    assert run(api, oracle) == Tally(too_large=1)


def test_predictions_that_label_studio_passes_over_are_counted(api: LabelStudioApi) -> None:
    api.add_tasks("a")

    class Unknown(Oracle):
        def _predictions(self) -> list[dict[str, Any]]:
            return [prediction("camvo", 0.75, mood="Nope")]

    assert run(api, Unknown()) == Tally(refused=1)


def test_paths_of_nested_choices_go_past_label_studios_check_which_fails_on_them(api: LabelStudioApi) -> None:
    [only] = api.add_tasks("a")

    class Nested(Oracle):
        def _predictions(self) -> list[dict[str, Any]]:
            item = {**region("Glad"), "value": {"choices": [["Moods", "Glad"]]}}
            return [{**prediction("camvo", 0.75), "result": [item]}]

    assert run(api, Nested()) == Tally(created=1)
    assert api.predictions() == [(only, "camvo", 0.75)]


def test_each_models_own_prediction_is_stored_beside_the_ensembles(api: LabelStudioApi) -> None:
    [only] = api.add_tasks("a")
    oracle = Oracle()
    oracle.votes = True
    tally = run(api, oracle)
    assert api.predictions() == [(only, "camvo", 0.75), (only, "red", 0.5)]
    assert tally.summary().startswith("2 predictions stored for 1 task")


# -- refresh


def test_refresh_replaces_what_differs_in_its_place_and_leaves_the_rest(api: LabelStudioApi) -> None:
    same, other, none = api.add_tasks("a", "b", "c")
    unchanged, changed = api.predict(same, "camvo", 0.75), api.predict(other, "camvo", 0.2, "Sad")
    assert run(api, Oracle(), refresh=True) == Tally(created=1, replaced=1, unchanged=1)
    assert api.predictions() == [(number, "camvo", 0.75) for number in (same, other, none)]
    assert [api.tasks[task]["predictions"][0]["id"] for task in (same, other)] == [unchanged, changed]


def test_refresh_removes_doubles_of_ours_only(api: LabelStudioApi) -> None:
    [only] = api.add_tasks("a")
    for version in ("camvo", "another", "camvo", "another"):
        api.predict(only, version, 0.75)
    run(api, Oracle(), refresh=True)
    assert sorted(api.predictions()) == [(only, "another", 0.75)] * 2 + [(only, "camvo", 0.75)]


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    existing=st.lists(
        st.lists(st.sampled_from([("camvo", 0.75), ("camvo", 0.1), ("x", 0.1)]), max_size=3), max_size=5
    ),
    refresh=st.booleans(),
    batch=st.integers(1, 4),
)
def test_whatever_was_there_every_task_ends_with_ours_and_others_are_untouched(
    api: LabelStudioApi, existing: list[list[tuple[str, float]]], refresh: bool, batch: int
) -> None:
    api.tasks.clear()
    for number, found in zip(api.add_tasks(*map(str, range(len(existing)))), existing, strict=True):
        for version, score in found:
            api.predict(number, version, score)
    others = [one for one in api.predictions() if one[1] == "x"]
    doubled = Counter(task for task, version, _ in api.predictions() if version == "camvo")
    run(api, Oracle(), refresh=refresh, batch=batch)
    ours = [one for one in api.predictions() if one[1] == "camvo"]
    assert [one for one in api.predictions() if one[1] == "x"] == others
    for number in api.tasks:
        mine = [score for task, _, score in ours if task == number]
        assert mine == [0.75] if refresh else len(mine) == max(doubled[number], 1)


# -- failed tasks


def test_a_task_that_fails_is_asked_about_once_in_a_run(api: LabelStudioApi) -> None:
    first, second, third = api.add_tasks(*"abc")
    oracle = Oracle()
    oracle.failing = {first: "no_vote", third: "budget_exhausted"}
    tally = run(api, oracle, batch=3)
    assert tally == Tally(created=1, failed=Counter(no_vote=1, budget_exhausted=1))
    assert oracle.asked == [[first, second, third]]
    assert "1 task failed (no_vote): mend no_vote" in tally.summary()


def test_a_blind_task_is_asked_about_once_and_is_not_left(api: LabelStudioApi) -> None:
    first, second = api.add_tasks("a", "b")
    oracle = Oracle()
    oracle.blind = {second}
    tally = run(api, oracle)
    assert (tally, tally.left) == (Tally(created=1, blind=1), 0)
    assert oracle.asked == [[first, second]]


def test_what_the_project_spent_meanwhile_is_counted(api: LabelStudioApi) -> None:
    api.add_tasks(*"abc")
    assert run(api, Oracle()).spent_usd == pytest.approx(0.003)


def test_a_task_that_failed_before_and_is_late_now_is_waited_for(api: LabelStudioApi) -> None:
    (task,) = api.add_tasks("a")
    oracle = Oracle()
    oracle.failures = {task}
    oracle.late[task] = 2
    assert run(api, oracle) == Tally(created=1)


def only_failed(api: LabelStudioApi, oracle: Oracle) -> Tally:
    return PredictionRun(
        client=api.client(),
        predictor=oracle,
        project=PROJECT,
        key=api.project_key,
        label_config="",
        model_version="camvo",
        failed=True,
        batch=2,
    )(lambda tasks: None)


def test_tasks_that_people_have_labelled_are_asked_about_again_only_if_all_are(api: LabelStudioApi) -> None:
    labelled, other = api.add_tasks("a", "b")
    for task in (labelled, other):
        api.predict(task, "camvo", score=0.4)
    api.annotate(labelled, "Sad")
    oracle = Oracle()
    run(api, oracle, refresh=True, below=0.7)
    assert oracle.asked[0] == [other]
    oracle.asked.clear()
    run(api, oracle, refresh=True)
    assert oracle.asked[0] == [labelled, other]


def test_predictions_that_are_deleted_meanwhile_end_no_run(api: LabelStudioApi) -> None:
    tasks = api.add_tasks("a", "b")
    for task in [*tasks, *tasks]:
        api.predict(task, "camvo")
    gone: list[str] = []

    def delete(method: str, path: str) -> None:
        """Delete what is about to be changed or deleted, as another run does."""
        if method in {"PATCH", "DELETE"} and not gone:
            gone.append(method)
            for each in api.tasks.values():
                each["predictions"] = []

    api.before = delete
    run(api, Oracle(), refresh=True)
    assert gone
    run(api, Oracle())
    assert api.predictions() == [(task, "camvo", 0.75) for task in tasks]


def test_failed_asks_about_the_failed_tasks_alone(api: LabelStudioApi) -> None:
    numbers = api.add_tasks(*"abcdefg")
    oracle = Oracle()
    oracle.failing = dict.fromkeys(numbers[1:6], "no_vote")
    run(api, oracle)
    oracle.failing = {numbers[4]: "no_usable_answer"}
    oracle.asked.clear()
    assert only_failed(api, oracle) == Tally(created=4, failed=Counter(no_usable_answer=1))
    assert oracle.asked == [numbers[1:3], numbers[3:5], numbers[5:6]]
    assert oracle.failures == {numbers[4]}


def test_a_failed_task_that_label_studio_no_longer_has_is_left_out(api: LabelStudioApi) -> None:
    first, second = api.add_tasks("a", "b")
    oracle = Oracle()
    oracle.failures = {first, second}
    del api.tasks[first]
    assert only_failed(api, oracle) == Tally(created=1)


# -- what Label Studio shows is what the ledger holds


class Recounted(Oracle):
    """A backend that counts its votes again after it has answered, if ``counts``; its ledger says 0.9."""

    def __init__(self, *, counts: bool) -> None:
        super().__init__()
        self.counts, self.compared = counts, list[list[int]]()

    def progress(self, *asked: Any) -> Progress:
        return replace(super().progress(*asked), countings=int(self.counts and bool(self.asked)))

    def predict(
        self,
        key: str,
        label_config: str,
        tasks: Sequence[Mapping[str, Any]],
        *,
        stored_only: bool = False,
    ) -> list[TaskAnswer]:
        if not stored_only:
            return super().predict(key, label_config, tasks)
        self.compared.append([task["id"] for task in tasks])
        return [TaskAnswer([prediction("camvo", 0.9)]) for _ in tasks]


def test_a_recount_between_answer_and_storing_is_made_good_at_the_end(api: LabelStudioApi) -> None:
    numbers = api.add_tasks(*"abcde")
    tally = run(api, Recounted(counts=True))
    assert (tally.created, tally.repaired, tally.left) == (5, 5, 0)
    assert api.predictions() == [(number, "camvo", 0.9) for number in numbers]
    assert "5 predictions in Label Studio were older than the ledger's" in tally.summary()


def test_a_difference_from_earlier_is_found_by_a_sample_and_corrected_everywhere(
    api: LabelStudioApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.commands.bulk.predicting._SAMPLE", 2)
    numbers = api.add_tasks(*"abcdef")
    for number in numbers:
        api.predict(number, "camvo", 0.2)
    assert run(api, Recounted(counts=False)) == Tally(unchanged=6, repaired=6)
    assert api.predictions() == [(number, "camvo", 0.9) for number in numbers]


def test_while_a_sample_agrees_nothing_else_is_compared(
    api: LabelStudioApi, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backend.commands.bulk.predicting._SAMPLE", 2)
    for number in api.add_tasks(*"abcdef"):
        api.predict(number, "camvo", 0.9)
    backend = Recounted(counts=False)
    assert run(api, backend) == Tally(unchanged=6)
    assert [len(compared) for compared in backend.compared] == [2]


def test_tasks_with_annotations_are_asked_about_only_if_wanted(api: LabelStudioApi) -> None:
    annotated, open_ = api.add_tasks("a", "b")
    api.annotate(annotated, "Sad")
    backend = Oracle()
    tally = run(api, backend)
    assert (backend.asked, tally) == ([[open_]], Tally(created=1, unchanged=1, annotated=1))
    assert "1 of these has annotations and was not asked about: --annotated asks" in tally.summary()
    run(api, backend, annotated=True)
    assert backend.asked == [[open_], [annotated]]


def test_a_task_that_somebody_annotates_keeps_what_it_shows(api: LabelStudioApi) -> None:
    annotated, drafted = api.add_tasks("a", "b")
    for number in (annotated, drafted):
        api.predict(number, "camvo", 0.2)
    api.annotate(annotated, "Sad")
    api.tasks[drafted]["draft_exists"] = True
    assert run(api, Recounted(counts=False)) == Tally(unchanged=2)


def test_a_prediction_that_label_studio_lost_is_stored_again(api: LabelStudioApi) -> None:
    kept, lost = api.add_tasks("a", "b")
    api.predict(kept, "camvo", 0.9)
    run(api, Recounted(counts=False))
    api.tasks[lost]["predictions"].clear()
    given = {"client": api.client(), "predictor": Recounted(counts=False), "project": PROJECT}
    again = PredictionRun(**given, key=api.project_key, label_config="", model_version="camvo")
    again.check([kept, lost])
    assert (again.tally.repaired, api.predictions()[1]) == (1, (lost, "camvo", 0.9))


class Restarting(Oracle):
    """A backend that is away for some requests, and whose jobs may wait a minute."""

    def __init__(self, away: int = 0) -> None:
        super().__init__()
        self.away = away
        self.said: list[str] = []

    def progress(
        self, key: str, first: int = 0, last: int | None = None, after: int | None = None
    ) -> Progress:
        return replace(super().progress(key, first, last, after), patience=60.0)

    def predict(self, *arguments: Any, **options: Any) -> list[TaskAnswer]:
        if self.away:
            self.away -= 1
            raise BackendAwayError("CaMVo cannot be reached: refused", where="http://camvo:9090")
        return super().predict(*arguments, **options)


def test_a_run_waits_while_the_backend_restarts(api: LabelStudioApi, waited: list[float]) -> None:
    api.add_tasks(*"abcde")
    awaited: list[str] = []
    tally = Tally()

    def note(seconds: float) -> None:
        awaited.append(tally.awaited)
        waited.append(seconds)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(predicting.time, "sleep", note)
        assert run(api, Restarting(away=3), waits=True, tally=tally) == Tally(created=5)
    assert len(awaited) == 3
    assert awaited[0].startswith("waiting for http://camvo:9090 since ")
    assert awaited[0].endswith(", 0.017 hours at most: CaMVo cannot be reached: refused")
    assert tally.awaited == ""


@pytest.mark.parametrize("waits", [True, False])
def test_after_its_patience_or_without_any_a_run_ends(
    api: LabelStudioApi, waited: list[float], waits: bool
) -> None:
    api.add_tasks(*"abc")
    before, oracle = sum(waited), Restarting(away=10**6)
    with pytest.raises(BackendAwayError):
        run(api, oracle, waits=waits)
    assert sum(waited) - before == (60.0 if waits else 0.0)


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_run_waits_while_label_studio_restarts(
    api: LabelStudioApi, status: int, waited: list[float]
) -> None:
    before = sum(waited)
    numbers = api.add_tasks(*"abcde")
    failed: Counter[tuple[str, str]] = Counter()

    def fail_once(method: str, path: str) -> None:
        api.answers.pop((method, path), None)
        failed[method, path] += 1
        if failed[method, path] in {2, 3, 4}:  # the client itself repeats a request that only reads
            api.answers[method, path] = (status, {})

    api.before = fail_once
    assert run(api, Restarting(), waits=True).created == 5
    api.before = lambda method, path: None
    assert sum(waited) > before
    assert api.predictions() == [(number, "camvo", 0.75) for number in numbers]


def test_predictions_whose_acknowledgement_was_lost_are_not_stored_twice(api: LabelStudioApi) -> None:
    numbers, client = api.add_tasks(*"abc"), api.client()
    store, lost = client.import_predictions, [1]

    def store_and_go(project: int, predictions: Sequence[Mapping[str, Any]]) -> int:
        stored = store(project, predictions)
        if lost:
            lost.pop()
            raise LabelStudioUnreachableError("Label Studio does not answer in time", where=api.url)
        return stored

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(client, "import_predictions", store_and_go)
        run(api, Restarting(), client=client, waits=True)
    assert api.predictions() == [(number, "camvo", 0.75) for number in numbers]
