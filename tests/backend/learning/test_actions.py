"""Webhook actions: what is prepared before the transaction."""

from __future__ import annotations

import pytest
from label_studio_requests import Annotation, Project, annotated, annotations_deleted, tasks_deleted

from backend import settings
from backend.label_studio.payloads import WebhookEvent, parse_webhook
from backend.learning import actions
from backend.ledger import Ledger
from backend.ledger.human_annotations import Annotations
from backend.questions import LabelConfig, parse_label_config


def prepare(event: WebhookEvent) -> actions._Transaction:
    return actions.prepare_event(event, settings.load(None), lambda: 1.0)


@pytest.fixture
def parsed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The label configs that were parsed."""
    configs: list[str] = []

    def record(xml: str) -> LabelConfig:
        configs.append(xml)
        return parse_label_config(xml)

    monkeypatch.setattr(actions, "parse_label_config", record)
    return configs


def test_the_label_config_is_parsed_before_the_transaction(sqlite_ledger: Ledger, parsed: list[str]) -> None:
    store = prepare(parse_webhook(annotated(Annotation(number=1, task=1, mood="Sad"))))
    assert len(parsed) == 1
    with sqlite_ledger.write() as connection:
        store(connection)
    assert len(parsed) == 1
    with sqlite_ledger.read() as connection:
        [annotation] = Annotations(connection, Project().key).of_task(1)
    assert annotation.labels == {"mood": "Sad"}


@pytest.mark.parametrize("body", [annotations_deleted(1), tasks_deleted(1)])
def test_an_action_without_annotations_parses_no_label_config(
    parsed: list[str], body: dict[str, object]
) -> None:
    prepare(parse_webhook(body))
    assert parsed == []
