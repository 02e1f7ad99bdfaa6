"""Redaction in the real app: what reaches the provider, what comes back, and what the ledger holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Annotation, Project, annotated, annotations_deleted, setup, task
from whole_backend import Backend, prompt_of, says, votes

MAIL, PHONE, CARD = "jane.doe@example.org", "020 7946 0958", "4111 1111 1111 1111"
SECRETS = (MAIL, "jane", PHONE, "7946", CARD, "4111")

EVERYTHING = Project(
    label_config="""<View>
  <Text name="text" value="$text"/>
  <Labels name="ner" toName="text"><Label value="Contact" alias="CON"/><Label value="Place"/></Labels>
  <HyperText name="page" value="$page"/>
  <HyperTextLabels name="links" toName="page"><Label value="Contact"/></HyperTextLabels>
  <Paragraphs name="talk" value="$talk"/>
  <ParagraphLabels name="claims" toName="talk"><Label value="Contact"/></ParagraphLabels>
  <Table name="facts" value="$facts"/><Chat name="chat" value="$chat"/>
  <Choices name="kind" toName="facts"><Choice value="Visit"/><Choice value="Bill"/></Choices>
  <Choices name="tone" toName="chat"><Choice value="Warm"/><Choice value="Cold"/></Choices>
  <List name="items" value="$items"/><Ranker name="order" toName="items"/>
  <TextArea name="short" toName="text" camvo_instructions="Who wrote?"/>
</View>"""
)
DATA = {
    "text": f"😀 Write to {MAIL} in Rome, or ring {PHONE}.",
    "page": f"<p>Mail <b>jane.doe</b>@example.org now</p><p>or {PHONE}</p>",
    "talk": [{"author": MAIL, "text": "Hello!"}, {"author": "Bob", "text": f"😀 Is {MAIL} yours?"}],
    "facts": {"card": CARD, "call": 442079460958, "mails": [MAIL]},
    "chat": [{"role": "user", "content": f"My card is {CARD}."}, {"role": "assistant", "content": "Thanks."}],
    "items": [{"id": "a", "title": MAIL, "html": f"<i>{PHONE}</i>"}, {"id": "b", "body": "no more"}],
}


def quote(words: str, label: str = "Contact") -> dict[str, str]:
    return {"quote": words, "before": "", "label": label}


ANSWER = {
    "ner": [quote("<EMAIL>"), quote("Rome", "Place"), quote("ring <PHONE>")],
    "links": [quote("<EMAIL>")],
    "claims": [quote("<EMAIL>")],
    "kind": "Bill",
    "tone": "Warm",
    "order": ["b", "a"],
    "short": "<EMAIL>",
}
PERSONAL = "backend.questions.personal_data:redact"


def stored(folder: Path) -> bytes:
    """All bytes of the ledger's files."""
    return b"".join(path.read_bytes() for path in folder.glob("ledger.sqlite*"))


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Backend]:
    folder = tmp_path_factory.mktemp("redacted")
    with Backend(folder, lambda body: says(**ANSWER), redact=PERSONAL) as backend:  # type: ignore[arg-type]
        backend.predict(task(1, project=EVERYTHING, data=DATA), project=EVERYTHING)
        yield backend


@pytest.fixture(scope="module")
def values(backend: Backend) -> dict[str, list[dict[str, Any]]]:
    """Control → the values of its regions."""
    [prediction] = backend.predict(task(1, project=EVERYTHING, data=DATA), project=EVERYTHING)
    by_control: dict[str, list[dict[str, Any]]] = {}
    for region in prediction["result"]:
        by_control.setdefault(region["from_name"], []).append(region["value"])
    return by_control


def test_no_provider_received_an_address_or_a_number(backend: Backend) -> None:
    assert backend.server.count() == 3
    for request in backend.server.requests:
        sent = json.dumps(request.body, ensure_ascii=False)
        assert not [secret for secret in SECRETS if secret in sent]
        assert "😀 Write to <EMAIL> in Rome, or ring <PHONE>." in prompt_of(request.body)
        assert "Mail <EMAIL> now\nor <PHONE>" in prompt_of(request.body)
        assert "<EMAIL>: Hello!\nBob: 😀 Is <EMAIL> yours?" in prompt_of(request.body)
        assert "user: My card is <CARD>." in prompt_of(request.body)
        assert '"a": <EMAIL>\n<PHONE>' in prompt_of(request.body)


def test_the_spans_are_right_on_the_original_texts(values: dict[str, list[dict[str, Any]]]) -> None:
    text = str(DATA["text"])
    spans = [(value["labels"], text[value["start"] : value["end"]], value["text"]) for value in values["ner"]]
    assert spans == [
        (["CON"], MAIL, MAIL),
        (["Place"], "Rome", "Rome"),
        (["CON"], f"ring {PHONE}", f"ring {PHONE}"),
    ]
    [link] = values["links"]
    assert (link["globalOffsets"], link["text"]) == ({"start": 5, "end": 5 + len(MAIL)}, MAIL)
    [claim] = values["claims"]
    assert (claim["start"], claim["startOffset"], claim["endOffset"]) == ("1", 6, 6 + len(MAIL))
    assert claim["text"] == MAIL


