"""``camvo relabel --project``: ledger, label config and annotations of Label Studio have the new labels."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from label_studio_api import KEY, PROJECT, LabelStudioApi
from label_studio_requests import Annotation, Project, annotated, project_updated, tick
from pydantic import SecretStr
from rich.console import Console
from whole_backend import Backend, prompt_of, says

from backend import runtime
from backend.commands.relabel.run import opened_project, relabel
from backend.commands.review import show_disputed
from backend.commands.shared.arguments import LabelChanges
from backend.errors import ConfigError, LabelStudioError
from backend.label_studio.predictions import relabelled_result
from backend.questions import ConfigQuestion, parse_label_config
from backend.settings import Environment

TEXTS = ("sun 1", "rain 2", "fog 3", "fog 4")
MOODS = {"sun": "Glad", "rain": "Sad", "fog": "Calm"}


def script(body: dict[str, Any]) -> Any:
    return says(mood=next(mood for kind, mood in MOODS.items() if f"{kind} " in prompt_of(body)))


class Studio:
    """A project whose tasks have predictions; people have labelled two of them."""

    def __init__(self, api: LabelStudioApi, backend: Backend, folder: Path) -> None:
        self.api, self.backend, self.folder = api, backend, folder
        api.project["created_at"] = self.project.payload()["created_at"]
        self.tasks = api.add_tasks(*TEXTS)
        self.predicted()
        for place, mood in ((1, "Sad"), (2, "Calm")):
            number = api.annotate(self.tasks[place], mood)
            said = Annotation(number=number, task=self.tasks[place], mood=mood)
            backend.hook(annotated(said, self.project))

    @property
    def project(self) -> Project:
        return Project(number=self.api.project["id"], label_config=self.api.project["label_config"])

    def told(self, instructions: str) -> None:
        """A person edits the project's instructions in Label Studio."""
        self.api.project["expert_instruction"] = instructions
        self.backend.hook(project_updated(replace(self.project, instructions=instructions)))

    def predicted(self) -> list[str]:
        raw = [{"id": task, "data": {"text": text}} for task, text in zip(self.tasks, TEXTS, strict=True)]
        answers = self.backend.predict(*raw, project=self.project)
        return [answer["result"][0]["value"]["choices"][0] for answer in answers]

    def said(self) -> list[str]:
        """What Label Studio's annotations say."""
        found = (each for task in self.api.tasks.values() for each in task["annotations"])
        return [each["result"][0]["value"]["choices"][0] for each in found]

    def predictions(self) -> list[dict[str, Any]]:
        return [each for task in self.api.tasks.values() for each in task["predictions"]]

    def learnt(self) -> list[str | None]:
        """The human label of each task's latest round."""
        return [self.backend.rounds(task, self.project)[-1].human for task in self.tasks]

    def change(self, **wanted: Any) -> str:
        console = Console(file=io.StringIO(), width=200)
        embedder = self.backend.runtime.embedder
        with (
            mock.patch.object(runtime, "Embedder", return_value=embedder),
            opened_project(PROJECT, self._environment(), client=self.api.client()) as opened,
        ):
            relabel(opened, LabelChanges(**wanted), console, lambda question: True)
        return str(console.file.getvalue())  # type: ignore[attr-defined]

    def _environment(self) -> Environment:
        return Environment(
            database_url=f"sqlite:///{self.folder / 'ledger.sqlite'}",
            config=self.folder / "camvo.yaml",
            label_studio_url=self.api.url,
            label_studio_api_key=SecretStr(KEY),
        )

    def disputed(self) -> list[dict[str, Any]]:
        """What ``camvo review --disputed`` lists."""
        console = Console(file=io.StringIO(), width=200)
        show_disputed(console, self._environment(), self.api.client(), PROJECT, 10, as_json=True)
        found: list[dict[str, Any]] = json.loads(console.file.getvalue())["disputed"]  # type: ignore[attr-defined]
        return found

    def write(self, old: str, new: str) -> None:
        """A person edits the label config in Label Studio."""
        self.api.project["label_config"] = self.api.project["label_config"].replace(old, new)


