"""camvo.yaml, extra_params and the environment: what they say, and how their mistakes are told."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from backend.errors import ConfigError, ModelUnknownError
from backend.settings import Environment, ModelSettings, Settings, export, load
from backend.settings.policies import policy_of

# the public format, as the README has it
EXAMPLE = """
models:
  - name: gpt-4o              # what people see
    model: openai/gpt-4o      # litellm's name
    input_price: 2.5          # dollars per million tokens; litellm's price map when left out
    output_price: 10.0
    api_base: null            # any further litellm parameter is passed on
    api_key_env: OPENAI_API_KEY
    temperature: 0.25
    timeout: 30
    max_concurrency: 64
  - {name: b, model: openai/b, input_price: 0, output_price: 0, seed: 7}
  - {name: c, model: openai/c, input_price: 1, output_price: 2}
policy: {name: camvo, delta: 0.97, k_min: 3, alpha: 0.25, lambda_l: 1.0, lambda_r: 1.0, n0: 10, confidence: beta, estimator: moments}
budget: {project_usd: null, day_usd: null}
audit: 0.0
deadline: 85
model_version: camvo
"""  # noqa: E501 - a line of the public format
THREE = "models: [{name: a, model: x/a}, {name: b, model: x/b}, {name: c, model: x/c}]\n"


@pytest.fixture
def write(tmp_path: Path) -> Callable[[str], Path]:
    def written(text: str) -> Path:
        path = tmp_path / "camvo.yaml"
        path.write_text(text, encoding="utf-8")
        return path

    return written


@pytest.fixture
def mistake(write: Callable[[str], Path]) -> Callable[[str], ConfigError]:
    def told(text: str) -> ConfigError:
        with pytest.raises(ConfigError) as caught:
            load(write(text))
        return caught.value

    return told


def model_entry(**fields: object) -> str:
    """A pool whose third model has these fields."""
    entries: list[dict[str, object]] = [
        {"name": "a", "model": "x/a"},
        {"name": "b", "model": "x/b"},
        {"name": "c", "model": "x/c"},
    ]
    entries[2] |= fields
    return yaml.safe_dump({"models": entries})


# -- the file


def test_the_public_format_is_read_as_written(write: Callable[[str], Path]) -> None:
    settings = load(write(EXAMPLE))
    first, second, _ = settings.models
    assert (first.name, first.model, first.input_price, first.output_price) == (
        "gpt-4o",
        "openai/gpt-4o",
        2.5,
        10.0,
    )
    assert (first.api_key_env, first.temperature, first.timeout) == ("OPENAI_API_KEY", 0.25, 30.0)
    assert first.parameters == {}  # null means absent
    assert (second.input_price, second.parameters) == (0.0, {"seed": 7})
    assert settings.policy.delta == 0.97


def test_everything_the_example_writes_out_is_the_default(write: Callable[[str], Path]) -> None:
    written = yaml.safe_load(EXAMPLE)
    assert load(write(EXAMPLE)) == load(
        write(yaml.safe_dump({"models": written["models"], "policy": {"name": "camvo"}}))
    )


def test_empty_sections_are_the_defaults(write: Callable[[str], Path]) -> None:
    assert load(write(THREE + "policy:\nbudget:\n")) == load(write(THREE))


@pytest.mark.parametrize("text", [None, "policy: {name: camvo, delta: 0.9}"])
def test_without_models_the_pool_is_the_embedded_voters(
    write: Callable[[str], Path], text: str | None
) -> None:
    settings = load(None if text is None else write(text))
    assert len(settings.models) >= 5
    assert all(model.model.startswith("embedded/") for model in settings.models)


def test_settings_cannot_be_changed(write: Callable[[str], Path]) -> None:
    settings = load(write(THREE))
    with pytest.raises(ValidationError):
        settings.audit = 0.5


@pytest.mark.parametrize("text", ["budget: {project_usd: 1,000}", "policy: {name: joint, worth: 2,5}"])
def test_a_number_with_a_comma_is_refused_with_how_to_write_it(
    write: Callable[[str], Path], text: str
) -> None:
    with pytest.raises(ConfigError, match="decimals with a point"):
        load(write(THREE + text))


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path) -> None:
    (tmp_path / "camvo.yaml").write_bytes(b"\xef\xbb\xbf" + THREE.encode())
    assert len(load(tmp_path / "camvo.yaml").models) == 3


def test_models_may_share_lines_through_a_yaml_anchor(write: Callable[[str], Path]) -> None:
    text = "models: [&m {name: a, model: x/a, timeout: 5}, {<<: *m, name: b}, {<<: *m, name: c}]"
    assert [(m.name, m.timeout) for m in load(write(text)).models] == [("a", 5), ("b", 5), ("c", 5)]


@pytest.mark.parametrize(
    ("text", "where", "value", "fix"),
    [
        (model_entry(input_price=-1), "models[2].input_price", "-1", "0 or more"),
        (model_entry(input_price=float("inf")), "models[2].input_price", "inf", "finite"),
        (model_entry(output_price=float("nan")), "models[2].output_price", "nan", ""),
        (model_entry(input_price=True), "models[2].input_price", "True", "a number"),
        (model_entry(input_price="cheap"), "models[2].input_price", "cheap", "a number"),
        (model_entry(timeout=0), "models[2].timeout", "0", "more than 0"),
        (model_entry(max_concurrency=0), "models[2].max_concurrency", "0", "1 or more"),
        (model_entry(max_concurrency=1.5), "models[2].max_concurrency", "1.5", "whole number"),
        (model_entry(max_tokens=-5), "models[2].max_tokens", "-5", "1 or more"),
        (model_entry(rpm=0), "models[2].rpm", "0", "1 or more"),
        (model_entry(temperature=-0.1), "models[2].temperature", "-0.1", "0 or more"),
        (model_entry(name=False), "models[2].name", "False", "quotes"),
        (model_entry(name=""), "models[2].name", "empty", "text"),
        (model_entry(name=" c"), "models[2].name", "' c'", "remove"),
        (model_entry(name="a"), "models[2].name", "'a'", "unique name"),
        (model_entry(structured_output="perhaps"), "models[2].structured_output", "perhaps", "true or false"),
        (model_entry(input_prise=1), "models[2].input_prise", "not a key", "input_price?"),
        ("models: [{name: a, model: openai/a, input_price: 2,5}]", "models[0].5", "not a key", "2.5"),
        (model_entry(temprature=1), "models[2].temprature", "not a key", "temperature?"),
        (model_entry(stream=True), "models[2].stream", "cannot be set", "leave it out"),
        (model_entry(n=3), "models[2].n", "cannot be set", "leave it out"),
        (model_entry(messages=[]), "models[2].messages", "cannot be set", "leave it out"),
        (model_entry(request_timeout=3), "models[2].request_timeout", "cannot be set", "timeout"),
        (model_entry(response_format={}), "models[2].response_format", "cannot be set", "structured_output"),
        (model_entry(parameters={"rpm": 3}), "models[2].rpm", "below parameters", "move it up"),
        (model_entry(parameters=[1]), "models[2].parameters", "a list", "key: value"),
        ("models: [{name: a}]", "models[0].model", "missing", "add it"),
        ("models: []", "models", "empty", "at least one"),
        ("models: a", "models", "'a'", "a list"),
        ("models: [a]", "models[0]", "'a'", "key: value"),
        ("models:", "models", "null", "a list"),
        (THREE + "policy: {name: camvo, delta: 1.01}", "policy.delta", "1.01", "1 or less"),
        (THREE + "policy: {name: camvo, delta: yes}", "policy.delta", "True", "a number"),
        (THREE + "policy: {name: camvo, delta: .nan}", "policy.delta", "nan", ""),
        (THREE + "policy: {name: camvo, k_min: 0}", "policy.k_min", "0", "1 or more"),
        (THREE + "policy: {name: camvo, k_min: 4}", "policy.k_min", "4", "3 or less"),
        (THREE + "policy: {name: camvo, alpha: -1}", "policy.alpha", "-1", "0 or more"),
        (THREE + "policy: {name: camvo, lambda_l: 0}", "policy.lambda_l", "0", "0.01 or more"),
        (THREE + "policy: {name: camvo, lambda_r: -1}", "policy.lambda_r", "-1", "0 or more"),
        (THREE + "policy: {name: camvo, n0: 0}", "policy.n0", "0", "1 or more"),
        (THREE + "policy: {name: best}", "policy.name", "best", "'camvo'"),
        (THREE + "policy: {name: single}", "policy.model", "missing", "a, b, c"),
        (THREE + "policy: {name: single, model: d}", "policy.model", "'d'", "a, b, c"),
        (THREE + "policy: {name: camvo, detla: 0.9}", "policy.detla", "not a key", "delta?"),
        (
            THREE + "policy: {k_min: 3}",
            "policy.name",
            "missing",
            "camvo, ccamvo, joint, baseline",
        ),
        (THREE + "policy: {name: null, agreement: 0.9}", "policy.name", "missing", "add one of camvo"),
        (
            THREE + "policy: {name: joint, k_min: 3}",
            "policy.k_min",
            "camvo and ccamvo, not of joint",
            "camvo",
        ),
        (
            THREE + "policy: {name: camvo, agreement: 0.9}",
            "policy.agreement",
            "of joint, not",
            "remove it",
        ),
        (
            THREE + "policy: {name: ccamvo, confidence: exact}",
            "policy.confidence",
            "camvo, not of cc",
            "camvo",
        ),
        (THREE + "policy: {name: camvo, model: a}", "policy.model", "of single, not of camvo", "single"),
        (THREE + "policy: [1]", "policy", "a list", "key: value"),
        (THREE + "budget: {day_usd: -1}", "budget.day_usd", "-1", "0 or more"),
        (THREE + "budget: {dayusd: 1}", "budget.dayusd", "not a key", "day_usd?"),
        (THREE + "audit: 1", "audit", "1", "less than 1"),
        (THREE + "deadline: 100", "deadline", "100", "less than 100"),
        (THREE + "deadline: 0", "deadline", "0", "more than 0"),
        (THREE + "retries: -1", "retries", "-1", "0 or more"),
        (THREE + "concurrency: 0", "concurrency", "0", "1 or more"),
        (THREE + "modles: 1", "modles", "not a key", "models?"),
        (THREE + "xyzzy: 1", "xyzzy", "not a key", "known: models, policy"),
        (THREE + "audit: 0.1\naudit: 0.2", "audit", "lines 2 and 3", "keep one"),
        (
            THREE + "policy: {name: camvo, delta: 0.9, k_min: 1, delta: 0.8}",
            "policy.delta",
            "twice",
            "keep one",
        ),
        ("models: [{name: a, name: b}]", "models[0].name", "twice", "keep one"),
    ],
)
def test_a_mistake_is_told_with_its_place_its_value_and_what_to_do(
    mistake: Callable[[str], ConfigError], text: str, where: str, value: str, fix: str
) -> None:
    error = mistake(text)
    assert error.where == f"camvo.yaml: {where}"
    assert value in error.message
    assert fix in str(error.fix)
    assert error.fix


@pytest.mark.parametrize(
    ("text", "part"),
    [("", "empty"), ("# only a comment\n", "empty"), ("- a\n- b\n", "a list"), ("just words", "just words")],
)
def test_a_file_that_holds_no_mapping_is_refused(
    mistake: Callable[[str], ConfigError], text: str, part: str
) -> None:
    assert part in mistake(text).message


def test_a_redact_function_is_loaded_with_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "camvo.yaml"
    path.write_text(f"{THREE}redact: redactors:heron\n", "utf-8")
    assert load(path).redact == "redactors:heron"
    assert load(path).for_project({"delta": 0.9}).redact == "redactors:heron"


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("heron", "'heron' does not name a function (give it as module:function)"),
        ("no_such_module:heron", "'no_such_module' cannot be imported (ModuleNotFoundError"),
        ("redactors:ostrich", "'redactors' has no function 'ostrich' (correct the name)"),
        ("redactors:NOT_A_FUNCTION", "'redactors' has no function 'NOT_A_FUNCTION' (correct the name)"),
    ],
)
def test_a_redact_function_that_cannot_be_loaded_is_a_mistake(
    mistake: Callable[[str], ConfigError], name: str, says: str
) -> None:
    error = mistake(f"{THREE}redact: {name}\n")
    assert error.where == "camvo.yaml: redact"
    assert says in str(error)


def test_a_project_cannot_switch_redaction_off() -> None:
    with pytest.raises(ConfigError, match="is not a key of CaMVo"):
        load(None).for_project({"redact": None})


def test_without_libyaml_the_same_is_read(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    with_it = load(write(EXAMPLE))
    monkeypatch.delattr(yaml, "CSafeLoader")
    assert load(write(EXAMPLE)) == with_it


def test_what_libyaml_alone_refuses_is_read(
    write: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Strict(yaml.SafeLoader):
        def get_single_node(self) -> None:
            raise yaml.YAMLError

    monkeypatch.setattr(yaml, "CSafeLoader", Strict)
    assert [model.name for model in load(write(THREE)).models] == [
        model["name"] for model in yaml.safe_load(THREE)["models"]
    ]


def test_a_tab_is_named_with_its_line(mistake: Callable[[str], ConfigError]) -> None:
    error = mistake("models:\n\t- name: a\n")
    assert error.where == "camvo.yaml: line 2, column 1"
    assert error.fix == "indent with spaces"


@pytest.mark.parametrize(
    "text", ["models: [", "a: b: c", "a: *nowhere", "a: !python/object:x y", "a\x00b", "--- 1\n--- 2"]
)
def test_broken_yaml_is_a_config_error(mistake: Callable[[str], ConfigError], text: str) -> None:
    error = mistake(text)
    assert str(error.where).startswith("camvo.yaml")
    assert error.fix


def test_a_date_that_is_none_is_a_config_error(mistake: Callable[[str], ConfigError]) -> None:
    assert "quotes" in str(mistake("model_version: 2024-99-99").fix)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml"):
        load(tmp_path / "nowhere.yaml")


def test_a_folder_and_a_file_that_is_no_text_are_config_errors(tmp_path: Path) -> None:
    (tmp_path / "latin.yaml").write_bytes("models: é".encode("latin-1"))
    for path in (tmp_path, tmp_path / "latin.yaml"):
        with pytest.raises(ConfigError):
            load(path)


def test_all_mistakes_are_begun_at_once(mistake: Callable[[str], ConfigError]) -> None:
    error = mistake(THREE + "audit: 2\ndeadline: -1\npolicy: {name: camvo, delta: 7}")
    assert all(place in str(error) for place in ("audit", "deadline", "policy.delta"))


@pytest.mark.parametrize(
    ("text", "where", "fix"),
    [
        ("MODELS: []", "MODELS", "did you mean models?"),
        (THREE + "budgett: {day_usd: 1}", "budgett", "did you mean budget?"),
        (THREE + "budget: {dayusd: 1}", "budget.dayusd", "did you mean day_usd?"),
        (THREE + "day_usd: 1", "day_usd", "did you mean budget.day_usd?"),
        (THREE + "url_env: X", "url_env", "did you mean alerts.url_env?"),
        (THREE + "budget: {audit: 0.1}", "budget.audit", "did you mean audit, outside budget?"),
        (THREE + "humans: {pirce: 1}", "humans.pirce", "did you mean price?"),
        (THREE + "policy: {name: jiont}", "policy.name", "did you mean joint?"),
        (THREE + "policy: jiont", "policy", "write policy: {name: joint}"),
        (THREE + "policy: {name: single, model: B}", "policy.model", "did you mean b?"),
        (
            "models: [{name: a, model: x/a, api_key_evn: X}]",
            "models[0].api_key_evn",
            "did you mean api_key_env?",
        ),
        ("models: [{name: a, model: x/a, apibase: X}]", "models[0].apibase", "did you mean api_base?"),
    ],
)
def test_the_intended_word_stands_beside_the_wrong_one(
    mistake: Callable[[str], ConfigError], text: str, where: str, fix: str
) -> None:
    error = mistake(text)
    assert (error.where, error.fix) == (f"camvo.yaml: {where}", fix)


def test_an_unknown_key_of_a_model_goes_to_litellm(write: Callable[[str], Path]) -> None:
    settings = load(write(model_entry(api_base="http://local", top_p=0.5, parameters={"seed": 1})))
    assert settings.models[2].parameters == {"api_base": "http://local", "top_p": 0.5, "seed": 1}


def test_a_parameter_that_looks_misspelt_can_be_passed_on_all_the_same(write: Callable[[str], Path]) -> None:
    settings = load(write(model_entry(parameters={"timeouts": 1})))
    assert settings.models[2].parameters == {"timeouts": 1}


def test_k_min_is_not_compared_for_policies_without_it(write: Callable[[str], Path]) -> None:
    one = "models: [{name: a, model: x/a}]\n"
    assert load(write(one + "policy: {name: single, model: a}")).policy.model == "a"
    assert load(write(one + "policy: {name: majority}")).policy.name == "majority"


# -- secrets


@pytest.mark.parametrize(
    "fields",
    [
        {"api_key": "sk-secret"},
        {"api_key_env": "sk-secret"},
        {"api_key_env": "sksecret"},
        {"name": "", "extra_headers": {"authorization": "sk-secret"}},
        {"parameters": {"api_key": "sk-secret"}},
        {"timeout": -1, "api_base": "https://sk-secret@host/v1", "aws_secret_access_key": "sk-secret"},
    ],
)
def test_a_secret_in_the_file_is_not_echoed(
    mistake: Callable[[str], ConfigError], fields: dict[str, object]
) -> None:
    assert "secret" not in str(mistake(model_entry(**fields))).replace("aws_secret_access_key", "")


def test_a_key_in_the_file_is_refused_with_the_way_to_do_it(mistake: Callable[[str], ConfigError]) -> None:
    error = mistake(model_entry(api_key="sk-1"))
    assert error.where == "camvo.yaml: models[2].api_key"
    assert "api_key_env" in str(error.fix)


def test_a_broken_line_with_a_secret_is_not_quoted(mistake: Callable[[str], ConfigError]) -> None:
    assert "sk-secret" not in str(mistake('models:\n  - api_key: "sk-secret\n  name: a\n'))


def test_parameters_are_kept_out_of_repr() -> None:
    model = ModelSettings(name="a", model="x/a", parameters={"extra_headers": {"x": "sk-secret"}})
    assert "sk-secret" not in f"{model!r} {Settings(models=(model,), policy={'name': 'camvo', 'k_min': 1})!r}"


# -- printing


# -- extra_params


@pytest.fixture
def settings(write: Callable[[str], Path]) -> Settings:
    return load(write(THREE + "instructions: Be brief.\npolicy: {name: camvo, delta: 0.9, k_min: 2}"))


@pytest.mark.parametrize("nothing", [None, {}, "", " ", "null", "{}", {"delta": None, "models": None}])
def test_without_extra_params_the_settings_stay(settings: Settings, nothing: Any) -> None:
    assert settings.for_project(nothing) == settings


@pytest.mark.parametrize("form", [lambda params: params, json.dumps], ids=["object", "string"])
def test_a_project_overrides_these_settings_and_no_more(
    settings: Settings, form: Callable[[Any], Any]
) -> None:
    params = {
        "delta": 0.5,
        "k_min": 1,
        "max_stages": 7,
        "worth": 50,
        "models": ["c", "a"],
        "instructions": "Take your time.",
        "prefill": 0.25,
        "show_votes": True,
    }
    own = settings.for_project(form(params))
    assert (own.policy.delta, own.policy.k_min, own.instructions) == (0.5, 1, "Take your time.")
    assert (own.policy.max_stages, own.policy.worth) == (7, 50.0)
    assert ([model.name for model in own.models], own.show_votes) == (["a", "c"], True)
    assert own.prefill == 0.25
    restored = own.model_copy(
        update={
            "policy": settings.policy,
            "models": settings.models,
            "instructions": "Be brief.",
            "prefill": 0.5,
            "show_votes": False,
        }
    )
    assert restored == settings


@pytest.mark.parametrize(
    ("params", "where", "part"),
    [
        ({"detla": 0.5}, "extra_params.detla", "delta?"),
        (
            {"budget": {}},
            "extra_params.budget",
            "known: delta, k_min, worth, worth_usd, recall, agreement, max_stages",
        ),
        ({"delta": 2}, "extra_params.delta", "1 or less"),
        ({"delta": "high"}, "extra_params.delta", "a number"),
        ('{"delta": NaN}', "extra_params.delta", "nan"),
        ({"k_min": 4}, "extra_params.k_min", "3 or less"),
        ({"worth": 0}, "extra_params.worth", "more than 0"),
        ({"worth": 1, "worth_usd": 1}, "extra_params.worth_usd", "keep one of both"),
        ({"max_stages": 0}, "extra_params.max_stages", "1 or more"),
        ({"first": 3}, "extra_params.first", "not a key"),
        ({"models": ["a"]}, "extra_params.models", "k_min"),
        ({"models": []}, "extra_params.models", "at least one"),
        ({"models": "a"}, "extra_params.models", "a list"),
        ({"models": ["a", 1]}, "extra_params.models[1]", "quotes"),
        ({"models": ["a", "a", "b"]}, "extra_params.models[1]", "once"),
        ({"instructions": 5}, "extra_params.instructions", "quotes"),
        ({"show_votes": "perhaps"}, "extra_params.show_votes", "true or false"),
        ("{delta: 1}", "extra_params", "JSON"),
        ("[1]", "extra_params", "object"),
        (["a"], "extra_params", "object"),
    ],
)
def test_a_mistake_in_extra_params_names_its_key(
    settings: Settings, params: Any, where: str, part: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        settings.for_project(params)
    assert caught.value.where == where
    assert part in str(caught.value)


@pytest.mark.parametrize(
    ("policy", "params", "where"),
    [
        ("", {"worth_usd": {"Fraud": 1}}, "extra_params.worth_usd"),
        ("", {"worth": {"Fraud": 2}, "agreement": 0.9}, "extra_params.worth"),
        ("policy: {name: joint, agreement: 0.9}", {"recall": {"Fraud": 0.9}}, "extra_params.recall"),
        ("policy: {name: joint, worth: {Fraud: 50}}", {"agreement": 0.9}, "extra_params.agreement"),
    ],
)
def test_what_a_project_cannot_set_together_is_refused(
    write: Callable[[str], Path], policy: str, params: Any, where: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        load(write(THREE + policy)).for_project(params)
    assert caught.value.where == where


def test_a_contradiction_without_effect_is_accepted(settings: Settings) -> None:
    own = settings.for_project({"worth_usd": {"Fraud": 1}})
    assert policy_of(own.policy) == policy_of(settings.policy)


def test_a_model_that_is_not_in_the_pool_is_told_apart(settings: Settings) -> None:
    with pytest.raises(ModelUnknownError) as caught:
        settings.for_project({"models": ["a", "zz"]})
    assert caught.value.where == "extra_params.models[1]"


def test_a_project_cannot_leave_out_the_single_model(write: Callable[[str], Path]) -> None:
    single = load(write(THREE + "policy: {name: single, model: a}"))
    with pytest.raises(ConfigError) as caught:
        single.for_project({"models": ["b"]})
    assert caught.value.where == "extra_params.models"


# -- the environment


@pytest.fixture
def clean(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in (
        "DATABASE_URL",
        "CONFIG",
        "HOST",
        "PORT",
        "WORKERS",
        "THREADS",
        "LOG_LEVEL",
        "WEBHOOK_SECRET",
    ):
        monkeypatch.delenv(f"CAMVO_{name}", raising=False)
    for name in ("BASIC_AUTH_USER", "BASIC_AUTH_PASS", "PROMETHEUS_MULTIPROC_DIR"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


def test_an_empty_environment_gives_the_defaults(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("CAMVO_CONFIG", "")
    environment = Environment()
    assert environment.database_url == "sqlite:///camvo.sqlite"
    assert (environment.config, environment.basic_auth_user, environment.port) == (None, None, 9090)


def test_every_variable_is_read(clean: pytest.MonkeyPatch) -> None:
    variables = {
        "CAMVO_DATABASE_URL": "sqlite:///x.sqlite",
        "CAMVO_CONFIG": "my.yaml",
        "BASIC_AUTH_USER": "ann",
        "BASIC_AUTH_PASS": "pw",
        "CAMVO_WEBHOOK_SECRET": "hook",
        "CAMVO_HOST": "0.0.0.0",  # noqa: S104 - only read
        "CAMVO_PORT": "1234",
        "CAMVO_WORKERS": "2",
        "CAMVO_THREADS": "9",
        "CAMVO_LOG_LEVEL": "DEBUG",
        "CAMVO_MAX_BODY_MB": "3",
        "CAMVO_MAX_TASKS": "7",
        "PROMETHEUS_MULTIPROC_DIR": "metrics",
    }
    for name, value in variables.items():
        clean.setenv(name, value)
    read = Environment()
    assert (read.database_url, read.config) == ("sqlite:///x.sqlite", Path("my.yaml"))
    assert read.basic_auth_pass is not None
    assert read.webhook_secret is not None
    assert (read.basic_auth_user, read.basic_auth_pass.get_secret_value()) == ("ann", "pw")
    assert read.webhook_secret.get_secret_value() == "hook"
    assert (read.host, read.port, read.workers, read.threads) == ("0.0.0.0", 1234, 2, 9)  # noqa: S104
    assert (read.log_level, read.max_body_mb, read.max_tasks) == ("debug", 3, 7)
    assert read.prometheus_multiproc_dir == Path("metrics")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CAMVO_PORT", "70000"),
        ("CAMVO_PORT", "http"),
        ("CAMVO_WORKERS", "0"),
        ("CAMVO_THREADS", "0"),
        ("CAMVO_MAX_TASKS", "0"),
        ("CAMVO_LOG_LEVEL", "loud"),
    ],
)
def test_a_variable_that_cannot_be_read_is_named(clean: pytest.MonkeyPatch, name: str, value: str) -> None:
    clean.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        Environment()
    assert caught.value.where == name
    assert value in caught.value.message


@pytest.mark.parametrize("given", ["BASIC_AUTH_USER", "BASIC_AUTH_PASS"])
def test_half_of_the_credentials_is_refused_and_the_other_half_named(
    clean: pytest.MonkeyPatch, given: str
) -> None:
    clean.setenv(given, "sk-secret")
    with pytest.raises(ConfigError) as caught:
        Environment()
    assert {given, caught.value.where} == {"BASIC_AUTH_USER", "BASIC_AUTH_PASS"}
    assert "sk-secret" not in str(caught.value)


def test_the_environment_shows_no_secret(clean: pytest.MonkeyPatch) -> None:
    for name in ("BASIC_AUTH_USER", "BASIC_AUTH_PASS", "CAMVO_WEBHOOK_SECRET"):
        clean.setenv(name, "user" if name.endswith("USER") else "sk-secret")
    clean.setenv("CAMVO_DATABASE_URL", "postgresql://u:sk-secret@host/db")
    assert "sk-secret" not in repr(Environment())


def test_keys_are_found_by_the_variable_that_each_model_names(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("KEY_OF_A", " sk-a\n")
    clean.setenv("KEY_OF_B", "")
    models = [
        ModelSettings(name="a", model="x/a", api_key_env="KEY_OF_A"),
        ModelSettings(name="b", model="x/b", api_key_env="KEY_OF_B"),
        ModelSettings(name="c", model="x/c"),
    ]
    assert Environment().keys(models) == {"a": "sk-a"}


def test_exported_variables_reach_the_environment(clean: pytest.MonkeyPatch) -> None:
    clean.setenv("PROMETHEUS_MULTIPROC_DIR", "before")
    export(PROMETHEUS_MULTIPROC_DIR="after")
    assert Environment().prometheus_multiproc_dir == Path("after")
