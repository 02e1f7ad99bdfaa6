"""Kept votes are counted by the policy that decided them, also if none is named."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from label_studio_requests import Project, task
from whole_backend import Backend, says

from backend.recounting import recounter
from camvo.policies.camvo import CaMVo
from camvo.policies.joint import Joint
from camvo.policies.policy import Policy

LABELS_AND_WORDS = """<View><Text name="text" value="$text"/>
<Choices name="mood" toName="text"><Choice value="Glad"/><Choice value="Sad"/></Choices>
<TextArea name="why" toName="text" camvo_instructions="Say why."
 visibleWhen="choice-selected" whenTagName="mood" whenChoiceValue="Glad"/>
</View>"""


def test_labels_with_words_under_a_condition_are_counted_by_the_policy_that_chose_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    project, used = Project(label_config=LABELS_AND_WORDS), dict[str, Policy]()

    def recorded(self: recounter._QuestionCounter, key: Any, *others: Any) -> Any:
        used[key.control] = self.policy
        return count(self, key, *others)

    count = recounter._QuestionCounter.count
    monkeypatch.setattr(recounter._QuestionCounter, "count", recorded)
    with Backend(tmp_path, lambda body: says(mood="Glad", why="The sun"), policy={}) as backend:
        backend.predict(task(1), project=project)
        decided = {each.key.control: each.plan.get("stages") for each in backend.rounds(1, project)}
        backend.runtime.recount(project.key)
    counted = {control: type(policy) for control, policy in used.items()}
    assert {control: stages is not None for control, stages in decided.items()} == {
        "mood": True,
        "why": False,
    }
    assert counted == {"mood": Joint, "why": CaMVo}
