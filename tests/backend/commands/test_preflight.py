"""What ``camvo connect`` finds out before it changes anything in Label Studio."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from front_thread import Front
from label_studio_api import PROJECT, LabelStudioApi
from pydantic import SecretStr
from whole_backend import Backend, votes

from backend import settings
from backend.commands.connect import ProjectConnection, Wanted
from backend.commands.shared.backend_client import BackendClient
from backend.commands.shared.output import Fact
from backend.questions.objects import FOR_PEOPLE_ONLY
from backend.settings import Environment

GUARDS = {"basic_auth_user": "ada", "basic_auth_pass": "a-password", "webhook_secret": "hush"}
IMAGES = '<View><Image name="i" value="$i"/><Choices name="c" toName="i">{}</Choices></View>'.format(
    '<Choice value="a"/><Choice value="b"/>'
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a guarded server."""
    folder = tmp_path_factory.mktemp("server")
    with Backend(folder, votes(red="Glad"), environment=GUARDS) as backend, Front(backend.app) as front:
        yield f"http://127.0.0.1:{front.port}"


def facts(api: LabelStudioApi, url: str, title: str = "camvo", **changes: str | None) -> list[Fact]:
    given = {name: value for name, value in (GUARDS | changes).items() if value is not None}
    environment = Environment(
        basic_auth_user=given.get("basic_auth_user"),
        **{name: SecretStr(value) for name, value in given.items() if name != "basic_auth_user"},
    )
    backend = BackendClient(url, environment)
    wanted = Wanted(PROJECT, url, title, environment)
    try:
        return list(ProjectConnection(api.client(), wanted).check(backend, settings.load(None)))
    finally:
        backend.close()


def failing(facts: list[Fact]) -> str:
    [text] = [fact.text for fact in facts if fact.holds is False]
    return text


def test_all_holds_with_the_servers_secrets_and_nothing_is_changed(api: LabelStudioApi, url: str) -> None:
    assert all(fact.holds for fact in facts(api, url))
    assert api.writes == []


def test_without_the_servers_credentials_both_variables_are_named(api: LabelStudioApi, url: str) -> None:
    text = failing(facts(api, url, basic_auth_user=None, basic_auth_pass=None))
    assert "BASIC_AUTH_USER and BASIC_AUTH_PASS" in text


@pytest.mark.parametrize("secret", ["another", None])
def test_a_wrong_webhook_secret_is_found_before_any_webhook(
    api: LabelStudioApi, url: str, secret: str | None
) -> None:
    assert "CAMVO_WEBHOOK_SECRET" in failing(facts(api, url, webhook_secret=secret))


def test_another_model_version_names_both(api: LabelStudioApi, url: str) -> None:
    text = failing(facts(api, url, title="mine"))
    assert "'camvo'" in text
    assert "'mine'" in text


def test_a_server_that_is_not_camvo_is_refused(api: LabelStudioApi) -> None:
    assert "is not CaMVo" in failing(facts(api, api.url))


def test_a_server_that_only_label_studio_may_reach_is_left_to_it(api: LabelStudioApi) -> None:
    [server] = [fact for fact in facts(api, "http://127.0.0.1:1") if fact.name == "server"]
    assert server.holds is None


def test_a_control_without_predictions_is_named_with_the_reason(api: LabelStudioApi, url: str) -> None:
    config = str(api.project["label_config"])
    brush = '<Image name="i" value="$i"/><Brush name="paint" toName="i"/></View>'
    api.project["label_config"] = config.replace("</View>", brush)
    told = facts(api, url)
    partly, unsent = [fact.text for fact in told if fact.holds is None]
    assert partly.startswith("paint (Brush) stays blank: ")
    assert unsent == 'field "i": no question that is asked reads it'
    assert not any(fact.holds is False for fact in told)


def test_what_models_are_shown_is_listed_in_the_order_of_the_page(api: LabelStudioApi, url: str) -> None:
    config = str(api.project["label_config"])
    api.project["label_config"] = config.replace("<View>", '<View><Header value="Read it all."/>')
    assert [fact.text for fact in facts(api, url) if fact.name == "sent"] == [
        'words "Read it all."',
        'field "text"',
        "question mood",
    ]


@pytest.mark.parametrize(
    ("config", "reason"),
    [
        ("<View", "cannot be read"),
        (IMAGES, "no control gets a prediction"),  # the default models have no vision
    ],
)
def test_a_config_without_any_prediction_fails(
    api: LabelStudioApi, url: str, config: str, reason: str
) -> None:
    api.project["label_config"] = config
    assert reason in failing(facts(api, url))


def test_a_chat_that_the_editor_cannot_draw_is_said_to_be_so(api: LabelStudioApi, url: str) -> None:
    choices = '<Choices name="c" toName="t"><Choice value="a"/><Choice value="b"/></Choices>'
    api.project["label_config"] = f'<View><Chat name="t" value="$t"/>{choices}</View>'
    assert any("cannot draw a Chat" in fact.text for fact in facts(api, url))


def instructions(api: LabelStudioApi, url: str, **settings_: object) -> Fact:
    loaded = settings.load(None).model_copy(update=settings_)
    backend = BackendClient(url, Environment())
    try:
        connection = ProjectConnection(api.client(), Wanted(PROJECT, url, "camvo", Environment()))
        [fact] = [fact for fact in connection.check(backend, loaded) if fact.name == "instructions"]
    finally:
        backend.close()
    return fact


def test_it_says_whether_models_read_the_projects_instructions(api: LabelStudioApi, url: str) -> None:
    assert instructions(api, url).text == "the project has none, for annotators or for models"
    api.project["expert_instruction"] = "<p>Judge the writer.</p>"
    assert "models read what annotators read, 4 tokens" in instructions(api, url).text
    assert "before those of camvo.yaml" in instructions(api, url, instructions="Irony is sad.").text
    assert "project_instructions: false" in instructions(api, url, project_instructions=False).text
    api.project["expert_instruction"] += f"<p>{FOR_PEOPLE_ONLY}</p><p>Lunch is at 12.</p>"
    assert f"above {FOR_PEOPLE_ONLY!r}, 4 tokens" in instructions(api, url).text


def test_instructions_beyond_a_models_context_are_found_before_anything_changes(
    api: LabelStudioApi, url: str
) -> None:
    api.project["expert_instruction"] = "word " * 130_000
    fact = instructions(api, url)
    assert fact.holds is False
    assert "shorten them" in fact.text
    assert api.writes == []
