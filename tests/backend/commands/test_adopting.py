"""``camvo refine --adopt``: models read the text that was judged, or nothing changes."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from command_line import called
from label_studio_api import KEY, PROJECT, LabelStudioApi
from label_studio_requests import Project, task
from whole_backend import Backend, votes

from backend.commands.instructions.codebook import how_to_adopt
from backend.learning.projects import remember_project
from backend.ledger import Ledger, migrate
from backend.ledger.projects import DatedText
from backend.questions.objects import FOR_PEOPLE_ONLY, instructions_text

SCRIPT = votes(red="Glad", green="Glad", blue="Glad")
MODEL = "{name: red, model: openai/red, api_base: http://127.0.0.1:9, input_price: 1, output_price: 1}"


def adopted(
    api: LabelStudioApi,
    folder: Path,
    *options: str,
    text: str = "New.",
    name: str = "new.txt",
    own: str = "",
    takes_back: bool = False,
) -> Any:
    (folder / name).write_text(f"{text}\n")
    (folder / "camvo.yaml").write_text(f"models: [{MODEL}]\n{own}")
    variables = {
        "LABEL_STUDIO_URL": api.url,
        "LABEL_STUDIO_API_KEY": KEY,
        "CAMVO_CONFIG": "camvo.yaml",
        "CAMVO_DATABASE_URL": f"sqlite:///{folder / 'ledger.sqlite'}",
    }
    wanted = ["--take-back"] if takes_back else ["--adopt", name]
    return called(*("refine", "--project", str(PROJECT), *wanted, *options), cwd=folder, **variables)


@pytest.mark.parametrize(
    "text",
    [
        "One < two.\n- Irony & co.",
        "With\n\na gap <b>",
        "- <person> is a name\n- Price < 5",
        "Tags: <b>bold</b> & &lt;p&gt;",
    ],
)
def test_an_adopted_text_is_what_models_read_and_the_part_for_people_stays(tmp_path: Path, text: str) -> None:
    with LabelStudioApi() as api:
        alone = f"<p>{FOR_PEOPLE_ONLY}</p><h2>Codebook</h2>"
        api.project["expert_instruction"] = f"<p>Old.</p>{alone}"
        done = adopted(api, tmp_path, "--yes", text=text)
        assert done.returncode == 0, done.stderr
        written = api.project["expert_instruction"]
    assert written.endswith(alone)
    assert instructions_text(written) == text
    assert "another epoch" in done.stdout


def test_html_is_adopted_as_the_text_that_people_read(tmp_path: Path) -> None:
    with LabelStudioApi() as api:
        done = adopted(api, tmp_path, "--yes", text="<p>One</p><p>Two</p>", name="new.html")
        assert done.returncode == 0, done.stderr
        assert instructions_text(api.project["expert_instruction"]) == "One\nTwo"


def test_a_text_is_adopted_only_if_somebody_says_yes(tmp_path: Path) -> None:
    with LabelStudioApi() as api:
        api.project["expert_instruction"] = "Old."
        done = adopted(api, tmp_path)
        assert api.writes == []
    assert done.returncode == 2
    assert "+<p>New.</p>" in done.stdout
    assert "nothing was changed" in done.stderr


def test_an_empty_text_is_not_adopted(tmp_path: Path) -> None:
    with LabelStudioApi() as api:
        done = adopted(api, tmp_path, "--yes", text=" ")
        assert api.writes == []
    assert "has no text" in done.stderr


def test_instructions_that_models_do_not_read_are_left_to_people(tmp_path: Path) -> None:
    with LabelStudioApi() as api:
        done = adopted(api, tmp_path, "--yes", own="project_instructions: false\n")
        assert api.writes == []
    assert done.returncode == 2
    assert "set instructions in camvo.yaml to the content of new.txt" in done.stderr


def test_the_extra_params_of_a_project_say_whether_models_read_its_instructions(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
    migrate(url)
    with LabelStudioApi() as api:
        with closing(Ledger(url)) as ledger, ledger.write() as connection:
            own = {"extra_params": {"project_instructions": False}}
            remember_project(connection, api.project_key, own, 1.0)
        done = adopted(api, tmp_path, "--yes")
        assert api.writes == []
    assert "do not read the instructions" in done.stderr


@pytest.mark.parametrize(("number", "cure"), [(7, "--project 7 --adopt a.txt"), (None, "in camvo.yaml")])
def test_a_text_is_adopted_where_models_read_it(number: int | None, cure: str) -> None:
    assert cure in how_to_adopt("a.txt", number)


@pytest.mark.parametrize(("written", "before"), [("Second.", "First."), ("Third.", "Second.")])
def test_the_text_that_models_read_before_is_taken_back(tmp_path: Path, written: str, before: str) -> None:
    with LabelStudioApi() as api:
        url = f"sqlite:///{tmp_path / 'ledger.sqlite'}"
        migrate(url)
        with closing(Ledger(url)) as ledger, ledger.write() as connection:
            for text in ("First.", "Second."):
                remember_project(connection, api.project_key, {"instructions": text}, 1.0)
        api.project["expert_instruction"] = f"<p>{written}</p>"  # models have not read the third text yet
        done = adopted(api, tmp_path, "--yes", takes_back=True)
        assert done.returncode == 0, done.stderr
        assert instructions_text(api.project["expert_instruction"]) == before


@pytest.fixture
def told(tmp_path: Path) -> Iterator[LabelStudioApi]:
    """A project that has had three texts; models were asked about two tasks under the first one."""
    with LabelStudioApi() as api, Backend(tmp_path, SCRIPT) as backend:
        project = Project(number=PROJECT, label_config=api.project["label_config"])
        api.project["created_at"] = project.payload()["created_at"]
        for text in ("First secret.", "Second secret.", "Third secret."):
            with backend.runtime.ledger.write() as connection:
                remember_project(connection, api.project_key, {"instructions": text}, 1.0)
            if text.startswith("First"):
                backend.predict(task(1, "sun"), task(2, "rain"), project=project)
        api.project["expert_instruction"] = "<p>Third secret.</p>"
        yield api


def id_of(text: str) -> str:
    return DatedText(text, 0.0).id


def test_any_earlier_text_is_taken_back_by_its_id(tmp_path: Path, told: LabelStudioApi) -> None:
    done = adopted(told, tmp_path, "--yes", "--text", id_of("First secret."), takes_back=True)
    assert done.returncode == 0, done.stderr
    assert instructions_text(told.project["expert_instruction"]) == "First secret."


def test_earlier_texts_are_listed_with_their_labels_and_without_their_words(
    tmp_path: Path, told: LabelStudioApi
) -> None:
    done = adopted(told, tmp_path, "--text", "0", takes_back=True)
    rows = {row.split()[0]: row.split()[3] for row in done.stdout.splitlines()[2:] if row.strip()}
    assert (done.returncode, told.writes) == (2, [])
    assert rows == {id_of("Second secret."): "0", id_of("First secret."): "2"}
    assert "secret" not in done.stdout + done.stderr


def test_a_text_before_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    with LabelStudioApi() as api:
        done = adopted(api, tmp_path, "--yes", takes_back=True)
        assert (done.returncode, api.writes) == (2, [])
        assert "knows no earlier instructions" in done.stderr


def test_the_command_to_adopt_a_text_names_the_settings_file_that_was_given() -> None:
    config = Path("other settings.yaml")
    command = how_to_adopt("refine/2.txt", 1, config).removeprefix("to adopt it: ")
    assert shlex.split(command)[-2:] == ["--config", "other settings.yaml"]
