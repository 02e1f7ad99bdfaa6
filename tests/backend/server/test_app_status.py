"""GET /status of the real app, compared with counts in plain Python over the ledger."""

from __future__ import annotations

import html.parser
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import (
    SENTIMENT_AND_TOPIC,
    Annotation,
    Project,
    annotated,
    annotations_deleted,
    predict,
    project_updated,
    setup,
    start_training,
    task,
    tasks_deleted,
    updated,
)
from scipy.stats import binomtest
from sqlalchemy import update as change
from whole_backend import CALL, Backend, says, votes

from backend.annotation.job import is_audit
from backend.errors import cure_of
from backend.ledger.database import tables
from backend.ledger.rounds import Round
from backend.telemetry import metrics

BROWSER = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"}
SPLIT = votes(red="Glad", green="Glad", blue="Sad")
TASKS = range(1, 31)
AUDIT = 0.3
DIARY = Project()
TRAVEL = Project(number=8, label_config=SENTIMENT_AND_TOPIC, model_version="v1 <i>")


def truth(number: int) -> str:
    return ("Glad", "Sad", "Calm")[number % 3]


def opinions(body: dict[str, Any]) -> Any:
    """Red is mostly right, green always says Glad, blue sometimes fails or gives an invalid label."""
    number = int(re.findall(r"Entry (\d+) of", str(body["messages"]))[-1])
    if body["model"] == "blue" and number % 5 == 0:
        return votes(blue=None)(body)
    if body["model"] == "blue" and number % 7 == 0:
        return says(mood="Cross")
    mood = {"red": truth(number), "green": "Glad", "blue": truth(number + number % 2)}[body["model"]]
    return says(mood=mood, topic="Food")


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    """Two projects after thirty tasks, with annotations, updates and deletions."""
    folder = tmp_path_factory.mktemp("status")
    budget = {"project_usd": 1.0, "day_usd": 0.5}
    with Backend(folder, opinions, audit=AUDIT, budget=budget) as backend:
        for project in (TRAVEL, DIARY):
            backend.post("/setup", setup(project))
            backend.predict(*(task(number) for number in TASKS), project=project)
        for number in TASKS[:24]:
            backend.hook(annotated(Annotation(number=number, task=number, mood=truth(number))))
        backend.hook(updated(Annotation(number=3, task=3, mood="Calm")))
        backend.hook(annotated(Annotation(number=99, task=4, mood="Sad", skipped=True)))
        backend.hook(annotations_deleted(5, 6))
        backend.hook(tasks_deleted(7, 8))
        backend.hook(project_updated(TRAVEL))
        yield backend


def report(backend: Backend, **arguments: Any) -> dict[str, Any]:
    response = backend.client.get("/status", **arguments)
    assert response.status_code == 200
    body: dict[str, Any] = response.get_json()
    return body


def project_of(backend: Backend, project: Project = DIARY) -> dict[str, Any]:
    (named,) = [listed for listed in report(backend)["projects"] if listed["key"] == project.key]
    return dict(named)


def said(backend: Backend) -> dict[int, str]:
    """Task → the humans' mood, read from the annotations."""
    labels = {}
    for number in TASKS:
        annotations = [
            stored for stored in backend.annotations(number) if stored.teaches and "mood" in stored.labels
        ]
        if annotations:
            labels[number] = annotations[0].labels["mood"]
    return labels


def rounds_of(backend: Backend) -> list[Round]:
    return [round_ for number in TASKS for round_ in backend.rounds(number)]


# -- the numbers


def test_rounds_and_human_labels_are_counted(backend: Backend) -> None:
    project = project_of(backend)
    assert project["rounds"] == len(rounds_of(backend)) == 28
    assert project["humans"]["tasks"] == len(said(backend)) == 20
    assert project["humans"]["annotations"] == 21


