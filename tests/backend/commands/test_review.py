"""``camvo review``: the order, what is left out, and that no text is printed."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
import yaml
from command_line import called
from label_studio_api import KEY, PROJECT, LabelStudioApi
from label_studio_requests import Annotation, Project, annotated, setup, task
from whole_backend import Backend, prompt_of, says

from backend.label_studio.client import BLIND_TAB, NEXT_TAB
from backend.testing import Reply
from camvo.scores.guarantee import queue_place

SECRET = "the heron by the river"


def moody(body: dict[str, Any]) -> Reply:
    """Everybody is glad, but one model is sad about rain."""
    rain = "rain" in prompt_of(body) and body["model"] == "blue"
    return says(mood="Sad" if rain else "Glad")


TEXTS = {
    1: "A sunny day.",
    2: f"Nothing but rain and {SECRET}.",
    3: "We had cake in the garden.",
    4: "The rain took the tent away.",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A ledger of four tasks, one of them annotated; and another with tasks that are kept blind."""
    folder = tmp_path_factory.mktemp("review")
    with Backend(folder, moody) as backend:
        backend.post("/setup", setup(Project()))
        backend.predict(*(task(number, text) for number, text in TEXTS.items()))
        backend.hook(annotated(Annotation(number=1, task=4, mood="Sad")))
        backend.post("/setup", setup(Project(number=PROJECT)))
    return folder


def review(folder: Path, *arguments: str, project: int = 7, **environment: str) -> Any:
    database = f"sqlite:///{folder / 'ledger.sqlite'}"
    given = ("review", "--project", str(project), *arguments)
    return called(*given, cwd=folder, CAMVO_DATABASE_URL=database, COLUMNS="80", **environment)


@pytest.fixture(scope="module")
def found(folder: Path) -> Any:
    return json.loads(review(folder, "--json").stdout)


def test_the_disputed_task_comes_first_and_the_annotated_one_not_at_all(found: Any) -> None:
    assert found["tasks"][0]["task"] == 2
    assert sorted(one["task"] for one in found["tasks"]) == [1, 2, 3]
    assert found["open"] == 3


def test_each_task_says_why(found: Any) -> None:
    [answer] = found["tasks"][0]["answers"]
    assert (answer["control"], answer["label"]) == ("mood", "Glad")
    assert (answer["asked"], answer["voted"], answer["behind"]) == (3, 3, 2)
    assert found["tasks"][0]["why"].startswith("2 of 3 agree")


def test_a_gain_is_what_may_be_wrong_and_what_is_learnt(found: Any) -> None:
    for one in found["tasks"]:
        assert one["gain"] == pytest.approx(one["wrong"] + one["lesson"])
        assert one["wrong"] == pytest.approx(1.0 - one["answers"][0]["score"])


def test_no_text_is_printed(folder: Path) -> None:
    shown = review(folder).stdout
    assert "Glad" in shown
    assert SECRET not in shown + review(folder, "--json").stdout


def test_no_more_than_the_limit_are_shown(folder: Path) -> None:
    assert len(json.loads(review(folder, "--json", "--limit", "1").stdout)["tasks"]) == 1


def test_a_project_without_predictions_has_nothing_to_suggest(folder: Path) -> None:
    done = review(folder, project=PROJECT)
    assert (done.returncode, done.stdout) == (0, "0 tasks have a prediction and no annotation.\n")


def test_a_project_that_the_ledger_does_not_know_is_one_line(folder: Path) -> None:
    done = review(folder, project=999)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("camvo: --project: ")


def test_tasks_kept_blind_are_listed_apart_in_the_order_of_their_queue(tmp_path: Path) -> None:
    with Backend(tmp_path, moody, audit=0.999) as backend:
        backend.post("/setup", setup(Project()))
        backend.predict(*(task(number, text) for number, text in TEXTS.items()))
        in_order = sorted(TEXTS, key=lambda number: queue_place(Project().key, number))
        backend.hook(annotated(Annotation(number=1, task=in_order[1], mood="Glad")))
    found = json.loads(review(tmp_path, "--json").stdout)
    left = [in_order[0], *in_order[2:]]
    assert (found["tasks"], found["open"], found["blind"], found["blind_next"]) == ([], 0, 3, left)
    assert f"3 more are blind for the audit. Label them in this order: {left[0]}," in review(tmp_path).stdout


