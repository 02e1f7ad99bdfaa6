"""From the ``policy`` section of the settings to a policy."""

from __future__ import annotations

from backend.settings import PolicySettings
from camvo.named_policies import named
from camvo.policy import Policy


def policy_of(settings: PolicySettings, *, alone: bool = False) -> Policy:
    """The policy that the settings name; its parameters were validated with them.

    Args:
        settings: the section ``policy``.
        alone: whether somebody may wait for this one task: whoever is asked is then asked at once.
    """
    given = settings.model_dump()
    if alone:
        given["max_stages"] = 1
    return named(settings.name, given)
