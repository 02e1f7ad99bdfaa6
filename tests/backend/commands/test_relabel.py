"""``camvo relabel``: votes, human labels and what was learnt are mapped; nobody is asked again."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from labelling import LabelFolder, always
from same_state import assert_same_state
from scripted_litellm import HashedTexts
from sqlalchemy import select
from whole_backend import prompt_of

from backend.commands.relabel.label_changes import fates_of
from backend.commands.relabel.run import opened_project, relabel
from backend.commands.shared.arguments import LabelChanges
from backend.commands.teach import teach_file
from backend.datasets.tasks import plain_label_config
from backend.errors import ConfigError, DatasetError
from backend.learning.carrying import Transactions, _Transaction, run_each
from backend.ledger import projects
from backend.ledger.blind_tasks import BlindQueues
from backend.ledger.database import tables
from backend.ledger.events import ProjectEvents
from backend.ledger.human_annotations import Annotations
from backend.ledger.projects import Schemes
from backend.ledger.rounds import ProjectRounds, QuestionRounds
from backend.questions import parse_label_config
from backend.server.status.build import build_report
from backend.settings import load
from backend.testing import Reply
from backend.upkeep import problems
from camvo.state.contribution import Contribution
from camvo.state.state import State

TEXTS = [f"{kind} {number}" for number in range(8) for kind in ("sun", "rain", "fog")]
LABELS = ("Glad", "Sad", "Calm")
TRUTH = {"sun": "Glad", "rain": "Sad", "fog": "Calm"}


def script(body: dict[str, Any]) -> Reply:
    """Green errs on fog."""
    kind = next(kind for kind in TRUTH if f"{kind} " in prompt_of(body).split("text:")[-1])
    wrong = body["model"] == "green" and kind == "fog"
    return Reply.says({"label": "Sad" if wrong else TRUTH[kind]})


def opened_folder(path: Path, **settings: Any) -> LabelFolder:
    return LabelFolder(path, script, models=("red", "green", "blue"), **settings)


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Labelled texts, six of which people have labelled too."""
    path = tmp_path_factory.mktemp("labelled")
    with opened_folder(path) as folder:
        folder.table(*TEXTS)
        folder.label(labels=LABELS, blind=6)
        kinds = {text: TRUTH[text.split()[0]] for text in TEXTS}
        folder.change("blind.csv", **kinds)
        teach_file(path / "blind.csv", path / "camvo.yaml")
    return path


@pytest.fixture
def folder(labelled: Path, tmp_path: Path) -> Iterator[LabelFolder]:
    """A copy of the labelled texts for each test."""
    shutil.copytree(labelled, tmp_path, dirs_exist_ok=True)
    with opened_folder(tmp_path) as folder:
        yield folder


def changed(folder: LabelFolder, **wanted: Any) -> str:
    with opened_project(folder.path / "in.csv", folder.environment) as opened:
        relabel(opened, LabelChanges(**wanted), folder.console, lambda question: True)
    return str(folder.console.file.getvalue())  # type: ignore[attr-defined]


def labels(folder: LabelFolder, *names: str, out: str = "out.csv") -> dict[str, str]:
    """Label the file again with these labels: text → label."""
    folder.label(labels=names, out=out)
    return {row["text"]: row["camvo_label"] for row in folder.rows(out)}


def humans(folder: LabelFolder) -> list[str | None]:
    with folder.ledger.read() as connection:
        epochs = ProjectRounds(connection, "in").latest_epochs()
        tasks = Annotations(connection, "in").tasks()
        of_task = (each for task in tasks for each in ProjectRounds(connection, "in").of_task(task))
        return [round_.human for round_ in of_task if round_.key.epoch == epochs["label"]]


def test_the_report_counts_every_round_vote_and_human_label_once_after_changes(folder: LabelFolder) -> None:
    def counted() -> tuple[object, ...]:
        with folder.ledger.read() as connection:
            [report] = build_report(connection, load(folder.environment.config), now=2.0).projects
        voted = tuple((model.name, model.asked, model.audit.count) for model in report.models)
        current = sum(question.current for question in report.questions)
        return voted, report.rounds, report.audit.labels.count, current

    before = counted()
    assert before[2:] == (6, 1)
    changed(folder, renames=["Sad=Low"])
    assert counted() == before
    changed(folder, renames=["Low=Down"])
    assert counted() == before
    changed(folder, undo=True)
    assert counted() == before


def test_only_a_change_that_can_be_taken_back_says_how(folder: LabelFolder) -> None:
    way_back = "Take it back with: "
    assert changed(folder, renames=["Sad=Low"]).count(way_back) == 1
    assert changed(folder, undo=True).count(way_back) == 1  # of the output so far


def test_a_human_label_that_stays_is_counted_although_its_task_is_asked_about_again(
    folder: LabelFolder,
) -> None:
    blind = {row["text"]: TRUTH[row["text"].split()[0]] for row in folder.rows("blind.csv")}
    fog = [text for text, label in blind.items() if label == "Calm"]
    folder.change("blind.csv", **(blind | {fog[0]: "Sad"}))  # the vote says Calm
    teach_file(folder.path / "blind.csv", folder.path / "camvo.yaml")
    stay = len(blind) - len(fog) + 1
    assert f"and {stay} human labels are carried over" in changed(folder, drops=["Calm"])
    labels(folder, "Glad", "Sad")
    assert len([label for label in humans(folder) if label is not None]) == stay


