"""Authentication: basic auth, the webhooks' secret header, and every combination of the two."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Annotation, annotated, predict, setup, start_training, task
from whole_backend import Backend, votes

ALL = votes(red="Glad", green="Glad", blue="Sad")
BASIC = {"basic_auth_user": "ada", "basic_auth_pass": "pässword"}
SECRET = {"webhook_secret": "hush"}

RIGHT: dict[str, Any] = {"auth": ("ada", "pässword")}
HEADER: dict[str, Any] = {"headers": {"X-Camvo-Secret": "hush"}}
WRONG_HEADER: dict[str, Any] = {"headers": {"X-Camvo-Secret": "hus"}}
NONE: dict[str, Any] = {}
BEARER: dict[str, Any] = {"headers": {"Authorization": "Bearer hush"}}

_GUARDS = {"open": {}, "basic": BASIC, "secret": SECRET, "both": {**BASIC, **SECRET}}


@pytest.fixture(scope="module")
def backends(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Backend]]:
    backends = {
        name: Backend(tmp_path_factory.mktemp(name), ALL, environment=environment)
        for name, environment in _GUARDS.items()
    }
    for backend in backends.values():
        backend.__enter__()
    yield backends
    for backend in backends.values():
        backend.__exit__(None, None, None)


_PATHS = [
    ("GET", "/versions", None),
    ("GET", "/metrics", None),
    ("GET", "/status", None),
    ("GET", "/nowhere", None),
    ("POST", "/setup", setup()),
    ("POST", "/predict", predict([])),
]


@pytest.mark.parametrize("path", ["/", "/health", "/ready?part=embedder"])
@pytest.mark.parametrize("guard", list(_GUARDS))
def test_health_asks_for_no_credentials(backends: dict[str, Backend], guard: str, path: str) -> None:
    assert backends[guard].client.get(path).status_code != 401


@pytest.mark.parametrize(("method", "path", "body"), _PATHS)
@pytest.mark.parametrize(
    "credentials",
    [
        NONE,
        HEADER,
        BEARER,
        {"auth": ("ada", "wrong")},
        {"auth": ("bob", "pässword")},
        {"auth": ("", "")},
        {"auth": ("pässword", "ada")},
    ],
    ids=["none", "header", "bearer", "wrong-password", "wrong-user", "empty", "swapped"],
)
def test_everything_else_is_refused_without_the_right_credentials(
    backends: dict[str, Backend], method: str, path: str, body: object, credentials: dict[str, Any]
) -> None:
    response = backends["basic"].client.open(path, method=method, json=body, **credentials)
    assert (response.status_code, response.get_json()["code"]) == (401, "unauthorized")


@pytest.mark.parametrize(("method", "path", "body"), _PATHS)
def test_everything_else_is_open_to_the_right_credentials(
    backends: dict[str, Backend], method: str, path: str, body: object
) -> None:
    response = backends["basic"].client.open(path, method=method, json=body, **RIGHT)
    assert response.status_code != 401


def test_credentials_are_not_asked_for_when_none_are_configured(backends: dict[str, Backend]) -> None:
    assert backends["open"].post("/predict", predict([task(1)])).status_code == 200


_ORDINARY = annotated(Annotation(number=1, task=1, mood="Glad"))


@pytest.mark.parametrize(
    ("guard", "credentials", "ordinary", "training"),
    [
        ("open", NONE, 200, 200),
        ("open", HEADER, 200, 200),
        ("basic", NONE, 401, 401),
        ("basic", HEADER, 401, 401),
        ("basic", RIGHT, 200, 200),
        ("basic", {"auth": ("ada", "wrong")}, 401, 401),
        # Label Studio sends START_TRAINING without the header, so it cannot be required
        ("secret", NONE, 401, 200),
        ("secret", WRONG_HEADER, 401, 200),
        ("secret", HEADER, 200, 200),
        ("both", NONE, 401, 401),
        ("both", WRONG_HEADER, 401, 401),
        ("both", HEADER, 200, 200),
        ("both", RIGHT, 200, 200),
        ("both", {"auth": ("ada", "wrong")}, 401, 401),
        ("both", {**RIGHT, **WRONG_HEADER}, 200, 200),
    ],
)
def test_a_webhook_passes_with_the_credentials_or_with_the_secret(
    backends: dict[str, Backend], guard: str, credentials: dict[str, Any], ordinary: int, training: int
) -> None:
    backend = backends[guard]
    assert backend.post("/webhook", _ORDINARY, **credentials).status_code == ordinary
    assert backend.post("/webhook", start_training(), **credentials).status_code == training


def test_a_body_that_cannot_be_read_does_not_get_past_the_secret(backends: dict[str, Backend]) -> None:
    for body in (b"", b"{", b"[" * 100_000):
        response = backends["secret"].client.post("/webhook", data=body)
        assert response.status_code == 401


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({}, {"no_authentication", "webhooks_unguarded"}),
        (BASIC, {"webhooks_will_be_refused"}),
        (SECRET, {"no_authentication"}),
        ({**BASIC, **SECRET}, set()),
    ],
)
def test_an_open_door_is_announced_at_the_start(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], environment: dict[str, str], said: set[str]
) -> None:
    with Backend(tmp_path, ALL, environment=environment):
        pass
    log = capfd.readouterr().err
    warnings = {"no_authentication", "webhooks_unguarded", "webhooks_will_be_refused"}
    assert {warning for warning in warnings if warning in log} == said
