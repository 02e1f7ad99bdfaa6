"""From the ``policy`` section of the settings to a policy."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from backend.settings import PolicySettings
from camvo.aggregation import LABEL_VOTE, Aggregation
from camvo.named_policies import named
from camvo.policy import Policy

_OF_THE_PAPER: Final = frozenset({"delta", "k_min", "n0", "confidence"})
"""Parameters that only Algorithm 1 has: whoever sets one and names no policy means that one."""


def policy_of(
    settings: PolicySettings, aggregations: Iterable[Aggregation] = (), *, alone: bool = False
) -> Policy:
    """The policy that the settings name; its parameters were validated with them.

    Where they name none it is ``sequential``, but ``camvo`` where one of its own parameters is set or a
    question has no label to vote on: certificates are about labels, without them everyone would be asked.

    Args:
        settings: the section ``policy``.
        aggregations: how the votes on each of the task's questions are counted.
        alone: whether somebody may wait for this one task: whoever is asked is then asked at once.
    """
    given = settings.model_dump()
    if alone:
        given["max_stages"] = 1
    papers = settings.model_fields_set & _OF_THE_PAPER or any(one != LABEL_VOTE for one in aggregations)
    return named(settings.name or ("camvo" if papers else "sequential"), given)