def test_a_file_with_the_labels_of_before_is_refused_with_their_new_names(folder: LabelFolder) -> None:
    changed(folder, renames=["Sad=Blue", "Glad=Bright"])
    changed(folder, merges=["Blue,Calm=Low"])
    with pytest.raises(DatasetError, match=r"write (Low for (Sad|Calm)|Bright for Glad)"):
        teach_file(folder.path / "blind.csv", folder.path / "camvo.yaml")


def test_the_labels_that_a_file_has_afterwards_are_named_for_the_next_commands(folder: LabelFolder) -> None:
    printed = changed(folder, merges=["Sad,Calm=Low"])
    assert "From now on give --labels or the label config these labels: 'Glad', 'Low'" in printed
    with pytest.raises(ConfigError, match="nobody has said") as refused:
        labels(folder, *LABELS)
    assert "if it has renamed them already, give their new names" in str(refused.value)
    assert refused.value.where == "--labels"


def test_a_plan_says_which_rows_of_a_file_are_to_be_labelled_again(folder: LabelFolder) -> None:
    printed = changed(folder, splits=["Calm=Quiet,Misty"])
    assert "to look at, kept as given: label the rows again where they say 'Calm'" in printed


def test_a_renamed_label_costs_no_call_and_no_human_label(folder: LabelFolder) -> None:
    before, calls, said = labels(folder, *LABELS), folder.server.count(), humans(folder)
    changed(folder, renames=["Calm=Quiet"])
    after = labels(folder, "Glad", "Sad", "Quiet")
    assert folder.server.count() == calls
    assert after == {text: "Quiet" if label == "Calm" else label for text, label in before.items()}
    assert humans(folder) == ["Quiet" if label == "Calm" else label for label in said]


def problems_of(folder: LabelFolder) -> list[Any]:
    with folder.ledger.read() as connection:
        return list(problems(connection, lambda _: None))


def state_of(folder: LabelFolder) -> State:
    """What is learnt under the present labels."""
    with folder.ledger.read() as connection:
        epoch = ProjectRounds(connection, "in").latest_epochs()["label"]
        found = ProjectEvents(connection, "in").after(0, control="label", epoch=epoch)
    state = State(HashedTexts.dimension)
    state.add(*(Contribution.unpack(event.contribution) for event in found))
    return state


def test_a_renamed_label_leaves_what_models_are_worth_to_the_last_bit(folder: LabelFolder) -> None:
    before = state_of(folder)
    changed(folder, renames=["Calm=Quiet"])
    assert_same_state(
        state_of(folder), before.relabelled({"Calm": "Quiet", "Glad": "Glad", "Sad": "Sad"}.get)
    )
    assert problems_of(folder) == []


def test_labels_that_become_one_agree_from_then_on(folder: LabelFolder) -> None:
    calls, green = folder.server.count(), state_of(folder)["green"]
    changed(folder, merges=["Sad,Calm=Low"])
    assert set(labels(folder, "Glad", "Low").values()) == {"Glad", "Low"}
    assert folder.server.count() == calls
    assert green.reward_sum < green.rewards
    assert state_of(folder)["green"].reward_sum == state_of(folder)["green"].rewards == green.rewards
    assert set(humans(folder)) <= {"Glad", "Low"}
    assert problems_of(folder) == []


def test_a_label_can_be_put_into_one_that_stays(folder: LabelFolder) -> None:
    calls = folder.server.count()
    changed(folder, merges=["Sad,Calm=Sad"])
    assert set(labels(folder, "Glad", "Sad").values()) == {"Glad", "Sad"}
    assert folder.server.count() == calls


def test_only_tasks_with_a_label_that_is_dropped_are_asked_about_again(folder: LabelFolder) -> None:
    calls = folder.server.count()
    changed(folder, drops=["Calm"])
    folder.server.script = always("Glad")
    after = labels(folder, "Glad", "Sad")
    assert folder.server.count() - calls == 3 * 8
    assert {after[text] for text in TEXTS if "fog" in text} == {"Glad"}
    assert {after[text] for text in TEXTS if "rain" in text} == {"Sad"}
    assert problems_of(folder) == []


@pytest.mark.parametrize("wanted", [{"renames": ["Calm=Quiet"]}, {"merges": ["Sad,Calm=Low"]}])
def test_a_change_is_taken_back_with_every_label_of_people(
    folder: LabelFolder, wanted: dict[str, list[str]]
) -> None:
    before, said, calls = labels(folder, *LABELS), humans(folder), folder.server.count()
    state = state_of(folder)
    changed(folder, **wanted)
    changed(folder, undo=True)
    assert labels(folder, *LABELS) == before
    assert humans(folder) == said
    assert folder.server.count() == calls
    assert_same_state(state_of(folder), state)
    assert problems_of(folder) == []


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ({"merges": ["Sad,Calm=Low"]}, ["  Low → Sad and Calm again"]),
        ({"drops": ["Calm"]}, ["  Calm is back"]),
        ({"renames": ["Calm=Quiet"]}, ["  Quiet → Calm"]),
    ],
)
def test_what_an_undo_does_to_labels_is_said(
    folder: LabelFolder, wanted: dict[str, list[str]], said: list[str]
) -> None:
    before = changed(folder, **wanted)
    printed = changed(folder, undo=True)[len(before) :].splitlines()
    assert [line for line in printed if " → " in line or " is back" in line or " is new" in line] == said


