"""Alarms that are posted: once each until they are over, by one worker, without secrets and texts."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Annotation, annotated, setup, task
from local_server import Handler, LocalServer
from sqlalchemy import update as change
from whole_backend import Backend, votes

from backend.ledger.database import tables
from backend.ledger.projects import AlertKey, Alerts
from backend.server.status import alarm_watch
from backend.server.status.alarm_watch import _message, _RaisedAlarm
from backend.server.status.report import Alert
from backend.telemetry import metrics

VARIABLE = "CAMVO_TEST_ALERTS_URL"
AGREE = votes(red="Glad", green="Glad", blue="Glad")


class Receiver(LocalServer):
    """A server that keeps what is posted to it, and answers with a status."""

    def __init__(self) -> None:
        self.posted: list[dict[str, Any]] = []
        self.status = 200
        receiver = self

        class Service(Handler):
            def respond(self) -> None:
                body = self.body()
                if receiver.status == 200:
                    receiver.posted.append(json.loads(body))
                self.answer(receiver.status)

        super().__init__(Service)

    @property
    def url(self) -> str:
        return f"{super().url}/services/T0/B0/a-secret-path"


@pytest.fixture
def receiver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    metrics.last_refused_webhook_at.set(0.0)  # another test of this process may have refused one,
    metrics.clock_skew.set(0.0)  # or may have had another clock
    with Receiver() as receiver:
        monkeypatch.setenv(VARIABLE, receiver.url)
        yield receiver


def look(backend: Backend) -> list[AlertKey]:
    """One look of this worker."""
    return backend.runtime._thread.submit(backend.runtime.alert_watch.look()).result(30.0)


def wrong_scores(backend: Backend) -> None:
    """Let the scores of a project be far off: all models agree, and people say something else."""
    backend.post("/setup", setup())
    backend.predict(*(task(number, f"a marmalade sandwich {number}") for number in range(1, 15)))
    for number in range(1, 15):
        backend.hook(annotated(Annotation(number=number, task=number, mood="Sad")))


def watched(folder: Path) -> Backend:
    return Backend(folder, AGREE, alerts={"url_env": VARIABLE})


def test_an_alarm_is_posted_once_however_often_and_by_whomever_it_is_seen(
    tmp_path: Path, receiver: Receiver
) -> None:
    with watched(tmp_path) as backend, watched(tmp_path) as second:
        wrong_scores(backend)
        assert [key.code for key in look(backend)] == ["score_off"]
        assert look(backend) == look(second) == []
    assert [alert["code"] for body in receiver.posted for alert in body["alerts"]] == ["score_off"]


def test_a_post_has_words_for_people_and_fields_for_programs_and_no_text_of_a_task(
    tmp_path: Path, receiver: Receiver
) -> None:
    with watched(tmp_path) as backend:
        wrong_scores(backend)
        look(backend)
        metric = backend.metric("camvo_alerts", code="score_off")
        pages = [backend.client.get(f"/status?format={form}").text for form in ("json", "html")]
    [body] = receiver.posted
    assert body["text"].startswith("CaMVo alarm: diary (project 7): mood: scores promise too much.")
    [alert] = body["alerts"]
    assert (alert["subject"], alert["title"]) == ("mood", "diary")
    assert alert["url"] == "http://localhost:8080/projects/7/data"
    assert "marmalade" not in json.dumps(body)
    assert metric == 1.0
    assert all("score_off" in text and "a-secret-path" not in text for text in pages)


def test_a_report_that_fails_ends_no_later_look(
    tmp_path: Path, receiver: Receiver, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(alarm_watch, "_PAUSE", 0.001)
    with watched(tmp_path) as backend:
        failures, looked = iter([ValueError("the text of a task")]), asyncio.Event()

        async def look() -> list[AlertKey]:
            for failure in failures:
                raise failure
            looked.set()
            return []

        async def run() -> None:
            watching = asyncio.create_task(backend.runtime.alert_watch.run())
            await asyncio.wait_for(looked.wait(), 30.0)
            watching.cancel()

        monkeypatch.setattr(backend.runtime.alert_watch, "look", look)
        asyncio.run(run())
    said = "".join(capfd.readouterr())
    assert "alerts_not_read" in said
    assert "internal" in said
    assert "the text of a task" not in said


def test_an_address_that_refuses_is_tried_again_and_never_logged(
    tmp_path: Path, receiver: Receiver, capsys: pytest.CaptureFixture[str]
) -> None:
    receiver.status = 500
    with watched(tmp_path) as backend:
        wrong_scores(backend)
        assert look(backend) == []
        receiver.status = 200
        assert look(backend) == []  # it waits before it posts again
        backend.runtime.alert_watch._not_before = 0.0
        assert [key.code for key in look(backend)] == ["score_off"]
    logged = capsys.readouterr()
    assert "alert_not_posted" in logged.err
    assert "a-secret-path" not in logged.err + logged.out


def test_an_alarm_that_is_over_and_comes_back_is_told_again(tmp_path: Path) -> None:
    key = AlertKey("7.1", "score_off", "mood")
    with Backend(tmp_path, AGREE) as backend, backend.ledger.write() as connection:
        assert Alerts(connection).see({key}) == Alerts(connection).see({key}) == [key]
        Alerts(connection).reported([key])
        assert Alerts(connection).see({key}) == []
        connection.execute(change(tables.alerts).values(seen_at=0.0))
        assert Alerts(connection).see(set()) == []
        assert Alerts(connection).known() == {key: False}
        assert Alerts(connection).see({key}) == [key]


def test_an_alarm_that_flickers_is_told_once(tmp_path: Path) -> None:
    key = AlertKey("", "budget_spent", "day's")
    with Backend(tmp_path, AGREE) as backend, backend.ledger.write() as connection:
        Alerts(connection).see({key})
        Alerts(connection).reported([key])
        assert Alerts(connection).see(set()) == []
        assert Alerts(connection).see({key}) == []


def test_marks_that_slack_reads_as_markup_are_escaped() -> None:
    alert = Alert("score_off", "a <b> & c", "mend it")
    assert "a &lt;b&gt; &amp; c" in _message([_RaisedAlarm(alert, None)])["text"]
    assert _message([_RaisedAlarm(alert, None)])["alerts"][0]["message"] == "a <b> & c"


def test_many_alarms_make_one_short_text() -> None:
    body = _message(
        [_RaisedAlarm(Alert("score_off", f"number {number}", None), None) for number in range(50)]
    )
    assert len(body["alerts"]) == 50
    assert body["text"].splitlines()[-1] == "and 30 more"
