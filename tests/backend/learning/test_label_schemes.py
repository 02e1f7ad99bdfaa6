"""Label configs that change under a served project: what is the same is carried over, the rest is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Annotation, Project, annotated, project_updated
from whole_backend import Backend, prompt_of, says

from backend import settings
from backend.learning.carrying import Carrying, run_each
from backend.ledger.events import ProjectEvents
from backend.ledger.projects import Scheme, Schemes
from backend.ledger.rounds import ProjectRounds
from backend.testing import Reply
from backend.upkeep import problems
from camvo.state.contribution import Contribution
from camvo.state.state import State
from camvo.votes.relabelling import Relabelling
from camvo.votes.spans import SpanVote

CONFIG = Project().label_config
GLAD = '<Choice value="Glad"/>'
REORDERED = CONFIG.replace(GLAD, "").replace("</Choices>", f"{GLAD}</Choices>")
HINTED = CONFIG.replace(GLAD, '<Choice value="Glad" hint="joy"/>')
RENAMED = CONFIG.replace(GLAD, '<Choice value="Happy"/>')
DROPPED = CONFIG.replace('<Choice value="Calm"/>', "")
WITH_MORE = CONFIG.replace(GLAD, f'{GLAD}<Choice value="Wild"/>')
TASKS = [
    {"id": number, "data": {"text": f"{number} {'rain' if number % 2 else 'sun'}"}} for number in range(1, 9)
]


def script(body: dict[str, Any]) -> Any:
    """Blue errs on rain."""
    rainy = "rain" in prompt_of(body)
    return says(mood="Sad" if rainy and body["model"] != "blue" else "Glad")


@pytest.fixture
def backend(tmp_path: Path) -> Iterator[Backend]:
    """A project with eight predictions, one of which people have corrected."""
    with Backend(tmp_path, script) as backend:
        for each in TASKS:  # one after another, so that the events are in their order
            backend.predict(each)
        backend.hook(annotated(Annotation(number=5, task=1, mood="Glad"), Project()))
        yield backend


def predicted(backend: Backend, config: str) -> list[str]:
    answers = backend.predict(*TASKS, project=Project(label_config=config))
    return [answer["result"][0]["value"]["choices"][0] for answer in answers]


def state(backend: Backend) -> State:
    with backend.ledger.read() as connection:
        epoch = ProjectRounds(connection, Project().key).latest_epochs()["mood"]
        found = ProjectEvents(connection, Project().key).after(0, control="mood", epoch=epoch)
    sums = State(backend.runtime.embedder.dimension)
    sums.add(*(Contribution.unpack(event.contribution) for event in found))
    return sums


def alarms(backend: Backend) -> dict[str, str]:
    [project] = backend.client.get("/status?format=json").get_json()["projects"]
    return {alert["code"]: f"{alert['message']}. {alert['fix']}" for alert in project["alerts"]}


@pytest.mark.parametrize("config", [REORDERED, HINTED])
def test_another_order_and_other_hints_ask_nobody_again(backend: Backend, config: str) -> None:
    before, calls, learnt = predicted(backend, CONFIG), backend.server.count(), state(backend)
    assert predicted(backend, config) == before
    assert backend.server.count() == calls
    now = state(backend)
    assert {arm: (now[arm].rewards, now[arm].reward_sum) for arm in now} == {
        arm: (learnt[arm].rewards, learnt[arm].reward_sum) for arm in learnt
    }
    assert now.rounds == learnt.rounds == len(TASKS)
    with backend.ledger.read() as connection:
        assert list(problems(connection, lambda _: None)) == []


def test_human_labels_that_come_later_correct_what_was_carried_over(backend: Backend) -> None:
    predicted(backend, HINTED)
    before = state(backend)["red"].reward_sum
    backend.hook(annotated(Annotation(number=6, task=3, mood="Glad"), Project(label_config=HINTED)))
    assert state(backend)["red"].reward_sum == before - 1.0


@pytest.mark.parametrize("config", [RENAMED, DROPPED])
def test_while_a_label_is_gone_predictions_go_on_under_the_old_labels_with_an_alarm(
    backend: Backend, config: str
) -> None:
    before, calls = predicted(backend, CONFIG), backend.server.count()
    backend.hook(project_updated(Project(label_config=config)))
    assert {"labels_unclear", "config_changed"} & set(alarms(backend)) == {"labels_unclear"}
    assert predicted(backend, config) == before
    assert backend.server.count() == calls
    alarm = alarms(backend)["labels_unclear"]
    assert "mood" in alarm
    assert "camvo relabel --project 7" in alarm


def test_the_end_of_a_run_of_predict_says_that_a_label_is_gone(backend: Backend) -> None:
    def codes() -> list[str]:
        answer = backend.client.get("/missing", query_string={"project": Project().key})
        return [alert["code"] for alert in answer.get_json()["alerts"]]

    before = codes()
    predicted(backend, RENAMED)
    assert (before, codes()) == ([], ["labels_unclear"])


def test_a_gone_label_that_comes_back_needs_no_answer(backend: Backend) -> None:
    predicted(backend, RENAMED)
    predicted(backend, CONFIG)
    assert "labels_unclear" not in alarms(backend)


def test_a_label_that_is_added_asks_nobody_again_until_somebody_says_where_it_comes_from(
    backend: Backend,
) -> None:
    before, calls = predicted(backend, CONFIG), backend.server.count()
    assert predicted(backend, WITH_MORE) == before
    assert backend.server.count() == calls
    assert "--add 'Wild=a,b'" in alarms(backend)["labels_unclear"]
    predicted(backend, CONFIG)
    assert "labels_unclear" not in alarms(backend)


def read_instructions(text: str) -> dict[str, Any]:
    """The webhook of somebody who changes the project's instructions in Label Studio."""
    return project_updated(Project(instructions=text))