def test_what_was_asked_under_a_new_name_is_kept_when_the_name_is_taken_back(folder: LabelFolder) -> None:
    changed(folder, renames=["Calm=Quiet"])
    folder.table(*TEXTS, "fog 99")
    folder.server.script = always("Quiet")
    assert labels(folder, "Glad", "Sad", "Quiet")["fog 99"] == "Quiet"
    changed(folder, undo=True)
    calls = folder.server.count()
    assert labels(folder, *LABELS)["fog 99"] == "Calm"
    assert folder.server.count() == calls
    assert problems_of(folder) == []


@pytest.mark.parametrize("wanted", [{"merges": ["Sad,Calm=Low"]}, {"drops": ["Calm"]}])
def test_a_change_that_is_taken_back_cannot_be_taken_back_again(
    folder: LabelFolder, wanted: dict[str, list[str]]
) -> None:
    before = labels(folder, *LABELS)
    changed(folder, **wanted)
    changed(folder, undo=True)
    with pytest.raises(ConfigError, match="taken back already"):
        changed(folder, undo=True)
    assert labels(folder, *LABELS) == before


def test_a_set_with_a_merged_label_is_asked_about_again_once_the_merge_is_taken_back(
    folder: LabelFolder,
) -> None:
    folder.server.script = lambda body: Reply.says({"label": ["Sad"]})
    folder.table("sun", name="other.csv")
    outputs(folder, SEVERAL)
    merged = config_after(folder, merges=["Sad,calm=Low"])
    folder.server.script = lambda body: Reply.says({"label": ["Glad", "Low"]})
    folder.table("sun", "rain", name="other.csv")
    assert '"Low"' in outputs(folder, merged)[1]["camvo_label"]
    before = config_after(folder, undo=True)
    folder.server.script = lambda body: Reply.says({"label": ["Glad", "Calm"]})
    calls = folder.server.count()
    [first, second] = outputs(folder, before)
    assert folder.server.count() > calls
    assert ('"Sad"' in first["camvo_label"], '"calm"' in second["camvo_label"]) == (True, True)


def test_labels_in_another_order_need_no_command(folder: LabelFolder) -> None:
    before, calls = labels(folder, *LABELS), folder.server.count()
    assert labels(folder, *reversed(LABELS)) == before
    assert folder.server.count() == calls


def test_a_label_that_is_gone_is_asked_about_before_anything_is_spent(folder: LabelFolder) -> None:
    calls = folder.server.count()
    with pytest.raises(ConfigError, match=r"what becomes of 'Calm'.*camvo relabel --name in"):
        labels(folder, "Glad", "Sad", "Quiet")
    assert folder.server.count() == calls


def split_fog(body: dict[str, Any]) -> Reply:
    """Models that know the parts of Calm."""
    text = prompt_of(body).split("text:")[-1]
    kind, number = next(
        (kind, int(text.split(f"{kind} ")[1].split()[0])) for kind in TRUTH if f"{kind} " in text
    )
    return Reply.says({"label": ("Quiet" if number % 2 else "Misty") if kind == "fog" else TRUTH[kind]})


def test_only_tasks_that_a_split_may_concern_are_asked_about_again(folder: LabelFolder) -> None:
    before, calls, said = labels(folder, *LABELS), folder.server.count(), humans(folder)
    printed = changed(folder, splits=["Calm=Quiet,Misty"])
    assert "8 of 24 tasks (33.3%) are asked about again" in printed
    folder.server.script = split_fog
    after = labels(folder, "Glad", "Sad", "Quiet", "Misty")
    assert folder.server.count() - calls == 3 * 8
    fog = {text: after.pop(text) for text in TEXTS if "fog" in text}
    assert fog == {text: "Quiet" if int(text[4:]) % 2 else "Misty" for text in fog}
    assert after == {text: before[text] for text in after}
    assert humans(folder).count(None) == said.count("Calm") > 0
    assert f"{said.count('Calm')} human label to look at" in printed
    assert problems_of(folder) == []


def test_tasks_that_a_split_concerns_say_nothing_of_drift(folder: LabelFolder) -> None:
    configured(folder, policy={"name": "joint"})
    changed(folder, splits=["Calm=Quiet,Misty"])
    folder.server.script = split_fog
    folder.table(*TEXTS, "fog 99")
    labels(folder, "Glad", "Sad", "Quiet", "Misty")
    with folder.ledger.read() as connection:
        epoch = ProjectRounds(connection, "in").latest_epochs()["label"]
        events = ProjectEvents(connection, "in").after(0, control="label", epoch=epoch)
    explored = [Contribution.unpack(event.contribution).exploration for event in events]
    assert [round_.chosen for round_ in explored if round_ is not None].count(True) == 8
    assert len(explored) == len(TEXTS) + 1


def test_a_split_that_is_taken_back_finds_every_label_again(folder: LabelFolder) -> None:
    before, said = labels(folder, *LABELS), humans(folder)
    changed(folder, splits=["Calm=Quiet,Misty"])
    folder.server.script = split_fog
    folder.table(*TEXTS, "fog 99")
    labels(folder, "Glad", "Sad", "Quiet", "Misty")
    calls = folder.server.count()
    changed(folder, undo=True)
    after = labels(folder, *LABELS)
    assert (after.pop("fog 99"), after) == ("Calm", before)
    assert humans(folder) == said
    assert folder.server.count() == calls
    assert problems_of(folder) == []