@pytest.fixture
def studio(tmp_path: Path) -> Iterator[Studio]:
    with LabelStudioApi() as api, Backend(tmp_path, script) as backend:
        backend.runtime.embedder.close = lambda: None  # type: ignore[method-assign]  # shared with the command
        yield Studio(api, backend, tmp_path)


def test_config_annotations_and_predictions_have_the_new_labels_and_nobody_is_asked(studio: Studio) -> None:
    studio.api.predict(studio.tasks[3], "camvo", mood="Calm")
    calls = studio.backend.server.count()
    printed = studio.change(renames=["Calm=Quiet"])
    assert 'value="Quiet"' in studio.api.project["label_config"]
    assert studio.said() == ["Sad", "Quiet"]
    assert studio.predicted() == ["Glad", "Sad", "Quiet", "Quiet"]
    assert studio.learnt() == [None, "Sad", "Quiet", None]
    assert studio.backend.server.count() == calls
    assert "1 annotation and 1 prediction have the new labels" in printed
    assert [each["result"][0]["value"]["choices"] for each in studio.predictions()] == [["Quiet"]]


def test_a_config_that_a_person_has_changed_already_is_kept(studio: Studio) -> None:
    studio.write('value="Calm"', 'value="Quiet" hint="No wind"')
    assert studio.predicted()[2] == "Calm"
    studio.change(renames=["Calm=Quiet"])
    assert 'hint="No wind"' in studio.api.project["label_config"]
    assert studio.predicted()[2] == "Quiet"
    assert studio.said() == ["Sad", "Quiet"]


def test_merged_labels_of_people_are_apart_again_once_the_merge_is_taken_back(studio: Studio) -> None:
    before = studio.api.project["label_config"]
    studio.change(merges=["Sad,Calm=Low"])
    assert studio.said() == ["Low", "Low"]
    assert studio.learnt() == [None, "Low", "Low", None]
    for place in (1, 2):  # the webhook of the changed annotation
        raw = studio.api.tasks[studio.tasks[place]]["annotations"][0]
        late = Annotation(number=raw["id"], task=studio.tasks[place], mood="Low", updated=tick())
        studio.backend.hook(annotated(late, studio.project))
    studio.change(undo=True)
    assert studio.said() == ["Sad", "Calm"]
    studio.predicted()
    current = [studio.backend.rounds(task, studio.project)[0].human for task in studio.tasks]
    assert current == [None, "Sad", "Calm", None]
    assert _choices(studio.api.project["label_config"]) == _choices(before)


def test_merged_labels_of_predictions_are_apart_again_once_the_merge_is_taken_back(studio: Studio) -> None:
    moods = ["Glad", "Sad", "Calm", "Calm"]
    for task, mood in zip(studio.tasks, moods, strict=True):  # two of these people have annotated
        studio.api.predict(task, "camvo", mood=mood)
    studio.api.predict(studio.tasks[2], "camvo/red", mood="Sad")
    studio.change(merges=["Sad,Calm=Low"])
    shown = [each["result"][0]["value"]["choices"] for each in studio.predictions()]
    assert shown == [["Glad"], ["Low"], ["Low"], ["Low"], ["Low"]]
    studio.change(undo=True)
    of_camvo = [each for each in studio.predictions() if each["model_version"] == "camvo"]
    assert [each["result"][0]["value"]["choices"] for each in of_camvo] == [[mood] for mood in moods]


def test_a_merge_leaves_annotations_that_the_ledger_does_not_know(studio: Studio) -> None:
    studio.api.annotate(studio.tasks[3], "Calm")  # its webhook never came
    printed = studio.change(merges=["Sad,Calm=Low"])
    assert studio.said() == ["Low", "Low", "Calm"]
    assert "1 annotation is left unchanged" in printed
    studio.change(undo=True)
    assert studio.said() == ["Sad", "Calm", "Calm"]