def test_free_text_is_no_label_to_show(tmp_path: Path) -> None:
    area = '<TextArea name="mood" toName="note" camvo_instructions="Say it in a few words."/>'
    config = f'<View><Text name="note" value="$text"/>{area}</View>'
    project = Project(label_config=config)
    with Backend(tmp_path, lambda body: says(mood=SECRET)) as backend:
        backend.post("/setup", setup(project))
        backend.predict(task(1, f"Look at {SECRET}.", project), project=project)
        assert [one.label for one in backend.rounds(1, project)] == [SECRET]
    done = review(tmp_path, "--json")
    assert json.loads(done.stdout)["tasks"][0]["answers"][0]["label"] is None
    assert SECRET not in done.stdout


def test_blind_tasks_get_a_tab_with_the_front_of_their_queue(tmp_path: Path) -> None:
    with LabelStudioApi() as api, Backend(tmp_path, moody, audit=0.999) as backend:
        project = Project(number=PROJECT, created=datetime.fromisoformat(api.project["created_at"]))
        backend.post("/setup", setup(project))
        backend.predict(*(task(number, text, project) for number, text in TEXTS.items()), project=project)
        given = ("--tab", "--limit", "2", "--label-studio", api.url)
        done = review(tmp_path, *given, project=PROJECT, LABEL_STUDIO_API_KEY=KEY)
        [tab] = [tab for tab in api.tabs.values() if tab["data"]["title"] == BLIND_TAB]
    front = sorted(TEXTS, key=lambda number: queue_place(project.key, number))[:2]
    assert [item["value"] for item in tab["data"]["filters"]["items"]] == front
    assert f"/projects/{PROJECT}/data?tab={tab['id']}\n" in done.stdout


def test_the_tab_holds_what_is_suggested(folder: Path, tmp_path: Path) -> None:
    with LabelStudioApi() as api, Backend(tmp_path, moody) as backend:
        project = Project(number=PROJECT, created=datetime.fromisoformat(api.project["created_at"]))
        backend.post("/setup", setup(project))
        backend.predict(task(1, TEXTS[1], project), task(2, TEXTS[2], project), project=project)
        given = ("--tab", "--limit", "1", "--label-studio", api.url)
        done = review(tmp_path, *given, project=PROJECT, LABEL_STUDIO_API_KEY=KEY)
        [tab] = [tab for tab in api.tabs.values() if tab["data"]["title"] == NEXT_TAB]
    assert [item["value"] for item in tab["data"]["filters"]["items"]] == [2]
    assert done.stdout.endswith(f"/projects/{PROJECT}/data?tab={tab['id']}\n")


# -- prices of labels


@pytest.fixture(scope="module")
def priced(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same tasks under the default policy."""
    folder = tmp_path_factory.mktemp("priced")
    with Backend(folder, moody, policy={"name": "joint", "worth_usd": 0.5}) as backend:
        backend.post("/setup", setup(Project()))
        backend.predict(*(task(number, text) for number, text in TEXTS.items()))
    return folder


def with_settings(folder: Path, **changes: Any) -> dict[str, str]:
    written = yaml.safe_load((folder / "camvo.yaml").read_text())
    path = folder / "priced.yaml"
    path.write_text(yaml.safe_dump(written | changes))
    return {"CAMVO_CONFIG": str(path)}


def test_a_price_shows_what_labels_are_worth_in_dollars(priced: Path) -> None:
    environment = with_settings(priced, humans={"price": 0.01})
    found = json.loads(review(priced, "--json", **environment).stdout)
    assert (found["label_usd"], found["worth_usd"]) == (0.01, 0.5)
    assert found["worthwhile"] == found["open"] == 4
    for one in found["tasks"]:
        assert one["value_usd"] == pytest.approx(0.5 * one["gain"])
    values = [one["value_usd"] for one in found["tasks"]]
    assert values == sorted(values, reverse=True)


def test_it_says_when_no_other_label_is_worth_its_price(priced: Path) -> None:
    said = review(priced, **with_settings(priced, humans={"price": 3.0})).stdout
    assert "A label costs $3.0000, a right one is worth $0.5000. No other label is worth its price." in said


def test_a_price_per_minute_goes_by_the_time_that_labels_take(priced: Path) -> None:
    environment = with_settings(priced, humans={"price_per_minute": 0.6})
    assert json.loads(review(priced, "--json", **environment).stdout)["label_usd"] == pytest.approx(0.2)


def test_a_policy_without_the_worth_of_a_right_label_is_refused(priced: Path) -> None:
    environment = with_settings(priced, humans={"price": 0.1}, policy={"name": "camvo"})
    said = review(priced, **environment)
    assert said.returncode == 2
    assert "worth of a right label" in said.stderr