def test_a_label_that_is_added_takes_from_the_tasks_that_are_named(folder: LabelFolder) -> None:
    before, calls = labels(folder, *LABELS), folder.server.count()
    changed(folder, adds=["Misty=Calm"])
    folder.server.script = always("Misty")
    after = labels(folder, *LABELS, "Misty")
    people = [text for text, label in before.items() if label == "Calm" and text in human_texts(folder)]
    assert {text for text, label in after.items() if label == "Misty"} == {
        text for text in TEXTS if "fog" in text
    }
    assert folder.server.count() - calls == 3 * 8
    assert people


def test_a_label_that_is_added_without_a_neighbour_asks_nobody_unless_told_to(folder: LabelFolder) -> None:
    calls = folder.server.count()
    printed = changed(folder, adds=["Wild"])
    assert "0 of 24 tasks" in printed
    assert "--below 1: all, 24 for about" in printed
    labels(folder, *LABELS, "Wild")
    assert folder.server.count() == calls


def test_tasks_below_a_score_are_asked_about_again_where_somebody_says_so(folder: LabelFolder) -> None:
    calls = folder.server.count()
    changed(folder, adds=["Wild"], below=1.0)
    labels(folder, *LABELS, "Wild")
    assert folder.server.count() - calls == 3 * 24


def blind_rewards(folder: LabelFolder) -> list[float]:
    with folder.ledger.read() as connection:
        epoch = ProjectRounds(connection, "in").latest_epochs()["label"]
        return sorted(each.reward or 0.0 for each in BlindQueues(connection, "in").of("label", epoch))


def test_errors_that_people_have_found_stay_among_the_blind_tasks_after_a_split(tmp_path: Path) -> None:
    with LabelFolder(tmp_path, always("Glad"), models=("red", "green", "blue")) as folder:
        folder.table(*TEXTS)
        folder.label(labels=LABELS, blind=12)
        folder.change("blind.csv", **{text: TRUTH[text.split()[0]] for text in TEXTS})
        teach_file(tmp_path / "blind.csv", tmp_path / "camvo.yaml")
        before, calls = blind_rewards(folder), folder.server.count()
        changed(folder, splits=["Calm=Quiet,Misty"])
        labels(folder, "Glad", "Sad", "Quiet", "Misty")
        assert blind_rewards(folder) == before
        assert set(before) == {0.0, 1.0}
        assert folder.server.count() == calls


def configured(folder: LabelFolder, **settings: Any) -> None:
    path = folder.path / "camvo.yaml"
    path.write_text(yaml.safe_dump({**yaml.safe_load(path.read_text()), **settings}))


@pytest.fixture(scope="module")
def labelled_since(labelled: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("since")
    shutil.copytree(labelled, path, dirs_exist_ok=True)
    with opened_folder(path, instructions="Be brave.") as folder:
        folder.table(*TEXTS, "fog 99")
        labels(folder, *LABELS)
    return path


@pytest.fixture
def edited(labelled_since: Path, tmp_path: Path) -> Iterator[LabelFolder]:
    """Other instructions since, under which models were asked about one task; others keep their labels."""
    shutil.copytree(labelled_since, tmp_path, dirs_exist_ok=True)
    with opened_folder(tmp_path, instructions="Be brave.") as folder:
        yield folder


@pytest.mark.parametrize(
    ("wanted", "names", "expected"),
    [
        ({"renames": ["Calm=Quiet"]}, ("Glad", "Sad", "Quiet"), {"Calm": "Quiet"}),
        ({"merges": ["Sad,Calm=Low"]}, ("Glad", "Low"), {"Sad": "Low", "Calm": "Low"}),
    ],
)
def test_tasks_keep_their_labels_of_earlier_instructions(
    edited: LabelFolder, wanted: dict[str, list[str]], names: tuple[str, ...], expected: dict[str, str]
) -> None:
    before, calls = labels(edited, *LABELS), edited.server.count()
    printed = changed(edited, **wanted)
    assert "25 labels and 6 human labels are carried over, 0 calls" in printed
    assert "24 of these labels are of earlier instructions" in printed
    assert labels(edited, *names) == {text: expected.get(label, label) for text, label in before.items()}
    changed(edited, undo=True)
    assert labels(edited, *LABELS) == before
    assert edited.server.count() == calls
    assert problems_of(edited) == []


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"splits": ["Calm=Quiet,Misty"]}, ("Glad", "Sad", "Quiet", "Misty")),
        ({"drops": ["Calm"]}, ("Glad", "Sad")),
        ({"adds": ["Misty=Calm"]}, (*LABELS, "Misty")),
    ],
)
def test_labels_of_earlier_instructions_are_asked_about_again_only_where_a_change_concerns_them(
    edited: LabelFolder, wanted: dict[str, list[str]], names: tuple[str, ...]
) -> None:
    before, calls = labels(edited, *LABELS), edited.server.count()
    assert "9 of 25 tasks (36.0%) are asked about again" in changed(edited, **wanted)
    edited.server.script = always("Sad" if "drops" in wanted else "Misty")
    after = labels(edited, *names)
    assert edited.server.count() - calls == 3 * 9
    assert {text for text in before if after[text] != before[text]} == {
        text for text in before if before[text] == "Calm"
    }
    changed(edited, undo=True)
    assert labels(edited, *LABELS) == before
    assert edited.server.count() - calls == 3 * 9
    assert problems_of(edited) == []