def test_an_annotation_that_does_not_count_is_apart_again_too(studio: Studio) -> None:
    number = studio.api.annotate(studio.tasks[3], "Calm")
    said = Annotation(number=number, task=studio.tasks[3], mood="Calm", skipped=True)
    studio.backend.hook(annotated(said, studio.project))
    studio.change(merges=["Sad,Calm=Low"])
    assert studio.said() == ["Low", "Low", "Low"]
    studio.change(undo=True)
    assert studio.said() == ["Sad", "Calm", "Calm"]


@pytest.mark.parametrize("wanted", [{"renames": ["Calm=Quiet"]}, {"merges": ["Sad,Calm=Low"]}])
@pytest.mark.parametrize("fails", ["PATCH /api/projects/{project}/", "PATCH /api/annotations/{last}/"])
def test_the_same_command_goes_on_where_label_studio_failed(
    studio: Studio, wanted: dict[str, list[str]], fails: str
) -> None:
    last = studio.api.tasks[studio.tasks[2]]["annotations"][0]["id"]
    method, path = fails.format(project=PROJECT, last=last).split()
    studio.api.answers[method, path] = (400, {"detail": "no"})
    with pytest.raises(LabelStudioError):
        studio.change(**wanted)
    studio.api.answers.clear()
    calls, new = studio.backend.server.count(), "Low" if "merges" in wanted else "Quiet"
    mood = "Calm" if "projects" in path else new  # a label that Label Studio has at this moment
    number = studio.api.annotate(studio.tasks[3], mood)
    said = Annotation(number=number, task=studio.tasks[3], mood=mood, updated=tick())
    studio.backend.hook(annotated(said, studio.project))
    printed = studio.change(**wanted)
    assert "carried over already" in printed
    assert studio.said() == ["Low" if new == "Low" else "Sad", new, new]
    assert studio.learnt()[1:] == studio.said()
    assert studio.backend.server.count() == calls
    studio.change(undo=True)
    assert studio.said()[:2] == ["Sad", "Calm"]


def test_the_way_back_goes_on_where_label_studio_failed(studio: Studio) -> None:
    studio.change(merges=["Sad,Calm=Low"])
    studio.api.answers["PATCH", f"/api/projects/{PROJECT}/"] = (400, {"detail": "no"})
    with pytest.raises(LabelStudioError):
        studio.change(undo=True)
    studio.api.answers.clear()
    studio.change(undo=True)
    assert studio.said() == ["Sad", "Calm"]
    assert _choices(studio.api.project["label_config"]) == ["Glad", "Sad", "Calm"]
    with pytest.raises(ConfigError, match="taken back already"):
        studio.change(undo=True)


def test_a_change_that_is_repeated_changes_nothing(studio: Studio) -> None:
    studio.change(renames=["Calm=Quiet"])
    before = len(studio.api.writes)
    assert "0 annotations and 0 predictions" in studio.change(renames=["Calm=Quiet"])
    assert len(studio.api.writes) == before


def test_a_label_of_people_that_is_split_stays_as_it_is_and_is_to_be_looked_at(studio: Studio) -> None:
    of_a_task = studio.backend.server.count() // len(TEXTS)
    printed = studio.change(splits=["Calm=Quiet,Misty"])
    assert _choices(studio.api.project["label_config"]) == ["Glad", "Sad", "Quiet", "Misty"]
    assert studio.said() == ["Sad", "Calm"]
    assert "1 human label to look at" in printed
    [disputed] = studio.disputed()
    assert (disputed["task"], disputed["why"]) == (
        studio.tasks[2],
        "people gave Calm, which is split or dropped",
    )
    calls = studio.backend.server.count()
    studio.backend.server.script = lambda body: says(mood="Misty")
    assert studio.predicted() == ["Glad", "Sad", "Misty", "Misty"]
    assert studio.backend.server.count() - calls == 2 * of_a_task
    assert studio.learnt() == [None, "Sad", None, None]
    studio.change(undo=True)
    assert studio.said() == ["Sad", "Calm"]
    assert studio.predicted() == ["Glad", "Sad", "Calm", "Calm"]


