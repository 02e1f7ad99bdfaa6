"""What can be set: ``camvo.yaml``, the environment, and the ``extra_params`` of one Label Studio project.

The file says what is asked and how it is decided (:class:`Settings`), the environment where CaMVo runs and
what is secret (:class:`Environment`). Both are frozen; every mistake is a
:class:`~camvo.errors.ConfigError` that names the place, the value and what to do about it.
"""

from __future__ import annotations

from .environment import Environment, child_environment, export
from .file import load, render
from .models import ModelSettings
from .settings import BudgetSettings, PolicySettings, Settings

__all__ = [
    "BudgetSettings",
    "Environment",
    "ModelSettings",
    "PolicySettings",
    "Settings",
    "child_environment",
    "export",
    "load",
    "render",
]
