"""The settings: ``camvo.yaml``, the environment, and the ``extra_params`` of one Label Studio project.

The file lists the models and says how tasks are decided (:class:`Settings`). The environment says where CaMVo
runs, and holds the secrets (:class:`Environment`). Both are frozen. Every mistake is a
:class:`~backend.errors.ConfigError` that names the place, the value and the fix.
"""

from __future__ import annotations

from backend.settings.environment import WEBHOOK_HEADER, Environment, child_environment, export
from backend.settings.models import ModelSettings
from backend.settings.policies import PolicySettings
from backend.settings.settings import BudgetSettings, Settings, load

__all__ = [
    "WEBHOOK_HEADER",
    "BudgetSettings",
    "Environment",
    "ModelSettings",
    "PolicySettings",
    "Settings",
    "child_environment",
    "export",
    "load",
]
