"""CaMVo: ask the cheapest language models whose weighted vote is confident enough, and learn from the votes.

Start with ``camvo.Question``. The policies, the learned state and the ways of counting votes can also be used
on their own. The library needs NumPy and SciPy only; the server for Label Studio is the extra ``[server]``.

Names are imported when they are first used, so that ``camvo --help`` does not wait for SciPy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from camvo.errors import CamvoError, InvalidParameterError, SnapshotError
    from camvo.policies.camvo import CaMVo, CCaMVo
    from camvo.policies.ensemble import Baseline, Fixed, Majority, Random, Single
    from camvo.policies.joint import Joint
    from camvo.policies.policy import Observation, Plan, Policy
    from camvo.policies.rivals import BestSingle, Cascade, Router
    from camvo.questions import Question, ScoredLabel, Task
    from camvo.replays.replay import VotesTable, replay
    from camvo.scores.guarantee import Guarantee
    from camvo.scores.scorer import Scorer
    from camvo.state.contribution import Contribution
    from camvo.state.state import State
    from camvo.votes.aggregation import Decision
    from camvo.votes.labels import LabelVote, OrderedVote
    from camvo.votes.numbers import NumericVote, OpenNumericVote
    from camvo.votes.rankings import RankingVote
    from camvo.votes.sets import SubsetVote
    from camvo.votes.spans import SpanVote
    from camvo.votes.texts import OpenVote

__all__ = [
    "Baseline",
    "BestSingle",
    "CCaMVo",
    "CaMVo",
    "CamvoError",
    "Cascade",
    "Contribution",
    "Decision",
    "Fixed",
    "Guarantee",
    "InvalidParameterError",
    "Joint",
    "LabelVote",
    "Majority",
    "NumericVote",
    "Observation",
    "OpenNumericVote",
    "OpenVote",
    "OrderedVote",
    "Plan",
    "Policy",
    "Question",
    "Random",
    "RankingVote",
    "Router",
    "ScoredLabel",
    "Scorer",
    "Single",
    "SnapshotError",
    "SpanVote",
    "State",
    "SubsetVote",
    "Task",
    "VotesTable",
    "replay",
]

_MODULES: Final = {
    "camvo.errors": ("CamvoError", "InvalidParameterError", "SnapshotError"),
    "camvo.policies.camvo": ("CCaMVo", "CaMVo"),
    "camvo.policies.ensemble": ("Baseline", "Fixed", "Majority", "Random", "Single"),
    "camvo.policies.joint": ("Joint",),
    "camvo.policies.policy": ("Observation", "Plan", "Policy"),
    "camvo.policies.rivals": ("BestSingle", "Cascade", "Router"),
    "camvo.questions": ("Question", "ScoredLabel", "Task"),
    "camvo.replays.replay": ("VotesTable", "replay"),
    "camvo.scores.scorer": ("Scorer",),
    "camvo.scores.guarantee": ("Guarantee",),
    "camvo.state.contribution": ("Contribution",),
    "camvo.state.state": ("State",),
    "camvo.votes.aggregation": ("Decision",),
    "camvo.votes.labels": ("LabelVote", "OrderedVote"),
    "camvo.votes.numbers": ("NumericVote", "OpenNumericVote"),
    "camvo.votes.rankings": ("RankingVote",),
    "camvo.votes.sets": ("SubsetVote",),
    "camvo.votes.spans": ("SpanVote",),
    "camvo.votes.texts": ("OpenVote",),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
