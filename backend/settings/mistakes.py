"""Pydantic's validation errors as one ``ConfigError`` that says where, what is wrong, and what to do."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping, Sequence
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from backend.errors import ConfigError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_MASK = "***"

_SECRET_KEY = re.compile(
    r"(?:^|[^a-z])(?:api|access)?-?(?:key|keys|token|secret|password|passwd|pass|pwd|credentials?|auth|"
    r"authorization|bearer|cookie|headers?)(?:$|[^a-z])",
    re.IGNORECASE,
)
_USER_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_SECRET_IN_QUERY = re.compile(
    r"(?<=[?&])((?:api[-_]?)?key|token|secret|sig|signature|password)=[^&#\s]+", re.IGNORECASE
)


def _looks_secret(key: str) -> bool:
    """Whether a value under this key must not be shown: ``api_token``, but not ``max_tokens``."""
    return _SECRET_KEY.search(key) is not None


def masked(key: str, value: object) -> object:
    """Return a copy of the ``value`` of ``key`` that may be printed.

    Mappings and lists are copied recursively. Users, passwords and keys in addresses are masked everywhere.
    """
    if value is not None and _looks_secret(key):
        return _MASK
    if isinstance(value, Mapping):
        return {str(name): masked(str(name), item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(key, item) for item in value]
    if isinstance(value, str):
        return _SECRET_IN_QUERY.sub(rf"\1={_MASK}", _USER_IN_ADDRESS.sub(_MASK, value))
    return value


_LONGEST_VALUE = 60

# Pydantic's error type → (what is wrong, what to do). Both may use {value}, {key} and pydantic's context.
_WORDS: dict[str, tuple[str, str]] = {
    "missing": ("is missing", "add it"),
    "greater_than_equal": ("{value} is too small", "give {ge} or more"),
    "greater_than": ("{value} is too small", "give more than {gt}"),
    "less_than_equal": ("{value} is too large", "give {le} or less"),
    "less_than": ("{value} is too large", "give less than {lt}"),
    "finite_number": ("{value} is not finite", "give a finite number"),
    "literal_error": ("{value} is not known here", "give {expected}"),
    "string_type": ("{value} is not text", "put it in quotes"),
    "string_too_short": ("is empty", "give some text"),
    "string_pattern_mismatch": ("{value} does not have the right form", "give text that matches {pattern}"),
    "too_short": ("is empty", "give at least one"),
    # YAML reads {day_usd: 1,000} as the limit 1, and a key 0
    "invalid_key": ("{value} is not a key", "write numbers without commas, decimals with a point"),
}
_NUMBER = ("{value} is not a number", "give a number")
_WHOLE = ("{value} is not a whole number", "give a whole number")
_SWITCH = ("{value} is neither true nor false", "give true or false")
_LIST = ("{value} is not a list", "give a list, each entry after a dash")
_MAPPING = ("{value} is not a mapping", "give keys and values, as key: value")
_WORDS |= dict.fromkeys(("float_type", "float_parsing"), _NUMBER)
_WORDS |= dict.fromkeys(("int_type", "int_parsing", "int_from_float", "int_parsing_size"), _WHOLE)
_WORDS |= dict.fromkeys(("bool_type", "bool_parsing"), _SWITCH)
_WORDS |= dict.fromkeys(("tuple_type", "list_type"), _LIST)
_WORDS |= dict.fromkeys(("model_type", "model_attributes_type", "dict_type", "mapping_type"), _MAPPING)


def _refuse_bool(value: object) -> object:
    if isinstance(value, bool):  # YAML reads yes and on as true, which pydantic would accept as 1
        raise PydanticCustomError("float_type", "not a number")
    return value


Real = Annotated[float, BeforeValidator(_refuse_bool)]
"""A float that refuses true and false."""

Whole = Annotated[int, BeforeValidator(_refuse_bool)]
"""An int that refuses true and false."""

AtLeastOne = Annotated[Whole, Field(ge=1)]

FROZEN = ConfigDict(frozen=True, extra="forbid")
"""The configuration of every section: immutable, unknown keys refused."""


def mistake(key: str, message: str, fix: str) -> PydanticCustomError:
    """Return the exception that our validators raise."""
    return PydanticCustomError("camvo", "{message}", {"key": key, "message": message, "fix": fix})


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Ask whether the closest known word was meant; list all of them if none is close."""
    options = list(known)
    close = closest(word, options)
    return f"did you mean {close}?" if close else f"known: {', '.join(options)}"


