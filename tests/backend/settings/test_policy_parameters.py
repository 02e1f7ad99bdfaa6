"""A policy's parameters are declared once: settings, overrides, the replay's options and the docs follow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from inspect import Signature
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
import typer
from pydantic import ValidationError
from typer.testing import CliRunner

from backend.commands.replay.replay_command import _policy_options
from backend.errors import ConfigError
from backend.settings import ModelSettings, PolicySettings, Settings
from backend.settings.mistakes import config_error
from backend.settings.policies import PolicyOverrides, _overrides_of, _section_of
from camvo.errors import InvalidParameterError
from camvo.policies.joint import Joint
from camvo.policies.named import POLICIES
from camvo.policies.parameters import CLASSES, Parameter, _declared, declared_by

DOCS = Path(__file__).parents[3] / "docs"
POOL = tuple(ModelSettings(name=name, model=f"x/{name}") for name in ("a", "b", "c"))


@dataclass(frozen=True, kw_only=True)
class MadeUp(Joint):
    """The joint policy with parameters of every type, each declared here and nowhere else."""

    patience: Annotated[int, Parameter(help="Rounds to wait.", symbol="π", least=1, most=9)] = 2
    thrift: Annotated[float, Parameter(help="Share to save.", above=0, most=1, sweep="0.1,0.2")] = 0.5
    mood: Annotated[Literal["calm", "eager"], Parameter(help="How to wait.", per_project=False)] = "calm"
    limit: Annotated[float | None, Parameter(help="Most to wait.", least=0, in_replay=False)] = None
    inner: int = 3


MADE = {"patience": 2, "thrift": 0.5, "mood": "calm", "limit": None}
SECTION, OVERRIDES = _section_of([MadeUp]), _overrides_of([MadeUp])


def wrong(model: Any, **values: object) -> ConfigError:
    """The error of a file or of extra params with these values."""
    with pytest.raises(ValidationError) as caught:
        model.model_validate(values)
    return config_error(caught.value, "camvo.yaml", model)


# -- what is made of a made-up policy


def test_the_section_has_its_parameters_with_their_defaults() -> None:
    assert MADE.items() <= SECTION().model_dump().items()
    assert "inner" not in SECTION.model_fields


def test_the_section_takes_values() -> None:
    given = {"patience": 9, "thrift": 0.25, "mood": "eager", "limit": 0.0}
    assert SECTION.model_validate(given).model_dump(exclude_unset=True) == given


@pytest.mark.parametrize(
    ("name", "value", "message", "fix"),
    [
        ("patience", 0, "0 is too small", "give 1 or more"),
        ("patience", 10, "10 is too large", "give 9 or less"),
        ("patience", 1.5, "1.5 is not a whole number", "give a whole number"),
        ("patience", True, "True is not a number", "give a number"),
        ("thrift", 0, "0 is too small", "give more than 0"),
        ("thrift", "much", "'much' is not a number", "give a number"),
        ("limit", float("inf"), "inf is not finite", "give a finite number"),
        ("mood", "eger", "'eger' is not known here", "did you mean eager?"),
        ("patiense", 1, "is not a key of CaMVo", "did you mean patience?"),
    ],
)
def test_a_mistake_says_where_what_and_how_to_mend_it(
    name: str, value: object, message: str, fix: str
) -> None:
    error = wrong(SECTION, **{name: value})
    assert (error.where, error.message, error.fix) == (f"camvo.yaml: {name}", message, fix)


def test_a_project_overrides_those_that_say_so() -> None:
    assert {"patience", "thrift", "limit"} <= OVERRIDES.model_fields.keys()
    assert not {"mood", "inner"} & OVERRIDES.model_fields.keys()
    given = OVERRIDES.model_validate({"patience": 4, "thrift": None})
    assert given.model_dump(exclude_none=True) == {"patience": 4}
    assert wrong(OVERRIDES, patience=0).fix == "give 1 or more"


def test_the_replay_has_an_option_of_each() -> None:
    options = _policy_options([MadeUp], taken={"mood"}, defaults={"thrift": "0.1,0.3"})
    assert {name: each.default for name, each in options.items() if name in MADE} == {
        "patience": 2,
        "thrift": "0.1,0.3",
        "mood": "calm",
    }
    assert options["mood"].name == "policy_mood"


def test_the_help_of_the_replay_says_what_each_is_for() -> None:
    def command(**options: object) -> None: ...

    command.__signature__ = Signature([*_policy_options([MadeUp]).values()])  # type: ignore[attr-defined]
    app = typer.Typer(rich_markup_mode=None)
    app.command()(command)
    printed = " ".join(CliRunner().invoke(app, ["--help"], env={"COLUMNS": "200"}).stdout.split())
    assert "--patience <int> Rounds to wait. [default: 2]" in printed
    assert "--thrift <str> Share to save. A list, e.g. 0.1,0.2. [default: 0.5]" in printed
    assert re.search(r"--mood \S+ How to wait\. \[default: calm\]", printed)


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"patience": 0}, "π must be in [1, 9], got 0"),
        ({"thrift": 0.0}, "thrift must be in (0, 1], got 0.0"),
        ({"mood": "cross"}, 'mood must be "calm" or "eager", got \'cross\''),
        ({"limit": -1.0}, "limit must be not negative and finite, got -1.0"),
        ({"worth": float("nan")}, "worth must be positive and finite, got nan"),
    ],
)
def test_the_policy_itself_refuses_what_is_out_of_bounds(values: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidParameterError) as caught:
        MadeUp(**values)
    assert caught.value.message == said


# -- the policies


def test_a_name_means_the_same_in_every_policy() -> None:
    together = declared_by(POLICIES.values())
    for policy in POLICIES.values():
        assert _declared(policy).items() <= together.items()


def test_the_replay_knows_every_parameter_although_it_imports_no_policy_for_its_help() -> None:
    assert set(_policy_options(CLASSES)) == set(_policy_options(POLICIES.values()))


def test_the_names_that_a_project_may_override_are_known() -> None:
    known = {"delta", "k_min", "worth", "worth_usd", "recall", "agreement", "max_stages"}
    kept_from_projects = {"alpha", "lambda_l", "lambda_r", "n0", "confidence", "estimator", "model"}
    assert known <= PolicyOverrides.model_fields.keys()
    assert not kept_from_projects & PolicyOverrides.model_fields.keys()


def test_the_section_has_the_defaults_of_the_policies() -> None:
    defaults = {
        "name": None,
        "alpha": 0.25,
        "lambda_r": 1.0,
        "lambda_l": 1.0,
        "estimator": "moments",
        "delta": 0.97,
        "k_min": 3,
        "n0": 10,
        "confidence": "beta",
        "worth": 10.0,
        "worth_usd": None,
        "recall": None,
        "agreement": None,
        "max_stages": 3,
        "model": None,
    }
    assert defaults.items() <= PolicySettings().model_dump().items()


def test_a_parameter_that_is_null_has_its_default() -> None:
    section = PolicySettings.model_validate({"name": "joint", "worth": None, "worth_usd": 2.0})
    assert (section.worth, section.worth_usd) == (10.0, 2.0)


def test_a_project_takes_another_unit_of_worth_than_the_server() -> None:
    settings = Settings(models=POOL, policy=PolicySettings(name="joint", worth=33.0))
    own = settings.for_project({"worth_usd": 2.0}).policy
    assert own.model_dump(exclude_unset=True, exclude_none=True) == {"name": "joint", "worth_usd": 2.0}


# -- the docs


def defaults_in(page: str, pattern: str) -> dict[str, str]:
    """Name → default, from the rows of a page's tables whose first cell has the pattern; the first counts."""
    text = (DOCS / page).read_text("utf-8")
    rows = re.findall(rf"^\| {pattern} \| ([^|]*) \|", text, re.MULTILINE)
    return {name: default.strip("` ") for name, default in reversed(rows)}


def shown(default: object) -> str:
    """A default as a table has it."""
    return "none" if default is None else str(default)


def test_the_table_of_settings_has_every_parameter_and_its_default() -> None:
    documented = defaults_in("settings.md", r"`policy\.(\w+)`")
    section = PolicySettings().model_dump(exclude={"name"})
    assert documented == {"name": "required", **{name: shown(value) for name, value in section.items()}}


def test_the_page_of_commands_has_every_parameter_of_the_replay_and_its_default() -> None:
    page = (DOCS / "commands.md").read_text("utf-8").split("## camvo replay")[1].split("\n## ")[0]
    documented = dict(re.findall(r"^- `--([\w-]+)`.*?(?:\[default: (.*?)\])?$", page, re.MULTILINE))
    for name, option in _policy_options(CLASSES).items():
        assert documented[name.replace("_", "-")] == ("" if option.default is None else str(option.default))


def test_the_list_of_extra_params_has_every_parameter() -> None:
    page = (DOCS / "settings.md").read_text("utf-8")
    (listed,) = re.findall(r"A JSON object with any of (.*?)\. ", page, re.DOTALL)
    assert all(f"`{name}`" in listed for name in PolicyOverrides.model_fields)
