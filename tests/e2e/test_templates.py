"""Predictions for Label Studio's own templates, and forms with conditions, opened in its editor.

It takes two minutes, so it runs by command only: ``pytest -m soak -n 0 tests/e2e/test_templates.py``.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from browser import Browser
from label_studio import LabelStudio
from label_studio_templates import Template, run, task_of, templates
from visible_forms import FORMS, conditional

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]

FORM = """
const selected = window.Htx && window.Htx.annotationStore && window.Htx.annotationStore.selected;
return selected && selected.type === 'annotation' ? JSON.stringify(selected.serializeAnnotation()) : null;
"""
"""What the editor would submit."""

UNDRAWN = {"chat/chat_llm_eval", "chat/chat_rlhf"}
"""Templates with a Chat, which the open-source editor cannot draw."""


@pytest.fixture
def browser(studio: LabelStudio, tmp_path: Path) -> Iterator[Browser]:
    with Browser(tmp_path, tmp_path / "artefacts") as window:
        window.visit(f"{studio.url}/user/login")
        window.fill("input[name=email]", studio.user)
        window.fill("input[name=password]", studio.password)
        window.click("button[type=submit]")
        window.wait_until(lambda: "/user/login" not in window.address, "page behind the login")
        yield window


ANSWERS = {"choices", "rating", "taxonomy", "ranker", "selected"} | {
    "labels",
    "hypertextlabels",
    "paragraphlabels",
}
"""What the values of regions answer; the rest says where."""


def essence(regions: Iterable[Mapping[str, Any]]) -> list[str]:
    """What regions answer, in a fixed order."""
    answers = [(region["from_name"], region["value"]) for region in regions]
    return sorted(
        json.dumps([name, {key: value[key] for key in sorted(value.keys() & ANSWERS)}])
        for name, value in answers
        if value.keys() & ANSWERS
    )


def opened(studio: LabelStudio, template: Template, prediction: Mapping[str, Any]) -> str:
    """The address of a project's only task, which has the prediction."""
    body = {"title": template.name[-49:], "label_config": template.xml, "show_collab_predictions": True}
    project = studio.ask("POST", "/api/projects/", body)["id"]
    dynamic = {key: [{"value": "One"}] for key in re.findall(r'value="\$(\w+)"', template.xml)}
    task = {
        "data": dynamic | task_of(template.config),
        "predictions": [{**prediction, "model_version": "camvo"}] if prediction["result"] else [],
    }
    imported = studio.ask("POST", f"/api/projects/{project}/import", [task], return_task_ids="true")
    return f"{studio.url}/projects/{project}/data?task={imported['task_ids'][0]}"


def form(browser: Browser, wanted: list[str]) -> list[str]:
    """What the editor's form answers, as soon as that is what is wanted, or after a while."""
    shown: list[str] = []

    def is_filled() -> bool:
        if (found := browser.script(FORM)) is None:
            return False
        shown[:] = essence(json.loads(found))
        return shown == wanted

    with contextlib.suppress(AssertionError):
        browser.wait_until(is_filled, "the form", patience=10.0)
    return shown


def test_the_editor_fills_its_form_with_the_prediction_of_every_template(
    studio: LabelStudio, browser: Browser
) -> None:
    differing = {}
    for template in templates():
        if not template.config.questions or template.name in UNDRAWN:
            continue
        prediction = run(template.config).prediction
        browser.visit(opened(studio, template, prediction))
        wanted = essence(prediction["result"])
        if (shown := form(browser, wanted)) != wanted:
            differing[template.name] = wanted, shown
    assert not differing


SEEN = """
const selected = window.Htx && window.Htx.annotationStore && window.Htx.annotationStore.selected;
return selected && selected.type === 'annotation' ? selected.names.get('party').isVisible : null;
"""


@pytest.mark.parametrize("around", [False, True])
def test_the_editor_shows_a_control_under_a_condition_as_camvo_expects(
    studio: LabelStudio, browser: Browser, around: bool
) -> None:
    differing = []
    for attributes, topic, seen in FORMS:
        value = {"choices": [topic]}
        region = {"from_name": "topic", "to_name": "text", "type": "choices", "value": value}
        template = Template(attributes, conditional(attributes, around=around))
        browser.visit(opened(studio, template, {"result": [region] if topic else []}))
        wanted = essence([region] if topic else [])
        if form(browser, wanted) != wanted or browser.script(SEEN) is not seen:
            differing.append((attributes, topic))
    assert not differing
