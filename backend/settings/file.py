"""Reading ``camvo.yaml``."""

from __future__ import annotations

from pathlib import Path

import yaml
from pydantic import ValidationError

from backend.errors import ConfigError
from backend.settings.mistakes import config_error, shown
from backend.settings.models import DEFAULT_MODELS
from backend.settings.settings import Settings


def load(path: Path | None) -> Settings:
    """Load the settings from a file; ``None`` means the defaults.

    The embedded voters are the pool if the file lists no models.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or has an invalid key or value.
    """
    content = {} if path is None else _read_yaml(path)
    if "models" not in content:
        content = {**content, "models": list(DEFAULT_MODELS)}
    try:
        return Settings.model_validate(content)
    except ValidationError as error:
        raise config_error(error, "camvo.yaml" if path is None else path.name, Settings) from None


def _read_yaml(path: Path) -> dict[object, object]:
    where = path.name
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(
            f"there is no file {path}",
            where=where,
            fix="correct the path, or give none to use the embedded voters",
        ) from None
    except UnicodeDecodeError:
        raise ConfigError("is not UTF-8 text", where=where, fix="save it as UTF-8") from None
    except OSError as error:
        raise ConfigError(
            f"cannot be read: {error.strerror}", where=where, fix="give a file that CaMVo can read"
        ) from None
    return _parse(text, where)


def _parse(text: str, where: str) -> dict[object, object]:
    content = None
    try:
        loader = yaml.SafeLoader(text)
        if (node := loader.get_single_node()) is not None:
            _refuse_repeated_keys(node, where, "", set())
            content = loader.construct_document(node)
    except yaml.YAMLError as error:
        raise _syntax_error(error, where) from None
    except ValueError as error:  # PyYAML reads 2024-99-99 as a date
        raise ConfigError(f"a value cannot be read ({error})", where=where, fix="put it in quotes") from None
    if content is None:
        raise ConfigError(
            "is empty", where=where, fix="list the models, or give no file to use the embedded voters"
        )
    if not isinstance(content, dict):
        raise ConfigError(f"{shown(content)} is not a mapping", where=where, fix="begin with models:")
    return content


def _syntax_error(error: yaml.YAMLError, where: str) -> ConfigError:
    """Say where the YAML is invalid, without the line itself, which may hold a secret."""
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or getattr(error, "reason", None) or "is not YAML"
    fix = "indent with spaces" if "\\t" in problem else "correct the line, or the one before it"
    place = where if mark is None else f"{where}: line {mark.line + 1}, column {mark.column + 1}"
    return ConfigError(problem, where=place, fix=fix)


def _refuse_repeated_keys(node: yaml.Node, where: str, path: str, visited: set[int]) -> None:
    """Refuse a mapping with two equal keys: PyYAML would silently keep the last one."""
    if id(node) in visited:  # an anchor may refer to a node that contains it
        return
    visited.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for position, item in enumerate(node.value):
            _refuse_repeated_keys(item, where, f"{path}[{position}]", visited)
    if isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key_node, value_node in node.value:
            key, line = str(key_node.value), key_node.start_mark.line + 1
            below = f"{path}.{key}".removeprefix(".")
            if key in lines:
                raise ConfigError(
                    f"is set twice, in lines {lines[key]} and {line}",
                    where=f"{where}: {below}",
                    fix="keep one",
                )
            lines[key] = line
            _refuse_repeated_keys(value_node, where, below, visited)
