"""What a replay says at the end: which settings are worth their cost, over all policies."""

from __future__ import annotations

from collections.abc import Sequence

from backend.commands.replay.results import LOWEST, Summary
from camvo.numerics.tolerances import TIE


def verdict(summaries: Sequence[Summary]) -> list[str]:
    """Say how right the full vote is, what meets the targets, and which settings are the best buys."""
    full = summaries[0].means["full_accuracy"]
    if full is None:
        return [
            "No item's truth is known, so neither is the target. Agreement is with the vote of all models"
            " with equal weights.",
            *_best_buys(summaries, "agreement"),
        ]
    return [
        f"The full vote, with all models weighted by their true accuracy, is {full:.1%} right.",
        *_targets(summaries),
        *_best_buys(summaries, "accuracy"),
    ]


def student_note(summaries: Sequence[Summary]) -> list[str]:
    """Say beside which settings the student voted; nothing if it voted beside none."""
    beside = list(dict.fromkeys(summary.policy for summary in summaries if summary.student))
    return [f"The student voted too, for nothing, with {' and '.join(beside)}."] if beside else []


def target_count(summaries: Sequence[Summary]) -> str:
    """Say how many settings met their target, for settings of several tables."""
    met_shares = [met for summary in summaries if (met := summary.means["target_met"]) is not None]
    return f"{met_shares.count(1.0)} of {len(met_shares)} settings met their target in every table drawn."


def best_buys(summaries: Sequence[Summary], measure: str) -> list[Summary]:
    """Return the settings that no other beats, cheapest first.

    A setting is beaten by one that costs no more, is no worse, and is not the same in both. Of several that
    are the same in both, the first is returned.

    Args:
        summaries: of all settings.
        measure: ``accuracy`` or ``agreement``; settings without it are left out.
    """
    known = [summary for summary in summaries if summary.means[measure] is not None]
    ranked = sorted(known, key=lambda summary: (_mean(summary, "cost"), -_mean(summary, measure)))
    best: list[Summary] = []
    for summary in ranked:
        if not best or _mean(summary, measure) > _mean(best[-1], measure) + TIE:
            best.append(summary)
    return best


def named(summary: Summary) -> str:
    """The policy with the parameters that it has."""
    parameters = {"δ": summary.delta, "k_min": summary.k_min, "agreement": summary.agreement_asked}
    words = [f"{name} = {value:g}" for name, value in parameters.items() if value is not None]
    return f"{summary.policy} with {' and '.join(words)}" if words else summary.policy


def _targets(summaries: Sequence[Summary]) -> list[str]:
    """Say how many settings met their own target, and for each δ the cheapest of all that reach as much."""
    with_target = [summary for summary in summaries if summary.means["target_met"] is not None]
    if not with_target:
        return []
    meeting = sum(summary.means["target_met"] == 1.0 for summary in with_target)
    sentences = [f"{meeting} of {len(with_target)} settings met their target in every shuffle."]
    for delta in sorted({summary.delta for summary in with_target if summary.delta is not None}):
        enough = [summary for summary in summaries if _least(summary) >= delta - TIE]
        if not enough:
            nearest = max(summaries, key=_least)
            sentences.append(
                f"Nothing has {delta:.3g} of the full vote's accuracy in every shuffle. {named(nearest)}"
                f" comes nearest, with {_least(nearest):.1%} of it in the worst shuffle."
            )
            continue
        cheapest = min(enough, key=lambda summary: (_mean(summary, "cost"), -_least(summary)))
        sentences.append(
            f"The cheapest with {delta:.3g} of the full vote's accuracy in every shuffle is"
            f" {_bought(cheapest, 'accuracy')}."
        )
    return sentences


def _best_buys(summaries: Sequence[Summary], measure: str) -> list[str]:
    best = best_buys(summaries, measure)
    if len(summaries) == 1 or not best:
        return []
    word = "right" if measure == "accuracy" else "in agreement"
    if len(best) == 1:
        return [f"The best buy is {_bought(best[0], measure)}: no other is cheaper or more often {word}."]
    left = len(summaries) - len(best)
    others = f" (one of them costs no more than each of the other {left}, and is no less often {word})"
    return [
        f"The best buys, cheapest first{others if left else ''}:",
        *(f"  {_bought(summary, measure)}" for summary in best),
    ]


def _bought(summary: Summary, measure: str) -> str:
    share, cost = summary.means["cost_share"], _mean(summary, "cost")
    price = f"${cost:.3g} an item" if share is None else f"{share:.1%} of the cost of asking every model"
    word = "right" if measure == "accuracy" else "in agreement"
    return f"{named(summary)}: {_mean(summary, measure):.1%} {word} at {price}"


def _least(summary: Summary) -> float:
    """The lowest relative accuracy of any shuffle; 0 if it is unknown."""
    quantiles = summary.quantiles["relative_accuracy"]
    return 0.0 if quantiles is None else quantiles[LOWEST]


def _mean(summary: Summary, name: str) -> float:
    return summary.means[name] or 0.0
