"""Masking of secrets: values whose key looks like a secret, and passwords in addresses."""

from __future__ import annotations

import re
from collections.abc import Mapping

MASK = "***"

_SECRET_KEY = re.compile(
    r"(?:^|[^a-z])(?:api|access)?-?(?:key|keys|token|secret|password|passwd|pass|pwd|credentials?|auth|"
    r"authorization|bearer|cookie|headers?)(?:$|[^a-z])",
    re.IGNORECASE,
)
_USER_IN_ADDRESS = re.compile(r"(?<=://)[^/@\s]+(?=@)")
_SECRET_IN_QUERY = re.compile(
    r"(?<=[?&])((?:api[-_]?)?key|token|secret|sig|signature|password)=[^&#\s]+", re.IGNORECASE
)


def looks_secret(key: str) -> bool:
    """Whether a value under this key must not be shown: ``api_token``, but not ``max_tokens``."""
    return _SECRET_KEY.search(key) is not None


def masked(key: str, value: object) -> object:
    """Return a copy of the ``value`` of ``key`` that may be printed.

    Mappings and lists are copied recursively. Users, passwords and keys in addresses are masked everywhere.
    """
    if value is not None and looks_secret(key):
        return MASK
    if isinstance(value, Mapping):
        return {str(name): masked(str(name), item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [masked(key, item) for item in value]
    if isinstance(value, str):
        return _SECRET_IN_QUERY.sub(rf"\1={MASK}", _USER_IN_ADDRESS.sub(MASK, value))
    return value