def closest(word: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the known word that is most like a word, whatever its case; ``None`` if none is close.

    Args:
        word: what somebody wrote.
        known: the words that would be right.
        likeness: the least similarity, in [0, 1].
    """
    options = {option.casefold(): option for option in known}
    close = difflib.get_close_matches(word.casefold(), options, n=1, cutoff=likeness)
    return options[close[0]] if close else None


def shown(value: object) -> str:
    """Return a value as a message may quote it: short, and with passwords in addresses masked."""
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list | tuple | set):
        return "a list"
    text = "null" if value is None else repr(masked("", value))
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}…"


def config_error(
    error: ValidationError, source: str, model: type[BaseModel], *, joint: str = ": "
) -> ConfigError:
    """Return the first mistake as a ``ConfigError``; its message lists the others, one per line."""
    raised = error.errors(include_url=False)
    mistakes = [_mistake_of(details, model) for details in raised if not _is_consequence(details, raised)]
    path, message, fix = mistakes[0]
    where = f"{source}{joint}{path}" if path else source
    if len(mistakes) == 1:
        return ConfigError(message, where=where, fix=fix)
    # Each fix follows its own mistake; the error's own fix would come after all of them.
    others = "".join(f"\nalso {other}: {what} ({how})" for other, what, how in mistakes[1:])
    return ConfigError(f"{message} ({fix}){others}", where=where)


def _is_consequence(details: ErrorDetails, others: Iterable[ErrorDetails]) -> bool:
    """Whether a list only counts as empty because its entries are invalid: pydantic counts valid ones."""
    place = details["loc"]
    return details["type"] == "too_short" and any(
        len(other["loc"]) > len(place) and other["loc"][: len(place)] == place for other in others
    )


def _mistake_of(details: ErrorDetails, model: type[BaseModel]) -> tuple[str, str, str]:
    """Return the path, what is wrong there, and what to do."""
    context: dict[str, Any] = details.get("ctx") or {}
    path = _path((*details["loc"], *filter(None, [context.get("key")])))
    if details["type"] == "camvo":
        return path, context["message"], context["fix"]
    key = next((part for part in reversed(details["loc"]) if isinstance(part, str)), "")
    if details["type"] == "extra_forbidden":
        return path, "is not a key of CaMVo", _intended_key(key, model, details["loc"][:-1])
    value = "the value" if any(_looks_secret(str(p)) for p in details["loc"]) else shown(details["input"])
    wrong, fix = _WORDS.get(details["type"], (f"{{value}}: {details['msg']}", "correct it"))
    words = {**context, "value": value, "key": key}
    if details["type"] == "literal_error" and isinstance(details["input"], str):
        close = closest(details["input"], re.findall(r"'([^']*)'", context["expected"]))
        fix = f"did you mean {close}?" if close else fix
    return path, wrong.format_map(words), fix.format_map(words)


def _path(location: Iterable[int | str]) -> str:
    return "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location).removeprefix(
        "."
    )


def _intended_key(key: str, model: type[BaseModel], location: Sequence[int | str]) -> str:
    """Ask whether another key was meant: one of the same section, or the same key in another section."""
    keys = _keys(model, location)
    if closest(key, keys) is None:
        for name, field in model.model_fields.items():
            section = _section(field.annotation)
            if section is not None and key in section.model_fields:
                return f"did you mean {name}.{key}?"
        if key in model.model_fields:
            return f"did you mean {key}, outside {_path(location)}?"
    return did_you_mean(key, keys)


def _section(annotation: Any) -> type[BaseModel] | None:
    """The model of a section, which may be left out; ``None`` if the annotation is of a value or a list."""
    options = [annotation, *get_args(annotation)] if get_origin(annotation) is UnionType else [annotation]
    return next((each for each in options if isinstance(each, type) and issubclass(each, BaseModel)), None)


def _keys(model: type[BaseModel], location: Iterable[int | str]) -> list[str]:
    """Return the keys of the model at ``location`` below ``model``."""
    for part in location:
        model = _section(model.model_fields[str(part)].annotation) or model
    return list(model.model_fields)