def test_low_scores_under_earlier_instructions_are_asked_about_again_too(edited: LabelFolder) -> None:
    changed(edited, adds=["Wild"], below=1.0)
    calls = edited.server.count()
    labels(edited, *LABELS, "Wild")
    assert edited.server.count() - calls == 3 * 25


def test_people_s_labels_of_earlier_instructions_are_read_in_the_new_labels(edited: LabelFolder) -> None:
    def said() -> list[str | None]:
        with edited.ledger.read() as connection:
            of_task = map(ProjectRounds(connection, "in").of_task, Annotations(connection, "in").tasks())
            return [found[-1].human for found in of_task]

    before = said()
    changed(edited, merges=["Sad,Calm=Low"])
    assert before.count("Calm") > 0
    assert said() == ["Glad" if label == "Glad" else "Low" for label in before]


def test_instructions_that_come_back_after_a_change_of_labels_find_their_rounds(edited: LabelFolder) -> None:
    calls = edited.server.count()
    changed(edited, renames=["Calm=Quiet"])
    configured(edited, instructions=None)
    edited.table(*TEXTS, "fog 99", "sun 98")
    labels(edited, "Glad", "Sad", "Quiet")
    with edited.ledger.read() as connection:
        epoch = Schemes(connection, "in").epochs()["label"]
        found = QuestionRounds(connection, "in", "label", epoch).after(0, 100)
    assert [round_.label for round_ in found].count("Quiet") == 8
    assert len(found) == len(TEXTS) + 1
    assert edited.server.count() - calls == 3


def test_labels_change_right_after_instructions_without_a_call(folder: LabelFolder) -> None:
    before, calls = labels(folder, *LABELS), folder.server.count()
    configured(folder, instructions="Be brave.")
    printed = changed(folder, renames=["Calm=Quiet"])
    assert "24 labels and 6 human labels are carried over, 0 calls" in printed
    after = labels(folder, "Glad", "Sad", "Quiet")
    assert after == {text: "Quiet" if label == "Calm" else label for text, label in before.items()}
    changed(folder, undo=True)
    assert labels(folder, *LABELS) == before
    assert folder.server.count() == calls
    assert problems_of(folder) == []


def test_labels_in_another_order_and_other_instructions_at_once_need_no_call(folder: LabelFolder) -> None:
    before, calls = labels(folder, *LABELS), folder.server.count()
    configured(folder, instructions="Be brave.")
    assert labels(folder, *reversed(LABELS)) == before
    assert folder.server.count() == calls


def test_a_label_that_is_gone_is_asked_about_although_instructions_have_changed_too(
    folder: LabelFolder,
) -> None:
    calls = folder.server.count()
    configured(folder, instructions="Be brave.")
    with pytest.raises(ConfigError, match=r"what becomes of 'Calm'"):
        labels(folder, "Glad", "Sad", "Quiet")
    assert folder.server.count() == calls


def test_own_instructions_of_a_question_may_change_with_its_labels(folder: LabelFolder) -> None:
    folder.server.script = lambda body: Reply.says({"label": ["Sad"]})
    folder.table("sun", name="other.csv")
    outputs(folder, SEVERAL)
    calls = folder.server.count()
    other = SEVERAL.replace('value="Sad"', 'value="Low"').replace(
        'name="label"', 'name="label" camvo_instructions="Be brave."'
    )
    after = config_after(folder, renames=["Sad=Low"], label_config=folder.write("new.xml", other))
    assert '"Low"' in outputs(folder, after)[0]["camvo_label"]
    before = config_after(folder, undo=True)
    assert "Be brave." in before
    assert '"Sad"' in outputs(folder, before)[0]["camvo_label"]
    assert folder.server.count() == calls


def test_a_change_is_taken_back_after_instructions_were_edited(folder: LabelFolder) -> None:
    before, said = labels(folder, *LABELS), humans(folder)
    changed(folder, merges=["Sad,Calm=Low"])
    configured(folder, instructions="Be brave.")
    folder.table(*TEXTS, "sun 99")
    labels(folder, "Glad", "Low")
    calls = folder.server.count()
    changed(folder, undo=True)
    after = labels(folder, *LABELS)
    assert (after.pop("sun 99"), after) == ("Glad", before)
    assert folder.server.count() == calls
    configured(folder, instructions=None)
    folder.table(*TEXTS, "sun 98")
    labels(folder, *LABELS)
    assert humans(folder) == said
    assert problems_of(folder) == []


def test_a_label_can_get_its_first_name_again(folder: LabelFolder) -> None:
    before, said, calls = labels(folder, *LABELS), humans(folder), folder.server.count()
    changed(folder, renames=["Calm=Quiet"])
    changed(folder, renames=["Quiet=Still"])
    changed(folder, renames=["Still=Calm"])
    assert labels(folder, *LABELS) == before
    assert humans(folder) == said
    changed(folder, undo=True)
    assert set(labels(folder, "Glad", "Sad", "Still").values()) == {"Glad", "Sad", "Still"}
    assert folder.server.count() == calls
    assert problems_of(folder) == []


