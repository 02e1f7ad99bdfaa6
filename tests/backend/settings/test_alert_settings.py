"""The setting ``alerts``: it names a variable, and mistakes never repeat what may be a credential."""

from __future__ import annotations

from pathlib import Path

import pytest

from backend import settings
from backend.errors import ConfigError

SECRET = "https://hooks.example.org/services/T0/B0/a-secret-path"


def loaded(tmp_path: Path, text: str) -> settings.Settings:
    file = tmp_path / "camvo.yaml"
    file.write_text(f"{text}\n")
    return settings.load(file)


def test_it_names_a_variable_or_nothing(tmp_path: Path) -> None:
    assert loaded(tmp_path, "alerts: {url_env: CAMVO_ALERTS_URL}").alerts.url_env == "CAMVO_ALERTS_URL"
    assert loaded(tmp_path, "alerts: null").alerts.url_env is None


@pytest.mark.parametrize(
    "alerts", [f"{{url_env: '{SECRET}'}}", f"'{SECRET}'", f"['{SECRET}']", "{url_env: 5}"]
)
def test_an_address_in_the_file_is_refused_without_being_repeated(tmp_path: Path, alerts: str) -> None:
    with pytest.raises(ConfigError) as raised:
        loaded(tmp_path, f"alerts: {alerts}")
    assert "alerts" in str(raised.value.where)
    assert "environment variable" in str(raised.value)
    assert "a-secret-path" not in str(raised.value)


def test_a_wrong_key_is_refused_without_its_value(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        loaded(tmp_path, f"alerts: {{url: '{SECRET}'}}")
    assert "url_env" in str(raised.value)
    assert "a-secret-path" not in str(raised.value)