def test_the_other_questions_are_answered_as_ever(values: dict[str, list[dict[str, Any]]]) -> None:
    assert values["kind"] == [{"choices": ["Bill"]}]
    assert values["order"] == [{"ranker": {"order": ["b", "a"]}}]
    assert values["short"] == [{"text": ["<EMAIL>"]}]


def test_the_ledger_holds_what_left_the_house(backend: Backend) -> None:
    data = stored(backend._folder)
    assert b"<EMAIL>" in data
    # Four digits may stand in any stored number.
    assert not [secret for secret in SECRETS if not secret.isdigit() and secret.encode() in data]


def test_a_task_whose_text_cannot_be_redacted_fails_and_is_neither_sent_nor_logged(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with Backend(
        tmp_path, votes(red="Glad", green="Glad", blue="Sad"), redact="redactors:failing"
    ) as backend:
        results = backend.predict(task(1, "The heron by the river."), task(2, "A day of sun."))
        assert (bool(results[0]), bool(results[1])) == (False, True)
        assert backend.server.count() == 3
        assert not [r for r in backend.server.requests if "heron" in json.dumps(r.body)]
        assert backend.metric("camvo_tasks_total", outcome="redaction_failed") >= 1
        metrics = backend.client.get("/metrics").text
    log = "".join(capfd.readouterr())
    assert "redaction_failed" in log
    assert "it raised ValueError" in log
    assert "heron" not in log + metrics
    assert b"heron" not in stored(tmp_path)


def with_examples(number: int, text: str) -> dict[str, Any]:
    return {**annotated(Annotation(number, number, "Sad")), "task": task(number, text)}


def test_examples_are_redacted_even_if_their_texts_were_stored_before(tmp_path: Path) -> None:
    script = votes(red="Glad", green="Glad", blue="Sad")
    with Backend(tmp_path, script, few_shot=3) as backend:
        backend.post("/setup", setup(Project()))
        backend.predict(task(1, "A heron by the river."))
        backend.hook(with_examples(1, "A heron by the river."))
    with Backend(tmp_path, script, few_shot=3, redact="redactors:heron") as backend:
        backend.predict(task(1, "A heron by the river."))  # a round of the new epoch, with its human label
        assert len({round_.key.epoch for round_ in backend.rounds(1)}) == 2
    with Backend(tmp_path, script, few_shot=3, redact="redactors:heron") as backend:
        for number in range(2, 8):
            backend.predict(task(number, f"One heron near river {number}."))
        assert backend.rounds(7)[0].plan["examples"] == [1]
        prompts = [prompt_of(request.body) for request in backend.server.requests]
    assert [prompt for prompt in prompts if "A <BIRD> by the river." in prompt and "One <BIRD>" in prompt]
    assert not [prompt for prompt in prompts if "heron" in prompt]


PICTURE = Project(
    label_config="""<View><Image name="photo" value="$photo"/><Text name="note" value="$text"/>
  <Choices name="mood" toName="photo"><Choice value="Glad"/><Choice value="Sad"/></Choices></View>"""
)


@pytest.mark.parametrize("allowed", [False, True])
def test_images_are_shown_only_if_a_setting_allows_it(tmp_path: Path, allowed: bool) -> None:
    pictured = task(1, project=PICTURE, data={"photo": "https://example.org/heron.png", "text": "The heron."})
    script = votes(red="Glad", green="Glad", blue="Sad")
    with Backend(
        tmp_path,
        script,
        redact="redactors:heron",
        unredacted_images=allowed,
        entries={"vision": True},
    ) as backend:
        [prediction] = backend.predict(pictured, project=PICTURE)
        assert bool(prediction) == allowed
        assert backend.server.count() == (3 if allowed else 0)
        failed = backend.metric("camvo_tasks_total", outcome="image_unavailable")
        assert (failed >= 1) or allowed
        texts = [
            part["text"] for r in backend.server.requests for part in r.body["messages"][1]["content"][:1]
        ]
        assert all("The <BIRD>." in text for text in texts)


def test_a_stored_prediction_needs_no_model_and_a_webhook_no_redaction(tmp_path: Path) -> None:
    with Backend(tmp_path, votes(red="Glad", green="Glad", blue="Sad"), redact="redactors:heron") as backend:
        first = backend.predict(task(1, "A heron."))
        assert backend.predict(task(1, "A heron.")) == first
        assert backend.server.count() == 3
        backend.hook(annotated(Annotation(1, 1, "Sad")))
        assert backend.learnt() == {"red": (1, 0.0), "green": (1, 0.0), "blue": (1, 1.0)}
        backend.hook(annotations_deleted(1))
        assert backend.learnt() == {"red": (1, 1.0), "green": (1, 1.0), "blue": (1, 0.0)}