def test_each_span_gets_the_label_back_that_it_had() -> None:
    def asked(*names: str) -> ConfigQuestion:
        labels = "".join(f'<Label value="{name}"/>' for name in names)
        text = '<Text name="t" value="$text"/>'
        xml = f'<View>{text}<Labels name="s" toName="t">{labels}</Labels></View>'
        return parse_label_config(xml).questions[0]

    result = [
        {"from_name": "s", "value": {"start": start, "end": start + 2, "labels": ["Up"]}} for start in (0, 5)
    ]
    back = relabelled_result(
        result, asked("Up", "Sea"), asked("Sky", "Sun", "Sea"), {"Up": None}, '[[0,2,"Sun"],[5,7,"Sky"]]'
    )
    assert [each["value"]["labels"] for each in back] == [["Sun"], ["Sky"]]


@pytest.mark.parametrize("wanted", [{"renames": ["Calm=Quiet"]}, {"merges": ["Sad,Calm=Low"]}])
def test_what_a_person_added_to_the_config_stays(studio: Studio, wanted: dict[str, list[str]]) -> None:
    studio.write("</View>", "<Style>p{}</Style></View>")
    studio.change(**wanted)
    assert "<Style>" in studio.api.project["label_config"]
    studio.write("</View>", '<TextArea name="later" toName="text"/></View>')
    studio.change(undo=True)
    assert "<Style>" in studio.api.project["label_config"]
    assert "later" in studio.api.project["label_config"]
    assert _choices(studio.api.project["label_config"]) == ["Glad", "Sad", "Calm"]


def test_a_question_that_was_edited_since_is_not_taken_back(studio: Studio) -> None:
    studio.change(renames=["Calm=Quiet"])
    studio.write('value="Quiet"', 'value="Quiet" hint="No wind"')
    with pytest.raises(ConfigError, match="asks another question since"):
        studio.change(undo=True)


def test_predictions_go_on_under_the_old_labels_although_instructions_have_changed_too(
    studio: Studio,
) -> None:
    before = [round_.label for task in studio.tasks for round_ in studio.backend.rounds(task, studio.project)]
    studio.write('value="Calm"', 'value="Quiet"')
    studio.told("Be brave.")
    assert studio.predicted()[2] == "Calm"
    calls = studio.backend.server.count()
    printed = studio.change(renames=["Calm=Quiet"])
    assert studio.predicted() == ["Quiet" if label == "Calm" else label for label in before]
    assert studio.backend.server.count() == calls
    assert "carried over" in printed


def test_a_label_that_a_person_adds_takes_tasks_from_those_that_somebody_names(studio: Studio) -> None:
    studio.write('<Choice value="Calm"', '<Choice value="Wild"/><Choice value="Calm"')
    calls = studio.backend.server.count()
    assert studio.predicted() == ["Glad", "Sad", "Calm", "Calm"]
    assert studio.backend.server.count() == calls
    studio.change(adds=["Wild=Glad"])
    studio.backend.server.script = lambda body: says(mood="Wild")
    assert studio.predicted() == ["Wild", "Sad", "Calm", "Calm"]


def test_other_labels_begin_anew_if_a_person_says_so(studio: Studio) -> None:
    studio.write('value="Calm"', 'value="Wild"')
    calls = studio.backend.server.count()
    assert studio.predicted()[2] == "Calm"
    assert studio.backend.server.count() == calls
    studio.change(anew=True)
    studio.backend.server.script = lambda body: says(mood="Wild")
    assert studio.predicted() == ["Wild"] * 4


def _choices(config: str) -> list[str]:
    return [part.split('"')[0] for part in config.split('<Choice value="')[1:]]