def test_a_model_is_compared_with_the_vote_and_with_the_humans(backend: Backend) -> None:
    human = said(backend)
    counted: dict[str, Counter[str]] = {arm: Counter() for arm in ("red", "green", "blue")}
    for round_ in rounds_of(backend):
        votes_cast = {arm: vote for arm, vote in round_.votes.items() if vote is not None}
        label = human.get(round_.key.task)
        group = "audit" if is_audit(DIARY.key, round_.key.task, AUDIT) else "reviewed"
        for arm in round_.votes:
            counted[arm]["asked"] += 1
        for arm, vote in votes_cast.items():
            counted[arm]["voted"] += 1
            if len(votes_cast) > 1:
                counted[arm] += Counter(compared=1, agreed=int(vote == round_.label))
            if label is not None:
                counted[arm] += Counter({group: 1, f"{group} right": int(vote == label)})
    for model in project_of(backend)["models"]:
        mine = counted[model["name"]]
        assert (model["asked"], model["voted"]) == (mine["asked"], mine["voted"])
        assert model["agreement"]["count"] == mine["compared"]
        assert model["agreement"]["right"] == mine["agreed"]
        for group in ("audit", "reviewed"):
            count, right = mine[group], mine[f"{group} right"]
            low, high = binomtest(right, count).proportion_ci(method="exact")
            assert model[group]["count"] == count > 0
            assert model[group]["share"] == pytest.approx(right / count)
            assert (model[group]["low"], model[group]["high"]) == pytest.approx((low, high))


def test_failures_are_named_and_dollars_counted(backend: Backend) -> None:
    models = {model["name"]: model for model in project_of(backend, TRAVEL)["models"]}
    assert {name: model["failures"] for name, model in models.items()} == {
        "red": {},
        "green": {},
        "blue": {"model_rejected": 6},
    }
    assert {name: model["calls"] for name, model in models.items()} == dict.fromkeys(models, 30)
    assert models["red"]["cost_usd"] == pytest.approx(30 * CALL)
    assert models["blue"]["cost_usd"] == pytest.approx(24 * CALL)
    assert 0.0 < models["red"]["median_seconds"] <= models["red"]["p95_seconds"]


def test_an_answer_that_was_there_already_is_a_vote_and_no_call(backend: Backend) -> None:
    red = project_of(backend)["models"][2]
    assert (red["name"], red["asked"]) == ("red", 28)
    assert red["calls"] == 30  # calls of deleted tasks count too


def test_the_cost_stands_beside_that_of_every_model(backend: Backend) -> None:
    cost, rounds = project_of(backend)["cost"], rounds_of(backend)
    paid, full = sum(round_.cost_usd for round_ in rounds), sum(round_.full_cost_usd for round_ in rounds)
    assert (cost["rounds_usd"], cost["every_model_usd"]) == pytest.approx((paid, full))
    assert cost["saved"] == pytest.approx(1 - paid / full)


def test_the_budget_left_is_the_limit_less_spent_and_reserved(backend: Backend) -> None:
    status = report(backend)
    spent = {project["key"]: project["cost"]["budget"]["spent_usd"] for project in status["projects"]}
    assert status["today"]["spent_usd"] == pytest.approx(sum(spent.values()))
    assert status["today"]["left_usd"] == pytest.approx(0.5 - sum(spent.values()))
    assert project_of(backend)["cost"]["budget"]["left_usd"] == pytest.approx(1.0 - spent[DIARY.key])


