"""What the README and docs/ say is what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from backend import settings
from backend.learning.actions import ACTIONS
from backend.models import Pool
from backend.questions.controls.tags import SUPPORTED
from backend.settings import Environment, ModelSettings, Settings

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
SETTINGS = (ROOT / "docs" / "settings.md").read_text("utf-8")
HTTP = (ROOT / "docs" / "http.md").read_text("utf-8")
TAGS = (ROOT / "docs" / "tags.md").read_text("utf-8")


def blocks(text: str, language: str) -> list[str]:
    return re.findall(rf"^ *```{language}\n(.*?)^ *```", text, re.DOTALL | re.MULTILINE)


def test_every_install_command_of_the_readme_is_run_by_ci() -> None:
    ci = (ROOT / ".ci" / "run").read_text("utf-8")
    lines = [line for block in blocks(README, "sh") for line in block.splitlines()]
    commands = [line for line in lines if "pip install" in line]
    assert len(commands) == 2
    for command in commands:
        assert f"{command} || exit 1" in ci.splitlines()


def test_the_readmes_camvo_yaml_loads_and_every_model_has_a_price(tmp_path: Path) -> None:
    path = tmp_path / "camvo.yaml"
    path.write_text(blocks(README, "yaml")[0], "utf-8")
    loaded = settings.load(path)
    assert Pool(loaded.models).names == ("gpt-4o", "haiku", "local")


def test_the_documented_defaults_are_the_defaults(tmp_path: Path) -> None:
    path = tmp_path / "camvo.yaml"
    path.write_text(blocks(SETTINGS, "yaml")[0], "utf-8")
    assert settings.load(path) == settings.load(None)


def test_the_readmes_table_names_the_default_of_each_key() -> None:
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (\S[^|]*?) \|", README, re.MULTILINE))
    defaults = settings.load(None).model_dump()
    for key, written in rows.items():
        value = defaults
        for part in key.split("."):
            value = value[part]
        said = yaml.safe_load(written.strip("`"))
        assert (None if said == "none" else said) == value, key


@pytest.mark.parametrize("model", [ModelSettings, Settings, Environment])
def test_every_setting_is_documented(model: type) -> None:
    internal = {"parameters", "prometheus_multiproc_dir"}
    for name, field in model.model_fields.items():  # type: ignore[attr-defined]  # pydantic models have it
        if name in internal:
            continue
        alias = getattr(field.validation_alias, "choices", [None])[-1]
        known_as = (alias or f"CAMVO_{name.upper()}") if model is Environment else name
        assert known_as in SETTINGS, known_as


def test_every_webhook_action_is_documented() -> None:
    for action in ACTIONS:
        assert f"`{action}`" in HTTP


def test_every_tag_that_can_be_voted_on_is_in_the_table_of_tags() -> None:
    listed = {name.lower() for name in re.findall(r"^\| `(\w+)`", TAGS.split("## ")[0], re.MULTILINE)}
    assert listed == SUPPORTED.keys()