def test_a_label_cannot_get_the_name_of_one_that_it_was_put_together_with(folder: LabelFolder) -> None:
    changed(folder, merges=["Sad,Calm=Low"])
    with pytest.raises(ConfigError, match="'Sad' was the name of another label"):
        changed(folder, renames=["Low=Sad"])


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        ({"splits": ["Calm=Quiet,Misty"]}, ("Glad", "Sad", "Quiet", "Misty")),
        ({"renames": ["Calm=Quiet"]}, ("Glad", "Sad", "Quiet")),
        ({"merges": ["Sad,Calm=Low"]}, ("Glad", "Low")),
        ({"adds": ["Misty=Calm"]}, (*LABELS, "Misty")),
    ],
)
def test_the_same_change_can_be_made_again_after_it_was_taken_back(
    folder: LabelFolder, wanted: dict[str, list[str]], names: tuple[str, ...]
) -> None:
    before, said = labels(folder, *LABELS), humans(folder)
    changed(folder, **wanted)
    folder.server.script = split_fog if "splits" in wanted else always("Misty")
    first, then = labels(folder, *names), humans(folder)
    calls = folder.server.count()
    changed(folder, undo=True)
    assert labels(folder, *LABELS) == before
    changed(folder, **wanted)
    assert labels(folder, *names) == first
    assert humans(folder) == then
    changed(folder, undo=True)
    assert labels(folder, *LABELS) == before
    assert humans(folder) == said
    assert folder.server.count() == calls
    assert problems_of(folder) == []


def test_a_change_that_is_made_already_is_not_repeated_with_tasks_below_a_score(folder: LabelFolder) -> None:
    changed(folder, adds=["Wild"])
    with pytest.raises(ConfigError, match="24 labels with a lower score were carried over"):
        changed(folder, adds=["Wild"], below=1.0)


def test_a_change_that_was_taken_back_is_not_made_again_with_tasks_below_a_score(folder: LabelFolder) -> None:
    changed(folder, adds=["Wild"])
    changed(folder, undo=True)
    with pytest.raises(ConfigError, match="24 labels with a lower score were carried over"):
        changed(folder, adds=["Wild"], below=1.0)


def test_a_change_with_tasks_below_a_score_can_be_repeated(folder: LabelFolder) -> None:
    changed(folder, adds=["Wild"], below=1.0)
    assert "carried over already" in changed(folder, adds=["Wild"], below=1.0)


TWO = """<View><Text name="t" value="$text"/>
<Choices name="mood" toName="t"><Choice value="Glad"/><Choice value="Sad"/></Choices>
<Choices name="sky" toName="t"><Choice value="Rain"/><Choice value="Fog"/></Choices></View>"""


