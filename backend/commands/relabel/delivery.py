"""Label Studio told of a change of labels: its label config, annotations and predictions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rich.console import Console

from backend.commands.relabel.plans import Opened, RelabelPlan
from backend.label_studio.predictions import relabelled_result
from backend.ledger.projects import short_name
from backend.questions import parse_label_config


def _unordered(value: Any) -> Any:
    """A result, whatever the order of the labels that an item lists."""
    if isinstance(value, Mapping):
        return {key: _unordered(each) for key, each in value.items()}
    return sorted(map(_unordered, value), key=repr) if isinstance(value, list) else value


def deliver(opened: Opened, plan: RelabelPlan, console: Console) -> bool:
    """Tell Label Studio the label config, and the new labels of its annotations.

    Returns:
        Whether Label Studio had anything to change.
    """
    if opened.client is None:
        return False
    number = int(short_name(opened.stored.key))
    if plan.xml != opened.config:
        opened.client.change_project(number, {"label_config": plan.xml})
    if not plan.schemes:
        return plan.xml != opened.config
    change = _change_of(plan)
    annotations = predictions = left = 0
    for page in opened.client.pages(number):
        for task in page:
            for each in task["annotations"]:
                if (result := change(each["result"], each["id"])) is None:
                    left += 1
                elif result != each["result"]:
                    opened.client.change_annotation(each["id"], {"result": result})
                    annotations += 1
            for each in task["predictions"]:
                if (result := change(each["result"], None)) != each["result"]:
                    opened.client.change_prediction(each["id"], {"result": result})
                    predictions += 1
    console.print(
        f"Label Studio: {annotations:,} annotations and {predictions:,} predictions have the new labels",
        highlight=False,
    )
    if left:
        console.print(
            f"{left:,} annotations are left as they are: the ledger does not know what they say, so --undo "
            "could not bring it back",
            highlight=False,
            soft_wrap=True,
        )
    if any(None in scheme.labels.values() for scheme in plan.schemes):
        console.print(
            "Predictions of labels that are dropped or apart again follow with: "
            f"camvo predict --project {number} --refresh",
            highlight=False,
            soft_wrap=True,
        )
    return plan.xml != opened.config or annotations + predictions > 0


def _change_of(plan: RelabelPlan) -> Callable[[Sequence[Any], int | None], list[Any] | None]:
    """The way from a result to the one with the new labels, of an annotation or (``None``) a prediction.

    It is ``None`` for an annotation whose labels could not be brought back afterwards.
    """
    after = {question.name: question for question in parse_label_config(plan.xml).questions}

    def change(result: Sequence[Any], annotation: int | None) -> list[Any] | None:
        changed = list(result)
        for scheme in plan.schemes:
            name, number = scheme.control, -1 if annotation is None else annotation
            old, new = plan.found.before[name], after[name]
            original, kept = (said.get(name, {}).get(number) for said in (plan.originals, plan.kept))
            step = relabelled_result(changed, old, new, scheme.labels, original)
            if step == changed:
                continue
            back = relabelled_result(step, new, old, plan.back.get(name, {}), kept)
            if annotation is not None and _unordered(back) != _unordered(changed):
                return None
            changed = step
        return changed

    return change