@pytest.mark.parametrize("group", ["audit", "reviewed"])
def test_the_scores_are_compared_with_the_human_labels_bin_by_bin(backend: Backend, group: str) -> None:
    human = said(backend)
    mine = [
        (round_.score, float(round_.label == human[round_.key.task]))
        for round_ in rounds_of(backend)
        if round_.key.task in human and is_audit(DIARY.key, round_.key.task, AUDIT) == (group == "audit")
    ]
    scores = project_of(backend)[group]
    gaps = 0.0
    for position, bin_ in enumerate(scores["bins"]):
        inside = [pair for pair in mine if min(int(pair[0] * 10), 9) == position]
        assert bin_["count"] == len(inside)
        gaps += abs(sum(score for score, _ in inside) - sum(right for _, right in inside))
    assert scores["labels"]["count"] == len(mine) > 0
    assert scores["labels"]["right"] == sum(right for _, right in mine)
    assert scores["score"] == pytest.approx(sum(score for score, _ in mine) / len(mine))
    assert scores["ece"] == pytest.approx(gaps / len(mine))


def test_labels_that_teach_nothing_are_checked_against_all_the_same(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT, human_rewards=False) as backend:
        backend.predict(task(1))
        backend.hook(annotated(Annotation(number=1, task=1, mood="Sad")))
        before = project_of(backend)["reviewed"]["labels"]
        backend.hook(annotations_deleted(1))
        after = project_of(backend)["reviewed"]["labels"]
        assert len(backend.events()) == 1
    assert (before["count"], before["right"], after["count"]) == (1, 0.0, 0)