def test_a_change_of_two_questions_goes_on_with_the_tasks_that_are_asked_about_again(
    folder: LabelFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(transactions: Transactions, write: Callable[[_Transaction], Any]) -> None:
        run_each(transactions, write)
        raise OSError("killed")

    folder.server.script = lambda body: Reply.says({"mood": "Sad", "sky": "Fog"})
    folder.table(*TEXTS[:3], name="other.csv")
    outputs(folder, TWO)
    wanted = {"adds": ["Calm=Sad", "Mist=Fog"]}
    with monkeypatch.context() as patched:
        patched.setattr("backend.commands.relabel.run.run_each", dies)
        with pytest.raises(OSError, match="killed"):
            config_after(folder, **wanted)
    config_after(folder, **wanted)
    assert "sky: 0 labels carried over, 0 calls; 3 left" in folder.console.file.getvalue()  # type: ignore[attr-defined]


def test_scores_of_labels_with_a_recall_follow_their_labels(folder: LabelFolder) -> None:
    configured(folder, policy={"name": "joint", "recall": {"Calm": 0.9, "Sad": 0.9}})
    folder.table("fog 99")
    labels(folder, *LABELS)
    [before] = likely(folder)
    changed(folder, merges=["Sad,Calm=Low"])
    assert likely(folder)[1:] == [{"Low": pytest.approx(sum(before.values()))}]


def likely(folder: LabelFolder) -> list[dict[str, float]]:
    with folder.ledger.read() as connection:
        plans = connection.scalars(select(tables.rounds.c.plan).order_by(tables.rounds.c.id)).all()
    return [plan["likely"] for plan in plans if plan.get("likely")]


def human_texts(folder: LabelFolder) -> set[str]:
    return {row["text"] for row in folder.rows("blind.csv")}


def test_a_change_that_is_only_planned_changes_nothing(folder: LabelFolder) -> None:
    said = []
    with opened_project(folder.path / "in.csv", folder.environment) as opened:
        relabel(
            opened,
            LabelChanges(merges=["Sad,Calm=Low"]),
            folder.console,
            lambda question: bool(said.append(1)),
        )
    printed = str(folder.console.file.getvalue())  # type: ignore[attr-defined]
    assert "24 labels and 6 human labels are carried over, 0 calls" in printed
    assert said == [1]
    assert labels(folder, *LABELS)


@pytest.mark.parametrize(
    ("wanted", "problem"),
    [
        ({}, "says of no label what becomes of it"),
        ({"renames": ["Calm"]}, "is not old=new"),
        ({"renames": ["Wild=Calm"]}, "no question has this label"),
        ({"renames": ["Calm=Sad"]}, "would give 'Sad' two sources"),
        ({"renames": ["Calm=Low", "Sad=Low"]}, "would give 'Low' two sources"),
        ({"renames": ["Calm=Low", "Calm=Quiet"]}, "says twice what becomes of 'Calm'"),
        ({"renames": ["Calm=Sad", "Sad=Calm"]}, "'Calm' was the name of another label"),
        ({"renames": ["Calm=Low"], "control": "mood"}, "no question is called 'mood'"),
        ({"undo": True}, "no label was changed"),
        ({"splits": ["Calm=Quiet"]}, "is not old=a,b"),
        ({"splits": ["Calm=Calm,Quiet"]}, "'Calm' is the name of another label"),
        ({"splits": ["Calm=Quiet,Misty"], "renames": ["Calm=Low"]}, "says twice what becomes of 'Calm'"),
        ({"adds": ["Sad"]}, "'Sad' is the name of another label"),
        ({"adds": ["Wild=Mild"]}, "no question has this label"),
        ({"merges": ["Glad,Sad,Calm=All"]}, "label: it has fewer than two labels"),
    ],
)
def test_what_is_not_clear_is_refused_before_anything_changes(
    folder: LabelFolder, wanted: dict[str, Any], problem: str
) -> None:
    calls = folder.server.count()
    with pytest.raises(ConfigError, match=problem):
        changed(folder, **wanted)
    assert labels(folder, *LABELS)
    assert folder.server.count() == calls


@pytest.mark.parametrize(
    ("choices", "wanted", "problem"),
    [
        (("Glad", "Sad"), {}, "says nothing of 'Calm'"),
        (("Glad", "Sad", "Wild"), {"renames": ["Calm=Quiet"]}, "has no label 'Quiet'"),
        (("Glad", "Sad", "Calm", "Wild"), {}, "adds 'Wild'"),
        (LABELS, {}, "no label changes"),
        (LABELS, {"renames": ["Calm=Quiet"]}, "still has 'Calm'"),
        (("Glad", "Low", "Calm"), {"renames": ["Sad=Low"], "drops": ["Calm"]}, "still has 'Calm'"),
    ],
)
def test_a_label_config_that_loses_or_adds_a_label_is_refused(
    folder: LabelFolder, choices: tuple[str, ...], wanted: dict[str, Any], problem: str
) -> None:
    new = folder.write("new.xml", plain_label_config(choices, "text"))
    with pytest.raises(ConfigError, match=problem):
        changed(folder, label_config=new, **wanted)


def test_a_label_config_of_another_question_is_refused(folder: LabelFolder) -> None:
    new = folder.write("new.xml", plain_label_config(LABELS, "title"))
    with pytest.raises(ConfigError, match="asks another question"):
        changed(folder, label_config=new)


SEVERAL = """<View><Text name="t" value="$text"/><Choices name="label" toName="t" choice="multiple">
<Choice value="Glad"/><Choice value="Sad"/><Choice value="Calm" alias="calm"/></Choices></View>"""
SPANS = """<View><Text name="t" value="$text"/><Labels name="label" toName="t">
<Label value="Sky"/><Label value="Sea"/><Label value="Sun"/></Labels></View>"""
DEPENDENT = """<View><Text name="t" value="$text"/><Choices name="mood" toName="t">
<Choice value="Glad"/><Choice value="Sad"/></Choices>
<Choices name="why" toName="t" visibleWhen="choice-selected" whenTagName="mood" whenChoiceValue="Sad">
<Choice value="Rain"/><Choice value="Fog"/></Choices></View>"""


def outputs(folder: LabelFolder, config: str) -> list[dict[str, str]]:
    folder.label("other.csv", label_config=config, labels=(), text_column=None)
    return [{name: cell for name, cell in row.items() if "label" in name} for row in folder.rows()]


def config_after(folder: LabelFolder, **wanted: Any) -> str:
    """Change the labels of the other project and return its label config."""
    with opened_project(
        folder.path,
        folder.environment,
        name="other",
    ) as opened:
        relabel(opened, LabelChanges(**wanted), folder.console, lambda question: True)
    with folder.ledger.read() as connection:
        stored = projects.get(connection, "other")
    assert stored is not None
    return str(stored.label_config)


@pytest.mark.parametrize(
    ("config", "answer", "wanted", "old", "new"),
    [
        (
            SEVERAL,
            {"label": ["Sad", "Calm"]},
            {"renames": ["calm=quiet", "Sad=Low"]},
            '"Sad","calm"',
            '"Low","quiet"',
        ),
        (SEVERAL, {"label": ["Sad", "Calm"]}, {"merges": ["Sad,calm=Low"]}, '"Sad","calm"', '"Low"'),
        (SEVERAL, {"label": ["Sad", "Calm"]}, {"drops": ["calm"]}, '"Sad","calm"', '"Sad"'),
        (SPANS, {"label": [{"quote": "sun", "label": "Sun"}]}, {"renames": ["Sun=Star"]}, '"Sun"', '"Star"'),
        (SPANS, {"label": [{"quote": "sun", "label": "Sun"}]}, {"merges": ["Sun,Sky=Up"]}, '"Sun"', '"Up"'),
    ],
)
def test_sets_and_spans_have_their_new_labels_without_a_call(  # noqa: PLR0917
    folder: LabelFolder, config: str, answer: dict[str, Any], wanted: dict[str, Any], old: str, new: str
) -> None:
    folder.server.script = lambda body: Reply.says(answer)
    folder.table("sun", name="other.csv")
    [before] = outputs(folder, config)
    calls = folder.server.count()
    [after] = outputs(folder, config_after(folder, **wanted))
    assert folder.server.count() == calls
    assert old in before["camvo_label"]
    assert after["camvo_label"] == before["camvo_label"].replace(old, new)


def test_a_declared_encoding_leaves_labels_as_they_are_written(folder: LabelFolder) -> None:
    folder.server.script = lambda body: Reply.says({"label": "Süß"})
    folder.table("sun", name="other.csv")
    choices = '<Choice value="Süß"/><Choice value="Bitter"/>'
    outputs(
        folder,
        '<?xml version="1.0" encoding="ISO-8859-1"?>\n<View><Text name="t" value="$text"/>'
        f'<Choices name="label" toName="t">{choices}</Choices></View>',
    )
    calls = folder.server.count()
    [row] = outputs(folder, config_after(folder, renames=["Bitter=Herb"]))
    assert (row["camvo_label"], folder.server.count()) == ("Süß", calls)


def test_a_set_with_a_label_that_is_split_is_asked_about_again_whole(folder: LabelFolder) -> None:
    folder.server.script = lambda body: Reply.says({"label": ["Sad", "Calm"]})
    folder.table("sun", name="other.csv")
    outputs(folder, SEVERAL)
    calls = folder.server.count()
    after = config_after(folder, splits=["calm=Quiet,Misty"])
    folder.server.script = lambda body: Reply.says({"label": ["Sad", "Misty"]})
    [now] = outputs(folder, after)
    assert folder.server.count() > calls
    assert '"Sad","Misty"' in now["camvo_label"]


def test_a_condition_names_the_parts_of_a_label_that_is_split(folder: LabelFolder) -> None:
    folder.server.script = lambda body: Reply.says({"mood": "Sad", "why": "Rain"})
    folder.table("sun", name="other.csv")
    before = config_of_other(folder, DEPENDENT)
    after = config_after(folder, splits=["Sad=Low,Blue"])
    assert 'whenChoiceValue="Low,Blue"' in after
    folder.server.script = lambda body: Reply.says({"mood": "Blue", "why": "Fog"})
    [now] = outputs(folder, after)
    assert (now["camvo_label_mood"], now["camvo_label_why"]) == ("Blue", before["camvo_label_why"])
    assert 'whenChoiceValue="Sad"' in config_after(folder, undo=True)


def config_of_other(folder: LabelFolder, config: str) -> dict[str, str]:
    [row] = outputs(folder, config)
    return row


def test_a_question_under_a_condition_follows_the_label_that_it_names(folder: LabelFolder) -> None:
    folder.server.script = lambda body: Reply.says({"mood": "Sad", "why": "Rain"})
    folder.table("sun", name="other.csv")
    [before] = outputs(folder, DEPENDENT)
    calls = folder.server.count()
    after = config_after(folder, renames=["Sad=Low"])
    assert 'whenChoiceValue="Low"' in after
    [now] = outputs(folder, after)
    assert folder.server.count() == calls
    assert (now["camvo_label_mood"], now["camvo_label_why"]) == ("Low", before["camvo_label_why"])


def tree(*nodes: str) -> str:
    """A label config with a Taxonomy: ``above/below`` for each leaf."""
    above: dict[str, list[str]] = {}
    for node in nodes:
        above.setdefault(node.split("/")[0], []).append(node.split("/")[1])
    choices = "".join(
        f'<Choice value="{name}">{"".join(f"""<Choice value="{leaf}"/>""" for leaf in leaves)}</Choice>'
        for name, leaves in above.items()
    )
    taxonomy = f'<Taxonomy name="label" toName="t" maxUsages="1">{choices}</Taxonomy>'
    return f'<View><Text name="t" value="$text"/>{taxonomy}</View>'


@pytest.mark.parametrize(
    ("rename", "after"),
    [
        ("Mood=Feeling", ("Feeling/Glad", "Feeling/Sad", "State/Calm")),
        ("Sad=Low", ("Mood/Glad", "Mood/Low", "State/Calm")),
        ("Mood / Sad=Mood / Low", ("Mood/Glad", "Mood/Low", "State/Calm")),
    ],
)
def test_a_node_of_a_tree_is_renamed_by_its_name_or_its_path(
    tmp_path: Path, rename: str, after: tuple[str, ...]
) -> None:
    before = ("Mood/Glad", "Mood/Sad", "State/Calm")
    path_of = {path.split("/")[1]: path.replace("/", " / ") for path in before}

    def of_tree(body: dict[str, Any]) -> Reply:
        kind = next(kind for kind in TRUTH if f"{kind} " in prompt_of(body).split("text:")[-1])
        return Reply.says({"label": path_of[TRUTH[kind]]})

    with opened_folder(tmp_path) as folder:
        folder.server.script = of_tree
        folder.table("sun 1", "rain 1", "fog 1")
        folder.label(label_config=tree(*before), labels=(), text_column=None)
        asked = folder.server.count()
        changed(folder, renames=[rename])
        folder.label(label_config=tree(*after), labels=(), text_column=None)
        named = [row["camvo_label"] for row in folder.rows()]
        assert named == [path.replace("/", " / ") for path in after]
        assert folder.server.count() == asked


def test_a_name_that_several_nodes_of_a_tree_have_renames_none_of_them() -> None:
    questions = parse_label_config(tree("Animal/Dog", "Animal/Cat", "Plant/Dog")).questions
    with pytest.raises(ConfigError, match="no question has this label"):
        fates_of(LabelChanges(renames=["Dog=Hound"]), {question.name: question for question in questions})
