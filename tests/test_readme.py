"""What the README and docs/ say is what the code does."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

import pytest
import yaml

from backend import settings
from backend.learning.actions import ACTIONS
from backend.models import Pool
from backend.questions.tags.registry import CONTROL_TAGS
from backend.settings import Environment, ModelSettings, Settings
from camvo.errors import CamvoError

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text("utf-8")
SETTINGS = (ROOT / "docs" / "settings.md").read_text("utf-8")
ERRORS = (ROOT / "docs" / "errors.md").read_text("utf-8")
HTTP = (ROOT / "docs" / "http.md").read_text("utf-8")
RESULTS = ROOT / "benchmarks" / "RESULTS.md"
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", RESULTS, *sorted((ROOT / "docs").glob("*.md"))]
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


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "benchmarks/RESULTS.md"])
def test_every_link_of_a_page_outside_the_site_leads_somewhere(page: str) -> None:
    for target, anchor in re.findall(
        r"\]\((?!https?://)([^)#]+)(?:#([^)]+))?\)", (ROOT / page).read_text("utf-8")
    ):
        path = (ROOT / page).parent / target
        assert path.exists(), target
        if anchor:
            headings = re.findall(r"^#+ (.+)$", path.read_text("utf-8"), re.MULTILINE)
            assert anchor in {
                re.sub(r"[^\w -]", "", heading).lower().replace(" ", "-") for heading in headings
            }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_file_that_a_page_names_exists(page: Path) -> None:
    folders = ("", "camvo", "backend", "backend/commands", "camvo/scores", "tests")
    roots = [ROOT / folder for folder in folders]
    for name in re.findall(r"`([a-z]\w*(?:/\w+)*(?:/|\.py))`", page.read_text("utf-8")):
        assert any((root / name).exists() for root in roots), name


def test_the_frontier_chart_was_drawn_from_the_table_of_measurements() -> None:
    frontier = runpy.run_path(str(ROOT / "docs" / "images" / "frontier.py"))
    chart = (ROOT / "docs" / "images" / "frontier.svg").read_text("utf-8")
    assert frontier["digest"](frontier["read_table"]()) in chart


def test_only_the_settings_page_has_a_table_of_settings() -> None:
    assert "| `policy." not in README


def test_the_readmes_camvo_yaml_loads_and_every_model_has_a_price(tmp_path: Path) -> None:
    path = tmp_path / "camvo.yaml"
    path.write_text(blocks(README, "yaml")[0], "utf-8")
    loaded = settings.load(path)
    assert Pool(loaded.models).names == ("gpt-4o", "haiku", "local")
    assert loaded.audit > 0.0, "step 5 needs blind tasks"


def table_of_settings() -> dict[str, str]:
    """Key → documented default, from the table of everything but models."""
    table = SETTINGS.split("## All other keys")[1].split("\n## ")[0]
    return dict(re.findall(r"^\| `([\w.]+)` \| (\S[^|]*?) \|", table, re.MULTILINE))


def test_the_table_of_settings_names_the_default_of_each_key() -> None:
    defaults = settings.load(None).model_dump()
    for key, written in table_of_settings().items():
        value = defaults
        for part in key.split("."):
            value = value[part]
        documented = yaml.safe_load(written.strip("`"))
        assert written == "required" or (None if documented == "none" else documented) == value, key


def test_the_table_of_settings_has_every_key() -> None:
    keys = set()
    for name, field in Settings.model_fields.items():
        section = getattr(field.annotation, "model_fields", None)  # policy and budget are models themselves
        keys |= {name} if section is None else {f"{name}.{key}" for key in section}
    assert table_of_settings().keys() == keys - {"models"}


@pytest.mark.parametrize("model", [ModelSettings, Settings, Environment])
def test_every_setting_is_documented(model: type) -> None:
    internal = {"parameters", "prometheus_multiproc_dir"}
    for name, field in model.model_fields.items():  # type: ignore[attr-defined]  # pydantic models have it
        if name in internal:
            continue
        alias = getattr(field.validation_alias, "choices", [None])[-1]
        known_as = (alias or f"CAMVO_{name.upper()}") if model is Environment else name
        assert known_as in SETTINGS, known_as


def error_classes(base: type[CamvoError] = CamvoError) -> set[type[CamvoError]]:
    return {base}.union(*(error_classes(child) for child in base.__subclasses__()))


def test_every_error_code_is_documented() -> None:
    for code in {error.code for error in error_classes()}:
        assert f"`{code}`" in ERRORS, code


def test_every_error_that_a_runtime_logs_without_a_code_is_documented() -> None:
    runtime = (ROOT / "backend" / "runtime.py").read_text("utf-8")
    events = re.findall(r'_log\.error\("(\w+)"(?![^)]*code=)', runtime)
    pages = "".join(page.read_text("utf-8") for page in PAGES)
    assert {"background_work_ended", "late_failure"} <= set(events)
    assert [event for event in events if f"`{event}`" not in pages] == []


def test_every_webhook_action_is_documented() -> None:
    for action in ACTIONS:
        assert f"`{action}`" in HTTP


def test_every_tag_that_can_be_voted_on_is_in_the_table_of_tags() -> None:
    listed = {name.lower() for name in re.findall(r"^\| `(\w+)`", TAGS.split("## ")[0], re.MULTILINE)}
    assert listed == CONTROL_TAGS.keys()