def test_an_annotation_that_comes_before_its_round_is_counted(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        backend.hook(annotated(Annotation(number=1, task=1, mood="Sad")))
        backend.predict(task(1))
        models = {model["name"]: model["reviewed"]["right"] for model in project_of(backend)["models"]}
    assert models == {"red": 0.0, "green": 0.0, "blue": 1.0}


def test_a_change_of_mind_counts_once(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        backend.predict(task(1))
        annotation = Annotation(number=1, task=1, mood="Calm")
        for mood in ("Sad", "Glad"):
            annotation = annotation.again(mood=mood)
            backend.hook(updated(annotation))
        models = {model["name"]: model["reviewed"] for model in project_of(backend)["models"]}
    assert {name: (model["count"], model["right"]) for name, model in models.items()} == {
        "red": (1, 1.0),
        "green": (1, 1.0),
        "blue": (1, 0.0),
    }


def test_each_question_and_epoch_is_told_apart(tmp_path: Path) -> None:
    with Backend(tmp_path, opinions) as backend:
        backend.predict(task(1), task(2))
        more = SENTIMENT_AND_TOPIC.replace('name="mood"', 'name="mood" camvo_instructions="Be brave."', 1)
        backend.predict(task(3), project=DIARY.with_config(more))
        questions = project_of(backend)["questions"]
    assert [(question["control"], question["current"], question["rounds"]) for question in questions] == [
        ("mood", True, 1),
        ("mood", False, 2),
        ("topic", True, 1),
    ]


def test_what_votes_are_worth_is_that_of_the_newest_round(tmp_path: Path) -> None:
    with Backend(tmp_path, opinions, policy={"name": "joint"}, student=False) as backend:
        backend.predict(task(1), task(2))
        [question] = project_of(backend)["questions"]
        joint = backend.rounds(2)[0].plan["joint"]
    assert question["votes"] == {
        "everyone": joint["everyone"],
        "models": 3,
        "effective_votes": joint["effective_votes"],
        "families": [],
        "contradicted": False,
        "only_corrections": False,
        "accuracy": joint["accuracy"],
        "kinds": joint["kinds"],
        "human": False,
        "people_say": {},
        "rival_reading": [],
        "constant": [],
        "earlier_projects": 0,
    }


def test_the_student_is_none_of_the_models_whose_votes_are_counted_together(tmp_path: Path) -> None:
    with Backend(tmp_path, opinions, policy={"name": "joint"}) as backend:
        backend.predict(task(1))
        of_votes = project_of(backend)["questions"][0]["votes"]
    assert (of_votes["models"], of_votes["effective_votes"]) == (3, 3.0)
    assert "student" in of_votes["accuracy"]


def test_a_policy_without_a_model_of_votes_says_nothing_about_their_worth(tmp_path: Path) -> None:
    with Backend(tmp_path, opinions, policy={"name": "majority"}) as backend:
        backend.predict(task(1))
        assert project_of(backend)["questions"][0]["votes"] is None


# -- alerts


def codes(reported: dict[str, Any]) -> set[str]:
    return {alert["code"] for alert in reported["alerts"]}


def test_another_model_version_in_the_project_is_an_alert(backend: Backend) -> None:
    travel, diary = project_of(backend, TRAVEL), project_of(backend)
    assert travel["model_version"] == {"shown": "v1 <i>", "matches": False}
    assert "model_version_differs" in codes(travel)
    assert diary["model_version"] == {"shown": "camvo", "matches": True}
    assert "model_version_differs" not in codes(diary)


def test_a_project_without_any_annotation_is_an_alert(backend: Backend, tmp_path: Path) -> None:
    assert "no_human_answer" not in codes(project_of(backend))
    with Backend(tmp_path, SPLIT) as fresh:
        other = Project(number=123)
        fresh.predict(task(1), project=other)
        [alert] = project_of(fresh, other)["alerts"]
        assert alert["code"] == "project_not_connected"
        assert "if it was deleted there, camvo ledger erase --project 123" in alert["fix"]
        fresh.post("/setup", setup(other))
        assert codes(project_of(fresh, other)) == {"no_human_answer"}


def test_a_budget_that_is_nearly_or_fully_spent_is_an_alert(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT, budget={"project_usd": 1.0, "day_usd": 1.0}) as backend:
        backend.predict(task(1))
        assert "budget_nearly_spent" not in codes(project_of(backend))
    budget = {"project_usd": 3.1 * CALL, "day_usd": 2 * CALL}
    with Backend(tmp_path, SPLIT, budget=budget) as backend:
        status = report(backend)
        assert "budget_spent" in codes(status)
        assert "budget_nearly_spent" in codes(project_of(backend))


def test_a_model_that_hardly_ever_gives_a_valid_vote_is_an_alert(tmp_path: Path) -> None:
    script = votes(red="Glad", green="no label of the config", blue="Glad")
    with Backend(tmp_path, script) as backend:
        backend.predict(*(task(number) for number in range(1, 21)))
        [alert] = [listed for listed in project_of(backend)["alerts"] if listed["code"] == "model_bad_answer"]
    assert alert["message"].startswith("green gave no vote in 20 of the latest 20 tasks")


def found_related(backend: Backend, **more: Any) -> None:
    """Let the newest round's plan say that red and blue are a family."""
    plan = dict(backend.rounds(1)[0].plan)
    plan["joint"] |= {"families": [["blue", "red"]], "effective_votes": 2.06, **more}
    with backend.ledger.write() as connection:
        connection.execute(change(tables.rounds).values(plan=plan))


def test_models_that_agree_far_more_with_each_other_than_with_the_rest_are_an_alert(tmp_path: Path) -> None:
    with Backend(tmp_path, opinions, policy={"name": "joint"}) as backend:
        backend.predict(task(1))
        assert "related_models" not in codes(project_of(backend))
        found_related(backend)
        [alert] = [listed for listed in project_of(backend)["alerts"] if listed["code"] == "related_models"]
    assert alert["message"] == (
        "mood: blue, red agree with each other far more than with the rest. "
        "Together the 3 models count as 2.1 independent ones"
    )
    assert alert["fix"].startswith("label 20 random tasks by hand")


def test_labels_that_people_say_otherwise_are_a_note(tmp_path: Path) -> None:
    with Backend(tmp_path, opinions, policy={"name": "joint"}) as backend:
        backend.predict(task(1))
        assert "people_say_otherwise" not in codes(project_of(backend))
        found_related(backend, conventions={"people_say": {"Glad": "Sad"}, "exponent": 1.0, "count": 30})
        [alert] = [
            listed for listed in project_of(backend)["alerts"] if listed["code"] == "people_say_otherwise"
        ]
    assert alert["message"].startswith('mood: people mostly say "Sad" where the models say "Glad".')
    assert alert["level"] == "note"


def test_human_labels_that_contradict_the_model_of_votes_are_an_alert(tmp_path: Path) -> None:
    with Backend(tmp_path, opinions, policy={"name": "joint"}) as backend:
        backend.predict(task(1))
        assert "votes_contradicted" not in codes(project_of(backend))
        found_related(backend, human={"count": 30}, contradicted=True)
        listed = codes(project_of(backend))
    assert "votes_contradicted" in listed
    assert "related_models" not in listed


def test_human_labels_that_nearly_always_contradict_predictions_are_an_alert(tmp_path: Path) -> None:
    with Backend(tmp_path, opinions, policy={"name": "joint"}) as backend:
        backend.predict(task(1))
        assert "only_corrections" not in codes(project_of(backend))
        found_related(backend, only_corrections=True)
        [alert] = [listed for listed in project_of(backend)["alerts"] if listed["code"] == "only_corrections"]
    assert alert["message"].startswith("mood: nearly every human label contradicts the prediction")
    assert alert["fix"].startswith("submit correct predictions too")


def test_models_that_read_the_tasks_otherwise_are_an_alert_that_names_the_labels_that_decide(
    tmp_path: Path,
) -> None:
    with Backend(tmp_path, opinions, policy={"name": "joint"}) as backend:
        backend.predict(task(1))
        assert "rival_readings" not in codes(project_of(backend))
        found_related(backend, rival_reading=["blue", "red"], everyone=100.0)
        [alert] = [listed for listed in project_of(backend)["alerts"] if listed["code"] == "rival_readings"]
    assert alert["message"].startswith("mood: blue, red read the tasks otherwise than the other models")
    assert alert["fix"].startswith("label the 20 tasks with the lowest scores by hand")
    assert alert["level"] == "alarm"


def test_a_rival_reading_in_few_everyone_rounds_is_a_note(tmp_path: Path) -> None:
    with Backend(tmp_path, opinions, policy={"name": "joint"}) as backend:
        backend.predict(task(1))
        found_related(backend, rival_reading=["blue", "red"], everyone=99.0)
        [alert] = [listed for listed in project_of(backend)["alerts"] if listed["code"] == "rival_readings"]
    assert alert["message"] == (
        "mood: blue, red may read the tasks otherwise than the other models. "
        "99 tasks that asked every model do not show yet who is right, so all models count alike"
    )
    assert alert["level"] == "note"


def test_a_model_that_says_the_same_of_every_task_is_an_alert(tmp_path: Path) -> None:
    with Backend(tmp_path, opinions, policy={"name": "joint"}) as backend:
        backend.predict(task(1))
        assert "constant_votes" not in codes(project_of(backend))
        found_related(backend, constant=["blue"])
        [alert] = [listed for listed in project_of(backend)["alerts"] if listed["code"] == "constant_votes"]
    assert alert["message"].startswith("mood: blue gives nearly every task the same label")
    assert (alert["level"], alert["subject"]) == ("alarm", "blue")


@pytest.mark.parametrize("models", [2, 3])
def test_of_two_models_nothing_but_human_labels_shows_which_one_is_right(tmp_path: Path, models: int) -> None:
    names = ("red", "green", "blue")[:models]
    with Backend(tmp_path, votes(**dict.fromkeys(names, "Glad")), names, policy={"name": "joint"}) as backend:
        backend.predict(task(1))
        assert ("two_models" in codes(project_of(backend))) == (models == 2)
        found_related(backend, human={"count": 30})
        assert "two_models" not in codes(project_of(backend))


def test_nothing_advises_to_drop_related_models_which_may_be_the_better_ones(tmp_path: Path) -> None:
    with Backend(tmp_path, opinions, policy={"name": "joint"}) as backend:
        backend.predict(task(1))
        found_related(backend)
        project = project_of(backend)
    said = [alert["fix"] for alert in project["alerts"] if alert["code"] == "related_models"] + [
        step["text"] for step in project["next_steps"] if step["code"] == "related_models"
    ]
    assert said
    assert not any(word in text for text in said for word in ("keep one", "replace", "drop"))


def test_related_models_are_no_alert_once_human_labels_say_what_they_are_worth(tmp_path: Path) -> None:
    with Backend(tmp_path, opinions, policy={"name": "joint"}) as backend:
        backend.predict(task(1))
        found_related(backend, human={"count": 30})
        assert "related_models" not in codes(project_of(backend))


def test_models_that_fail_alike_now_are_one_alert_under_their_code_and_with_its_cure(tmp_path: Path) -> None:
    script = votes(red="Glad", green="Glad", blue="Glad")
    with Backend(tmp_path, script) as backend:
        backend.predict(*(task(number) for number in range(1, 30)))
        backend.server.script = votes(red="Glad", green=None, blue=None)
        backend.predict(*(task(number) for number in range(30, 50)))
        failing = [listed for listed in project_of(backend)["alerts"] if listed["code"] == "model_rejected"]
    cure = cure_of("model_rejected")
    assert [(alert["subject"], alert["fix"]) for alert in failing] == [("blue, green", cure)]


def test_tasks_without_a_prediction_are_counted_by_the_reason(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        before = report(backend)["server"]["tasks"]
        backend.predict(task(1), task(2, " "), "no task")
        after = report(backend)["server"]["tasks"]
    gained = {outcome: count - before.get(outcome, 0) for outcome, count in after.items()}
    assert {outcome: count for outcome, count in gained.items() if count} == {
        "predicted": 1,
        "text_empty": 1,
        "task_unreadable": 1,
    }


def test_controls_without_predictions_are_listed_with_the_reason(tmp_path: Path) -> None:
    config = DIARY.label_config.replace("</View>", '<Video name="clip" value="$clip"/></View>').replace(
        "</View>", '<VideoRectangle name="box" toName="clip"/></View>'
    )
    with Backend(tmp_path, SPLIT) as backend:
        backend.post("/setup", setup(DIARY.with_config(config)))
        (skipped,) = project_of(backend)["skipped"]
    assert (skipped["control"], skipped["tag"]) == ("box", "VideoRectangle")
    assert skipped["reason"]


def test_what_models_are_shown_is_listed_in_the_order_of_the_page(tmp_path: Path) -> None:
    hidden = '<View style="display:none"><Text name="gold" value="$gold"/></View></View>'
    config = DIARY.label_config.replace("<View>", '<View><Header value="Read &lt;slowly&gt;."/>', 1)
    with Backend(tmp_path, SPLIT) as backend:
        backend.post("/setup", setup(DIARY.with_config(config.replace("</View>", hidden))))
        parts = project_of(backend)["page"]
        html = backend.client.get("/status?project=7", headers={"Accept": "text/html"}).text
    assert [(part["kind"], part["text"], part["sent"]) for part in parts] == [
        ("words", "Read <slowly>.", "always"),
        ("field", "text", "always"),
        ("question", "mood", "always"),
        ("field", "gold", ""),
    ]
    assert parts[-1]["unsent"] == "annotators never see it: a style hides it"
    assert "Read &lt;slowly&gt;." in html
    assert "never: annotators never see it: a style hides it" in html


def test_extra_params_that_do_not_fit_any_more_are_an_alert(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        backend.post("/setup", setup(extra_params={"models": ["red", "green", "blue"]}))
    with Backend(tmp_path, SPLIT, models=("red", "green", "violet")) as backend:
        project = project_of(backend)
    assert "model_unknown" in codes(project)


def test_a_label_config_that_cannot_be_read_is_an_alert(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        backend.post("/setup", setup(DIARY.with_config("<View>")))
        assert "label_config_invalid" in codes(project_of(backend))


def test_refused_webhooks_are_counted_and_dated(tmp_path: Path) -> None:
    secret = {"webhook_secret": "hush"}
    with Backend(tmp_path, SPLIT, environment=secret) as backend:
        before = report(backend)["server"]["webhooks_refused"]
        refused = annotated(Annotation(number=1, task=1, mood="Sad"))
        assert backend.post("/webhook", refused).status_code == 401
        status = report(backend)
    assert status["server"]["webhooks_refused"] == before + 1
    assert status["server"]["webhook_refused_at"] == pytest.approx(status["generated_at"], abs=60.0)
    assert "webhooks_refused" in codes(status)


@pytest.mark.parametrize(
    ("environment", "door"),
    [
        ({}, "open"),
        ({"webhook_secret": "hush"}, "guarded"),
        ({"basic_auth_user": "ada", "basic_auth_pass": "pw"}, "closed"),
    ],
)
def test_who_can_send_a_webhook_is_said(tmp_path: Path, environment: dict[str, str], door: str) -> None:
    with Backend(tmp_path, SPLIT, environment=environment) as backend:
        assert report(backend, auth=("ada", "pw"))["server"]["webhooks"] == door


def test_the_last_webhook_of_a_project_is_dated_and_training_is_none(tmp_path: Path) -> None:
    quiet = Project(number=77)
    with Backend(tmp_path, SPLIT) as backend:
        backend.predict(task(1), project=quiet)
        backend.hook(start_training(quiet))
        assert project_of(backend, quiet)["webhook_at"] is None
        backend.hook(project_updated(quiet))
        status = report(backend)
        (project,) = status["projects"]
    assert project["webhook_at"] == pytest.approx(status["generated_at"], abs=60.0)
    assert project["webhook_at"] <= status["server"]["webhook_at"]


def test_tasks_under_way_are_counted_by_project(tmp_path: Path) -> None:
    gauge = metrics.tasks_under_way.labels(project=DIARY.key)
    with Backend(tmp_path, SPLIT) as backend:
        backend.predict(task(1))
        idle = project_of(backend)["tasks_under_way"]
        with gauge.track_inprogress():
            assert project_of(backend)["tasks_under_way"] == idle + 1


# -- the form


class Page(html.parser.HTMLParser):
    """Tags, attributes and visible text of a page; every element must be closed."""

    VOID = ("meta", "link", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: Counter[str] = Counter()
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs
        if tag not in self.VOID:
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags[tag] += 1
        self.attributes += attrs

    def handle_data(self, data: str) -> None:
        if "style" not in self._open:
            self.text += data


def page(backend: Backend, query: str = "?project=7") -> Page:
    response = backend.client.get(f"/status{query}", headers=BROWSER)
    assert (response.status_code, response.mimetype) == (200, "text/html")
    return Page(response.text)


@pytest.mark.parametrize(
    ("query", "accept", "type_"),
    [
        ("", BROWSER["Accept"], "text/html"),
        ("", "*/*", "application/json"),
        ("", "application/json", "application/json"),
        ("", None, "application/json"),
        ("?format=json", BROWSER["Accept"], "application/json"),
        ("?format=html", "*/*", "text/html"),
    ],
)
def test_a_browser_gets_a_page_and_a_program_json(
    backend: Backend, query: str, accept: str | None, type_: str
) -> None:
    headers = {} if accept is None else {"Accept": accept}
    assert backend.client.get(f"/status{query}", headers=headers).mimetype == type_


def test_one_project_can_be_asked_for_by_its_number_or_key(backend: Backend) -> None:
    for name in (str(DIARY.number), DIARY.key):
        status = report(backend, query_string={"project": name})
        assert [project["key"] for project in status["projects"]] == [DIARY.key]


def test_the_page_loads_nothing_and_runs_nothing(backend: Backend) -> None:
    shown = page(backend)
    assert not shown.tags.keys() & {"script", "img", "iframe", "form", "object"}
    links = [value for name, value in shown.attributes if name in ("href", "src")]
    to_label_studio = "http://localhost:8080/projects/7/data"
    assert all(str(link).startswith(("#", "?", "data:,", to_label_studio)) for link in links)
    assert not any(name.startswith("on") for name, _ in shown.attributes)
    policy = backend.client.get("/status", headers=BROWSER).headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'")


def test_text_from_label_studio_is_escaped(backend: Backend) -> None:
    shown = page(backend, f"?project={TRAVEL.number}")
    assert shown.tags["i"] == 0
    assert "v1 <i>" in shown.text


def test_every_table_header_has_a_scope(backend: Backend) -> None:
    text = backend.client.get("/status?project=7", headers=BROWSER).text
    assert re.findall(r"<th(?![^>]*scope)[ >]", text) == []


def test_the_numbers_of_the_json_are_on_the_page(backend: Backend) -> None:
    project, text = project_of(backend), page(backend).text
    for model in project["models"]:
        assert model["name"] in text
        assert f"{100 * model['agreement']['share']:.1f}%" in text
        assert f"{100 * model['audit']['low']:.1f}–{100 * model['audit']['high']:.1f}%" in text
    assert f"expected calibration error {100 * project['reviewed']['ece']:.1f}%" in text


def test_a_server_without_projects_says_how_to_connect_one(tmp_path: Path) -> None:
    with Backend(tmp_path, SPLIT) as backend:
        assert "No project has come up yet" in page(backend, "").text


def test_no_text_of_a_task_and_no_secret_is_shown(tmp_path: Path) -> None:
    guard = {"basic_auth_user": "ada", "basic_auth_pass": "pässword", "webhook_secret": "hush-hush"}
    with Backend(tmp_path, SPLIT, environment=guard, entries={"api_key_env": "CAMVO_TEST_KEY"}) as backend:
        right: dict[str, Any] = {"auth": ("ada", "pässword")}
        backend.post("/predict", predict([task(1, "a marmalade sandwich")]), **right)
        backend.post("/webhook", annotated(Annotation(number=1, task=1, mood="Sad")), **right)
        for query, headers in (("", {}), ("", BROWSER), ("?project=7", BROWSER)):
            text = backend.client.get(f"/status{query}", headers=headers, **right).text
            assert "red" in text
            for private in ("marmalade", "pässword", "hush-hush", "the-project-token"):
                assert private not in text


def test_a_browser_without_credentials_is_asked_for_them(tmp_path: Path) -> None:
    guard = {"basic_auth_user": "ada", "basic_auth_pass": "pw"}
    with Backend(tmp_path, SPLIT, environment=guard) as backend:
        response = backend.client.get("/status", headers=BROWSER)
    assert response.status_code == 401
    assert response.headers["WWW-Authenticate"].startswith("Basic realm=")


@pytest.mark.parametrize(("skew", "words"), [(6.0, "6 s ahead of"), (-7.0, "7 s behind"), (4.0, None)])
def test_a_clock_that_differs_from_the_database_is_reported(
    backend: Backend, skew: float, words: str | None
) -> None:
    metrics.clock_skew.set(skew)
    try:
        status = report(backend)
    finally:
        metrics.clock_skew.set(0.0)
    assert status["server"]["clock_skew"] == skew
    messages = [alert["message"] for alert in status["alerts"] if alert["code"] == "clock_skew"]
    assert messages == ([] if words is None else [f"The clock of this host is {words} the database's"])


def test_paid_answers_that_wait_for_the_database_are_reported(backend: Backend) -> None:
    metrics.unsettled_answers.inc(3)
    try:
        status = report(backend)
    finally:
        metrics.unsettled_answers.dec(3)
    assert status["server"]["unsettled"] == 3
    assert "answers_unsettled" in codes(status)
