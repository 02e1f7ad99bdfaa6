"""Reading ``camvo.yaml``, and printing the settings that came of it."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import ValidationError

from backend.errors import ConfigError

from .masking import masked
from .mistakes import config_error, shown
from .models import ModelSettings
from .settings import Settings


def load(path: Path | None) -> Settings:
    """The settings in a file; where it names no models, and for ``None``, the pool is the embedded voters.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or says something that cannot be.
    """
    content = {} if path is None else _read(path)
    if "models" not in content:
        content = {**content, "models": _embedded()}
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        raise config_error(error, "camvo.yaml" if path is None else path.name, Settings) from None


def render(settings: Settings) -> str:
    """The effective settings as YAML in the form of ``camvo.yaml``, without anything secret."""
    content = settings.model_dump(mode="json")
    content["models"] = [_entry(model) for model in settings.models]
    return yaml.safe_dump(content, sort_keys=False, allow_unicode=True, width=100)


def _entry(model: ModelSettings) -> dict[str, object]:
    own = model.model_dump(mode="json", exclude={"parameters"}, exclude_none=True)
    return own | {key: masked(key, value) for key, value in model.parameters.items()}


def _embedded() -> list[ModelSettings]:
    from backend.settings.built_in_voters import DEFAULT_MODELS  # noqa: PLC0415 - it imports the settings in turn

    return list(DEFAULT_MODELS)


def _read(path: Path) -> dict[object, object]:
    where = path.name
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file {path}",
            where=where,
            fix="correct the path, or name none to try the embedded voters",
        ) from None
    except UnicodeDecodeError:
        raise ConfigError("is no UTF-8 text", where=where, fix="save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror}", where=where, fix="give a file that CaMVo may read"
        ) from None
    return _parse(text, where)


def _parse(text: str, where: str) -> dict[object, object]:
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        if node is not None:
            _refuse_repeated_keys(node, where, "", set())
        content = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _broken(error, where) from None
    except ValueError as error:  # PyYAML takes 2024-99-99 for a date
        raise ConfigError(f"a value cannot be read ({error})", where=where, fix="put it in quotes") from None
    if content is None:
        raise ConfigError(
            "is empty", where=where, fix="list the models, or name no file to try the embedded voters"
        )
    if not isinstance(content, dict):
        raise ConfigError(f"{shown(content)} is not a mapping", where=where, fix="begin with models:")
    return content


def _broken(error: yaml.YAMLError, where: str) -> ConfigError:
    """Where YAML broke, without the line itself, which may hold a secret."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "is no YAML"
    fix = "indent with spaces" if "\\t" in problem else "correct the line, or the one before it"
    place = where if mark is None else f"{where}: line {mark.line + 1}, column {mark.column + 1}"
    return ConfigError(problem, where=place, fix=fix)


def _refuse_repeated_keys(node: yaml.Node, where: str, path: str, seen: set[int]) -> None:
    """PyYAML keeps the last of two equal keys without a word; which one was meant, only the writer knows."""
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            _refuse_repeated_keys(item, where, f"{path}[{position}]", seen)
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            below = f"{path}.{key}".removeprefix(".")
            if key in lines:
                raise ConfigError(
                    f"is there twice, in lines {lines[key]} and {line}",
                    where=f"{where}: {below}",
                    fix="keep one",
                )
            lines[key] = line
            _refuse_repeated_keys(value_node, where, below, seen)
