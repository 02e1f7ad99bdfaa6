"""``camvo connect``, ``disconnect`` and ``predict``: what is refused and printed."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from command_line import called
from label_studio_api import KEY, PROJECT, LabelStudioApi

from backend.commands import project_commands
from backend.commands.bulk.predicting import Tally
from backend.errors import ConfigError

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def api(api: LabelStudioApi) -> LabelStudioApi:
    api.project["model_version"] = ""
    return api


# -- bad input: one line, exit code 2, nothing asked


@pytest.mark.parametrize(
    ("arguments", "environment", "named"),
    [
        (["connect"], {}, "--label-studio: .*LABEL_STUDIO_URL"),
        (["predict", "--label-studio", NOWHERE], {}, "LABEL_STUDIO_API_KEY: .*docs/label_studio.md"),
        (
            ["disconnect", "--label-studio", "studio:8080"],
            {"LABEL_STUDIO_API_KEY": KEY},
            "--label-studio: ",
        ),
        (
            ["connect", "--backend-url", "http://a:b@camvo:9090"],
            {},
            "--backend-url: .*BASIC_AUTH_USER",
        ),
        (["connect", "--extra-params", "delta"], {}, "--extra-params: "),
        (["connect", "--extra-params", "delta=1.7"], {}, "extra_params.delta: .*1.7"),
        (["predict"], {"LABEL_STUDIO_URL": f"http://me:{KEY}@127.0.0.1"}, "LABEL_STUDIO_URL: "),
        (["connect"], {"BASIC_AUTH_USER": "u", "BASIC_AUTH_PASS": KEY}, "CAMVO_WEBHOOK_SECRET: "),
    ],
)
def test_bad_input_is_one_line_that_names_it(
    arguments: list[str], environment: dict[str, str], named: str, tmp_path: Path
) -> None:
    done = called(*arguments, "--project", "3", cwd=tmp_path, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert re.match(f"camvo: {named}", line), line
    assert KEY not in line


# -- what is found out on the way: ✗ and exit code 1


def test_what_cannot_be_tried_from_here_is_no_failure(tmp_path: Path, api: LabelStudioApi) -> None:
    given = ["--label-studio", api.url, "--project", str(PROJECT), "--backend-url", NOWHERE]
    done = called("connect", *given, cwd=tmp_path, LABEL_STUDIO_API_KEY=KEY)
    untried = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("–")]
    assert (done.returncode, untried) == (0, ["server", "webhook", "prediction"]), done.stdout
    assert KEY not in done.stdout + done.stderr


def test_a_private_address_is_named_and_ends_with_1(tmp_path: Path, api: LabelStudioApi) -> None:
    api.says("POST", "/api/webhooks/", "webhook_private")
    given = ["--label-studio", api.url, "--project", str(PROJECT)]
    done = called("connect", *given, cwd=tmp_path, LABEL_STUDIO_API_KEY=KEY)
    [line] = [line for line in done.stdout.splitlines() if line.startswith("✗")]
    assert done.returncode == 1
    assert "SSRF_PROTECTION_ENABLED=false" in line


# -- extra params


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ([], None),
        (["{}"], {}),
        (['{"delta": 0.9, "models": ["a"]}'], {"delta": 0.9, "models": ["a"]}),
        (["delta=0.9", "k_min=2"], {"delta": 0.9, "k_min": 2}),
        (["models=[a, b]", "instructions=Be = brief"], {"models": ["a", "b"], "instructions": "Be = brief"}),
        (['{"delta": 0.9}', "delta=0.8"], {"delta": 0.8}),
    ],
)
def test_extra_params_are_an_object_or_pairs(given: list[str], read: object) -> None:
    assert project_commands._parse_extra_params(given) == read


@pytest.mark.parametrize("text", ["", "=1", "delta", "{", "{delta", "[1]", "delta=["])
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        project_commands._parse_extra_params([text])


# -- the summary of predict


def test_what_went_well_is_one_line_and_each_trouble_one_more() -> None:
    assert len(Tally(created=3).summary().splitlines()) == 1
    assert len(Tally(created=3, undecided=1, too_large=2, refused=1).summary().splitlines()) == 4
