"""Every kind of vote under every policy: predicted, quoted, recounted, and predicted and quoted again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Project, predict, task
from whole_backend import Backend, says

from backend.testing import Reply

CONTROLS = {
    "mood": (
        "<Choices name='mood' toName='note'><Choice value='Glad'/><Choice value='Sad'/></Choices>",
        "Glad",
    ),
    "topics": (
        "<Choices name='topics' toName='note' choice='multiple'><Choice value='Food'/><Choice value='Sea'/>"
        "</Choices>",
        ["Food"],
    ),
    "stars": ("<Rating name='stars' toName='note'/>", 4),
    "size": ("<Number name='size' toName='note'/>", 2.5),
    "day": ("<DateTime name='day' toName='note' only='date'/>", "2026-03-01"),
    "gist": ("<TextArea name='gist' toName='note' camvo_instructions='Sum it up.'/>", "A day."),
    "better": ("<Pairwise name='better' toName='note,other'/>", "left"),
    "tree": (
        "<Taxonomy name='tree' toName='note'><Choice value='Food'><Choice value='Bread'/></Choice>"
        "<Choice value='Sea'/></Taxonomy>",
        ["Food > Bread"],
    ),
    "order": ("<Ranker name='order' toName='hits'/>", ["b", "a"]),
    "names": (
        "<Labels name='names' toName='note'><Label value='PER'/></Labels>",
        [{"quote": "Entry", "before": "", "label": "PER"}],
    ),
}
OBJECTS = (
    "<Text name='note' value='$text'/><Text name='other' value='$ref'/><List name='hits' value='$hits'/>"
)
HITS = [{"id": "a", "title": "Bread"}, {"id": "b", "title": "Sea"}]
FIRST, LATER = range(1, 41), range(41, 44)
FEW = range(1, 13)
"""The first tasks where the policy learns from few."""
POLICIES = ("camvo", "ccamvo", "joint", "baseline", "majority", "single")


def project(*names: str) -> Project:
    controls = "".join(CONTROLS[name][0] for name in names)
    return Project(label_config=f"<View>{OBJECTS}{controls}</View>")


def entry(number: int) -> dict[str, Any]:
    return task(number, data={"text": f"Entry {number} of the diary.", "ref": number, "hits": HITS})


def answer_all(body: dict[str, Any]) -> Reply:
    return says(**{name: given for name, (_, given) in CONTROLS.items()})


def quoted(backend: Backend, asked: Project, first: range = FIRST) -> dict[str, Any]:
    body = predict([entry(number) for number in (*first, *LATER)], asked)
    body = {key: body[key] for key in ("project", "label_config", "tasks")}
    counted = backend.post("/quote", body).get_json()["counted"]
    made: dict[str, Any] = backend.post(
        "/quote", {**body, "tasks": body["tasks"][:1], "counted": counted}
    ).get_json()
    return made


@pytest.mark.parametrize("policy", POLICIES)
def test_every_control_is_predicted_quoted_and_recounted(tmp_path: Path, policy: str) -> None:
    asked, first = project(*CONTROLS), FIRST if policy == "joint" else FEW
    chosen = {"name": policy, **({"model": "red"} if policy == "single" else {})}
    with Backend(tmp_path, answer_all, policy=chosen) as backend:
        assert all(backend.predict(*map(entry, first), project=asked))
        assert quoted(backend, asked, first)["done"]
        assert backend.post("/recount", {"project": asked.key}).get_json()["done"]
        later = backend.predict(*map(entry, LATER), project=asked)
        assert [len({item["from_name"] for item in each["result"]}) for each in later] == [len(CONTROLS)] * 3
        assert backend.client.get("/status", headers={"Accept": "application/json"}).status_code == 200


@pytest.mark.parametrize("name", CONTROLS)
def test_a_project_of_one_control_is_quoted_again_once_rounds_are_known(tmp_path: Path, name: str) -> None:
    asked = project(name)
    with Backend(tmp_path, answer_all, policy={"name": "joint"}) as backend:
        assert all(backend.predict(*map(entry, FIRST), project=asked))
        assert quoted(backend, asked)["done"]