def priors(backend: Backend) -> int:
    return [event.kind for event in backend.events()].count("prior")


def test_new_instructions_begin_with_what_models_are_known_to_be_worth(backend: Backend) -> None:
    before = state(backend)
    backend.hook(read_instructions("Be brave."))
    backend.predict({"id": 99, "data": {"text": "99 sun"}}, project=Project())
    now = state(backend)
    assert priors(backend) == len(TASKS)
    assert now.rounds == before.rounds + 1
    assert now["red"].rewards >= before["red"].rewards
    with backend.ledger.read() as connection:
        assert list(problems(connection, lambda _: None)) == []


def test_a_prior_holds_no_text_and_no_human_label(backend: Backend) -> None:
    backend.hook(read_instructions("Be brave."))
    backend.predict({"id": 99, "data": {"text": "99 sun"}}, project=Project())
    found = [Contribution.unpack(event.contribution) for event in backend.events() if event.kind == "prior"]
    assert all(each.taught is None and each.kept is None for each in found)
    assert sum(change.added or 0.0 for change in found[0].changes if change.arm == "blue") == 0.0


def test_instructions_that_come_back_find_their_own_rounds_and_get_no_prior(backend: Backend) -> None:
    calls = backend.server.count()
    backend.hook(read_instructions("Be brave."))
    backend.predict({"id": 99, "data": {"text": "99 sun"}}, project=Project())
    backend.hook(read_instructions(""))
    asked = backend.server.count()
    backend.predict(*TASKS)
    assert backend.server.count() == asked > calls
    assert priors(backend) == len(TASKS)


SPANS = """<View><Text name="text" value="$text"/>
  <Labels name="ner" toName="text"><Label value="Rain"/><Label value="Sun"/></Labels></View>"""


def marked(backend: Backend, project: Project) -> list[int]:
    """How many places each round of spans teaches, by the latest scheme."""
    with backend.ledger.read() as connection:
        epoch = ProjectRounds(connection, project.key).latest_epochs()["ner"]
        found = ProjectEvents(connection, project.key).after(0, control="ner", epoch=epoch)
    explored = [Contribution.unpack(event.contribution).exploration for event in found]
    return [len(round_.places) for round_ in explored if round_ is not None]


@pytest.fixture
def with_spans(tmp_path: Path) -> Iterator[Backend]:
    """A project with spans under the joint policy; each text has one place."""

    def mark(body: dict[str, Any]) -> Any:
        word = "rain" if "rain" in prompt_of(body).split("TASK")[-1] else "sun"
        return Reply.says({"ner": [{"quote": word, "before": "", "label": word.title()}]})

    with Backend(tmp_path, mark, policy={"name": "joint"}, student=False) as backend:
        backend.predict(*TASKS, project=Project(label_config=SPANS))
        yield backend


def test_new_instructions_keep_where_models_marked_spans(with_spans: Backend) -> None:
    before = marked(with_spans, Project(label_config=SPANS))
    changed = Project(label_config=SPANS, instructions="Be brave.")
    with_spans.hook(project_updated(changed))
    with_spans.predict({"id": 99, "data": {"text": "99 sun"}}, project=changed)
    assert before == [1] * len(TASKS)
    assert marked(with_spans, changed)[: len(TASKS)] == before


def test_labels_of_spans_that_become_one_keep_where_models_marked_them(with_spans: Backend) -> None:
    project = Project(label_config=SPANS)
    with with_spans.ledger.read() as connection:
        source = Schemes(connection, project.key).latest()["ner"].epoch
    labels = {"Rain": "Weather", "Sun": "Weather"}
    scheme = Scheme("ner", "merged", SPANS, "", source, labels, 2.0)
    work = Carrying(
        project.key, scheme, Relabelling(SpanVote(), labels, ("Weather",)), settings.load(None), 2.0
    )

    def write(transaction: Any) -> Any:
        with with_spans.ledger.write() as connection:
            return transaction(connection)

    run_each(work.transactions(), write)
    with with_spans.ledger.read() as connection:
        found = ProjectEvents(connection, project.key).after(0, control="ner", epoch="merged")
    explored = [Contribution.unpack(event.contribution).exploration for event in found]
    assert [len(round_.places) for round_ in explored if round_ is not None] == [1] * len(TASKS)
