"""``camvo accept``: what becomes an annotation and what never does, and that nothing of it is learnt."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import migrated
import pytest
from command_line import called
from label_studio_api import KEY, PROJECT, LabelStudioApi, region
from label_studio_requests import Annotation, Project, annotated, task
from stored_rounds import a_key, a_round
from whole_backend import Backend, votes

from backend.commands.accept import _Acceptance, _Decided, _Evidence, _undo_accepted
from backend.commands.report import _task_score
from backend.errors import ConfigError, LabelStudioError
from backend.label_studio.client import Client
from backend.learning.projects import stored_questions
from backend.ledger import Ledger, projects, rounds
from backend.ledger.human_annotations import Annotations
from backend.ledger.projects import Scheme, Schemes
from backend.ledger.recounts import Recounts
from backend.ledger.rounds import AcceptedTasks, ProjectRounds

LABELS = {"mood": "Glad"}


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    ledger = Ledger(migrated.sqlite(tmp_path / "ledger.sqlite"), clock=lambda: 5.0)
    yield ledger
    ledger.close()


def with_predictions(api: LabelStudioApi, *scores: float) -> list[int]:
    numbers = api.add_tasks(*(f"text {number}" for number in range(len(scores))))
    for number, score in zip(numbers, scores, strict=True):
        api.predict(number, "camvo", score)
    return numbers


def acceptance(api: LabelStudioApi, ledger: Ledger, **changes: Any) -> _Acceptance:
    """A run in which the ledger knows, and certifies, what Label Studio has."""
    decided = {
        number: _Decided(stored["predictions"][0]["score"], LABELS, certified=True)
        for number, stored in api.tasks.items()
        if stored["predictions"]
    }
    given = {"above": 0.9, "uncertified": False, "evidence": _Evidence(decided, frozenset(), 0.9), **changes}
    return _Acceptance(api.client(), ledger, PROJECT, "3.1", "camvo", **given)


def recorded(ledger: Ledger) -> list[rounds.Accepted]:
    with ledger.read() as connection:
        return AcceptedTasks(connection, "3.1").all()


# -- what is accepted


def test_a_confident_certified_prediction_becomes_an_annotation_and_is_noted(
    api: LabelStudioApi, ledger: Ledger
) -> None:
    sure, unsure = with_predictions(api, 0.95, 0.8)
    run = acceptance(api, ledger)
    assert run.chosen() == ([sure], Counter({"below 0.9": 1}))
    assert run.accept([sure]) == 1
    [annotation] = api.tasks[sure]["annotations"]
    assert api.tasks[unsure]["annotations"] == []
    [record] = recorded(ledger)
    assert (record.task, record.annotation_id, record.labels) == (sure, annotation["id"], LABELS)
    assert (record.score, record.certified, record.accepted_at) == (0.95, True, 5.0)


def test_the_models_own_predictions_do_not_become_annotations(api: LabelStudioApi, ledger: Ledger) -> None:
    [sure] = with_predictions(api, 0.95)
    api.predict(sure, "camvo/red", 0.99)
    assert acceptance(api, ledger).accept([sure]) == 1
    assert len(api.tasks[sure]["annotations"]) == 1


def rename(api: LabelStudioApi, task: int) -> None:
    """Leave out the question in the prediction, which has a region of another one."""
    api.tasks[task]["predictions"][0]["result"][0]["from_name"] = "topic"


@pytest.mark.parametrize(
    ("spoil", "reason"),
    [
        (lambda api, task: api.annotate(task, "Glad"), "annotated or skipped"),
        (lambda api, task: api.annotate(task, "Glad", was_cancelled=True), "annotated or skipped"),
        (lambda api, task: api.drafted.add(task), "begun by somebody"),
        (lambda api, task: api.tasks[task]["predictions"].clear(), "without a prediction"),
        (
            lambda api, task: api.tasks[task]["predictions"][0].update(result=[]),
            "with a prediction that fills in nothing (see prefill)",
        ),
        (rename, "a question that is not filled in"),
        (lambda api, task: api.predict(task, "camvo", 0.95), "another prediction"),
        (lambda api, task: api.tasks[task]["predictions"][0].update(score=0.99), "another prediction"),
    ],
)
def test_what_people_or_others_touched_is_left_out(
    api: LabelStudioApi, ledger: Ledger, spoil: Any, reason: str
) -> None:
    [number] = with_predictions(api, 0.95)
    run = acceptance(api, ledger)
    spoil(api, number)
    tasks, left = run.chosen()
    assert tasks == []
    [(told, _)] = left.items()
    assert reason in told


CONDITIONAL = """<View><Text name="text" value="$text"/>
<Choices name="mood" toName="text"><Choice value="Glad"/><Choice value="Sad"/></Choices>
<Choices name="why" toName="text" visibleWhen="choice-selected" whenTagName="mood" whenChoiceValue="Sad">
<Choice value="Rain"/><Choice value="Cold"/></Choices></View>"""


@pytest.mark.parametrize(
    ("mood", "score", "labels"), [("Glad", 0.9, {"mood"}), ("Sad", 0.45, {"mood", "why"})]
)
def test_an_answer_that_a_condition_hides_is_neither_expected_nor_counted(
    ledger: Ledger, mood: str, score: float, labels: set[str]
) -> None:
    with ledger.write() as connection:
        projects.remember(connection, "3.1", extra_params=None, label_config=CONDITIONAL, now=1.0)
        answers = {"mood": (mood, 0.9), "why": ("Rain", 0.5)}
        for control, (label, sure) in answers.items():
            rounds.insert_each(
                connection, [a_round(a_key(project="3.1", control=control), label=label, score=sure)]
            )
        stored = projects.get(connection, "3.1")
        assert stored is not None
        decided = _Evidence.load(connection, stored, 0.9).decided[1]
        epochs = ProjectRounds(connection, "3.1").latest_epochs()
        shown = Recounts(connection, "3.1").open_answers(epochs)
    assert (decided.score, decided.labels.keys()) == (pytest.approx(score), labels)
    assert shown == {1: answers}
    assert _task_score(stored_questions(stored) or (), shown[1]) == pytest.approx(score)


def test_a_task_with_a_question_that_a_recount_has_shown_is_left_out(
    api: LabelStudioApi, ledger: Ledger
) -> None:
    [number] = with_predictions(api, 0.95)
    with ledger.write() as connection:
        projects.remember(connection, "3.1", extra_params=None, label_config=CONDITIONAL, now=1.0)
        key = a_key(project="3.1", control="mood", task=number)
        rounds.insert_each(connection, [a_round(key, label="Sad", score=0.95)])
        stored = projects.get(connection, "3.1")
        assert stored is not None
        evidence = _Evidence.load(connection, stored, 0.9)
    assert evidence.decided[number].open == {"why"}
    tasks, left = acceptance(api, ledger, evidence=evidence, uncertified=True).chosen()
    assert (tasks, [*left]) == ([], ["with a question that is not filled in"])


def test_a_blind_task_is_left_out_even_if_it_has_a_prediction(api: LabelStudioApi, ledger: Ledger) -> None:
    [number] = with_predictions(api, 0.95)
    run = acceptance(api, ledger, uncertified=True)
    blind = _Evidence(run.evidence.decided, frozenset([number]), 0.9)
    again = acceptance(api, ledger, uncertified=True, evidence=blind)
    assert again.chosen() == ([], Counter(blind=1))


@pytest.mark.parametrize("uncertified", [False, True])
def test_an_uncovered_label_is_accepted_on_request_only(
    api: LabelStudioApi, ledger: Ledger, uncertified: bool
) -> None:
    [number] = with_predictions(api, 0.95)
    evidence = _Evidence({number: _Decided(0.95, LABELS, certified=False)}, frozenset(), 0.9)
    tasks, _ = acceptance(api, ledger, evidence=evidence, uncertified=uncertified).chosen()
    assert tasks == ([number] if uncertified else [])


def test_a_task_that_somebody_begins_meanwhile_is_left_out(api: LabelStudioApi, ledger: Ledger) -> None:
    first, second = with_predictions(api, 0.95, 0.96)
    run = acceptance(api, ledger)
    tasks, _ = run.chosen()
    api.drafted.add(first)
    assert (tasks, run.accept(tasks)) == ([first, second], 1)
    assert api.tasks[first]["annotations"] == []
    assert [record.task for record in recorded(ledger)] == [second]


@pytest.mark.parametrize(
    ("threshold", "above", "refusal"),
    [(None, 0.9, "no label is certified"), (0.95, 0.9, "only those from 0.95 on"), (0.9, 0.9, None)],
)
def test_without_a_certificate_nothing_is_accepted(
    threshold: float | None, above: float, refusal: str | None
) -> None:
    evidence = _Evidence({}, frozenset(), threshold)
    if refusal is None:
        evidence.require_certificate(above)
        return
    with pytest.raises(ConfigError, match=refusal):
        evidence.require_certificate(above)


def test_nothing_is_accepted_while_nobody_has_said_what_becomes_of_a_label(
    api: LabelStudioApi, tmp_path: Path
) -> None:
    url = migrated.sqlite(tmp_path / "ledger.sqlite")
    [number] = with_predictions(api, 0.95)
    before = api.project["label_config"]
    with contextlib.closing(Ledger(url)) as ledger, ledger.write() as connection:
        projects.remember(connection, api.project_key, extra_params=None, label_config=before, now=1.0)
        key = a_key(project=api.project_key, control="mood", task=number)
        rounds.insert_each(connection, [a_round(key, label="Glad", score=0.95)])
        Schemes(connection, api.project_key).append(Scheme("mood", "an-epoch", before, "an embedder"))
    api.project["label_config"] = before.replace('"Glad"', '"Happy"')
    own = {"LABEL_STUDIO_URL": api.url, "LABEL_STUDIO_API_KEY": KEY, "CAMVO_DATABASE_URL": url}
    options = ("accept", "--project", str(PROJECT), "--above", "0.9", "--uncertified")
    ended = called(*options, cwd=tmp_path, **own)
    assert ended.returncode == 2
    assert f"camvo relabel --project {PROJECT}" in ended.stderr
    assert api.tasks[number]["annotations"] == []


# -- undo


def test_undo_deletes_what_nobody_touched_and_nothing_else(api: LabelStudioApi, ledger: Ledger) -> None:
    kept, deleted, gone, by_hand = with_predictions(api, 0.95, 0.96, 0.97, 0.5)
    api.annotate(by_hand, "Sad")
    acceptance(api, ledger).accept([kept, deleted, gone])
    api.tasks[kept]["annotations"][0]["lead_time"] = 4.0
    api.tasks[gone]["annotations"].clear()
    outcome = _undo_accepted(api.client(), ledger, PROJECT, "3.1")
    assert outcome == Counter(kept=1, deleted=1, gone=1)
    left = {number for number, stored in api.tasks.items() if stored["annotations"]}
    assert left == {kept, by_hand}
    assert recorded(ledger) == []


def test_undo_keeps_an_annotation_that_a_program_changed_without_a_lead_time(
    api: LabelStudioApi, ledger: Ledger
) -> None:
    changed, skipped, untouched = with_predictions(api, 0.95, 0.96, 0.97)
    acceptance(api, ledger).accept([changed, skipped, untouched])
    [annotation] = api.tasks[changed]["annotations"]
    api.client().change_annotation(annotation["id"], {"result": [region("Sad")]})
    api.tasks[skipped]["annotations"][0]["was_cancelled"] = True
    assert _undo_accepted(api.client(), ledger, PROJECT, "3.1") == Counter(kept=2, deleted=1)
    assert not api.tasks[untouched]["annotations"]


@pytest.mark.parametrize(("mood", "what"), [("Glad", "deleted"), ("Sad", "kept")])
def test_undo_reads_what_is_noted_once_the_prediction_is_gone(
    api: LabelStudioApi, ledger: Ledger, mood: str, what: str
) -> None:
    with ledger.write() as connection:
        projects.remember(connection, "3.1", label_config=Project().label_config, now=1.0)
    [sure] = with_predictions(api, 0.95)
    acceptance(api, ledger).accept([sure])
    api.tasks[sure]["annotations"][0]["result"] = [region(mood)]
    api.tasks[sure]["predictions"].clear()
    assert _undo_accepted(api.client(), ledger, PROJECT, "3.1") == Counter({what: 1})


def broken(client: Client, *, done: bool) -> Client:
    """A client whose request to accept predictions fails, with or without having been done."""
    accept = client.accept_predictions

    def fail(*arguments: Any) -> None:
        if done:
            accept(*arguments)
        raise LabelStudioError("HTTP 502", where="Label Studio", fix="try again")

    client.accept_predictions = fail  # type: ignore[method-assign]
    return client


def test_what_a_failed_request_did_not_accept_is_not_noted_as_accepted(
    api: LabelStudioApi, ledger: Ledger
) -> None:
    [sure] = with_predictions(api, 0.95)
    run = replace(acceptance(api, ledger), client=broken(api.client(), done=False))
    with pytest.raises(LabelStudioError):
        run.accept([sure])
    assert recorded(ledger) == []


def test_what_a_failed_request_did_accept_is_noted(api: LabelStudioApi, ledger: Ledger) -> None:
    [sure] = with_predictions(api, 0.95)
    run = replace(acceptance(api, ledger), client=broken(api.client(), done=True))
    with pytest.raises(LabelStudioError):
        run.accept([sure])
    [annotation] = api.tasks[sure]["annotations"]
    assert [record.annotation_id for record in recorded(ledger)] == [annotation["id"]]


@pytest.mark.parametrize("touched", [False, True])
def test_undo_deletes_what_a_run_accepted_that_ended_before_it_was_noted(
    api: LabelStudioApi, ledger: Ledger, touched: bool
) -> None:
    [sure] = with_predictions(api, 0.95)
    acceptance(api, ledger).accept([sure])
    with ledger.write() as connection:
        unknown = [replace(record, annotation_id=None) for record in AcceptedTasks(connection, "3.1").all()]
        AcceptedTasks(connection, "3.1").store(unknown)
    api.annotate(sure, "Glad")
    if touched:
        api.tasks[sure]["annotations"][0]["lead_time"] = 4.0
    what = "kept" if touched else "deleted"
    assert _undo_accepted(api.client(), ledger, PROJECT, "3.1") == Counter({what: 1})
    assert len(api.tasks[sure]["annotations"]) == 1 + touched


def test_undo_as_a_dry_run_counts_the_same_and_deletes_nothing(api: LabelStudioApi, ledger: Ledger) -> None:
    tasks = with_predictions(api, 0.95, 0.96)
    acceptance(api, ledger).accept(tasks)
    api.tasks[tasks[0]]["annotations"][0]["lead_time"] = 4.0
    outcome = _undo_accepted(api.client(), ledger, PROJECT, "3.1", dry_run=True)
    assert outcome == Counter(kept=1, deleted=1)
    assert all(api.tasks[task]["annotations"] for task in tasks)
    assert len(recorded(ledger)) == 2


def test_the_command_undoes_nothing_in_a_dry_run(api: LabelStudioApi, tmp_path: Path) -> None:
    ledger = Ledger(url := f"sqlite:///{tmp_path}/ledger.sqlite")
    ledger.migrate()
    [task] = with_predictions(api, 0.95)
    run = acceptance(api, ledger)
    replace(run, key=api.project_key).accept([task])
    own = {"LABEL_STUDIO_URL": api.url, "LABEL_STUDIO_API_KEY": KEY, "CAMVO_DATABASE_URL": url}
    options = ("accept", "--project", str(PROJECT), "--undo")
    ended = called(*options, "--dry-run", cwd=tmp_path, **own)
    assert ended.stdout.startswith("1 annotation would be deleted")
    assert api.tasks[task]["annotations"]
    ledger.close()


# -- nothing is learnt


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    folder = tmp_path_factory.mktemp("accept")
    with Backend(folder, votes(red="Glad", green="Glad", blue="Glad")) as backend:
        yield backend


def teaches(backend: Backend, number: int, *, mood: str, known: bool) -> bool:
    """Whether an annotation teaches that Label Studio reports like a human's, on an accepted task."""
    key = Project().key
    backend.predict(task(number))
    record = rounds.Accepted(key, number, number * 10 if known else None, LABELS, 0.9, True, 1.0)
    with backend.ledger.write() as connection:
        AcceptedTasks(connection, record.project).store([record])
    backend.hook(annotated(Annotation(number=number * 10, task=number, mood=mood)))
    with backend.ledger.read() as connection:
        [stored] = Annotations(connection, key).of_task(number)
        [round_] = ProjectRounds(connection, key).of_task(number)
    assert (round_.taught_by == "human") == stored.teaches
    return stored.teaches


@pytest.mark.parametrize("known", [False, True])
def test_an_accepted_label_is_not_learnt_however_it_is_reported(backend: Backend, known: bool) -> None:
    assert not teaches(backend, 100 + known, mood="Glad", known=known)


def test_an_accepted_label_that_a_person_corrects_is_learnt(backend: Backend) -> None:
    assert teaches(backend, 102, mood="Sad", known=True)


def test_a_deleted_task_is_forgotten_here_too(backend: Backend) -> None:
    key = Project().key
    backend.predict(task(103))
    with backend.ledger.write() as connection:
        AcceptedTasks(connection, key).store([rounds.Accepted(key, 103, 1030, LABELS, 0.9, True, 1.0)])
        AcceptedTasks(connection, key).forget([103])
        assert 103 not in {each.task for each in AcceptedTasks(connection, key).all()}
