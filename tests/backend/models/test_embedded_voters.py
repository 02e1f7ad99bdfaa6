from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from backend.errors import ModelError, RejectedError
from backend.models import Pool
from backend.models.embedded_voters import _VOTERS, _LabelSet, _sentences, _stems, _words, register
from backend.models.embedder import Embedder
from backend.models.model import litellm
from backend.questions import ConfigQuestion, TaskQuestion, parse_label_config
from backend.questions.controls import OneOf
from backend.questions.prompts.answers import parse_answer
from backend.questions.prompts.messages import answer_schema, prompt_messages
from backend.questions.xml import Label
from backend.settings.models import DEFAULT_MODELS
from camvo.typing import Array

CONFIG = """
<View>
  <Text name="text" value="$text"/>
  <Choices name="mood" toName="text">
    <Choice value="Glad &amp; happy" alias="pos" hint="It was good. I liked it."/>
    <Choice value="Sad" hint="It was bad."/>
  </Choices>
  <Choices name="field" toName="text">
    <Choice value="Sport"/><Choice value="Wirtschaft"/><Choice value="科学"/>
  </Choices>
</View>
"""
DATA = {"text": "The keeper saved a penalty. What a lovely match!"}
QUESTIONS = [question.about(DATA) for question in parse_label_config(CONFIG).questions]
LABELS: _LabelSet = (("Sport", "match, goal, team"), ("Money", "bank, shares; profit"), ("Science", None))

texts = st.text(min_size=0, max_size=80)
label_sets = st.lists(
    st.tuples(st.text(min_size=1, max_size=12), st.none() | st.text(max_size=30)),
    min_size=1,
    max_size=6,
    unique_by=lambda label: label[0],
)
voters = pytest.mark.parametrize("name", list(_VOTERS))


@pytest.fixture(scope="module")
def embedder() -> Iterator[Embedder]:
    loaded = Embedder()
    register(loaded)
    yield loaded
    loaded.close()


def arbitrary_vector(phrase: str) -> Array:
    """Return a unit vector that depends on the phrase alone, as from an unknown embedder."""
    seed = int.from_bytes(hashlib.sha256(phrase.encode("utf-8", "replace")).digest()[:8])
    row = np.random.default_rng(seed).normal(size=16)
    return row / np.linalg.norm(row)


def vote(name: str, text: str, labels: _LabelSet) -> str:
    voter = _VOTERS[name]
    return voter.choose(
        text, labels, {phrase: arbitrary_vector(phrase) for phrase in voter.phrases(text, labels)}
    )


def vote_with_embedder(name: str, text: str, labels: _LabelSet, embedder: Embedder) -> str:
    voter = _VOTERS[name]
    phrases = voter.phrases(text, labels)
    return voter.choose(text, labels, dict(zip(phrases, embedder.embed(phrases), strict=True)))


@voters
@given(text=texts, labels=label_sets)
def test_a_voter_always_answers_with_one_of_the_labels(name: str, text: str, labels: _LabelSet) -> None:
    assert vote(name, text, labels) in {label for label, _ in labels}


@voters
@given(text=texts, labels=label_sets)
def test_a_voter_gives_the_same_answer_twice(name: str, text: str, labels: _LabelSet) -> None:
    assert vote(name, text, labels) == vote(name, text, list(labels))


@pytest.mark.parametrize("name", [name for name in _VOTERS if name != "overlap"])
@given(
    text=st.text(alphabet="abcdefgh .!", min_size=1, max_size=60).filter(str.strip),
    labels=st.dictionaries(
        st.text(alphabet="ijklmnop", min_size=1, max_size=9),
        st.text(alphabet="qrstuvwx", min_size=4, max_size=9),
        min_size=2,
        max_size=5,
    ).filter(lambda labels: len(set(labels.values())) == len(labels)),
    data=st.data(),
)
def test_the_order_of_labels_that_differ_changes_nothing(
    name: str, text: str, labels: dict[str, str], data: st.DataObject
) -> None:
    ordered = list(labels.items())
    assert vote(name, text, ordered) == vote(name, text, data.draw(st.permutations(ordered)))


@voters
def test_a_tie_goes_to_the_first_label(name: str) -> None:
    voter = _VOTERS[name]
    same = dict.fromkeys([*voter.phrases("one two", LABELS)], arbitrary_vector("all alike"))
    assert voter.choose("one two", LABELS, same) == "Sport"
    assert voter.choose("one two", LABELS[::-1], same) == "Science"


@voters
@pytest.mark.parametrize("text", ["", " ", "!!!", "a b c", "字" * 50, "\ud83d", "word " * 20_000])
def test_a_voter_answers_about_odd_texts_with_the_real_embedder(
    name: str, text: str, embedder: Embedder
) -> None:
    assert vote_with_embedder(name, text, LABELS, embedder) in {"Sport", "Money", "Science"}


@voters
def test_a_voter_knows_a_match_from_a_bank(name: str, embedder: Embedder) -> None:
    match, bank = "Their team won the match with a late goal.", "The bank made a profit and its shares rose."
    assert vote_with_embedder(name, match, LABELS, embedder) == "Sport"
    assert vote_with_embedder(name, bank, LABELS, embedder) == "Money"


def test_the_overlap_goes_to_the_label_that_shares_the_most_words() -> None:
    labels = [("one", "apples pears"), ("two", "apples plums"), ("three", "bread")]
    assert vote("overlap", "Fresh plums and apples", labels) == "two"
    assert vote("overlap", "Fresh pears and apples", labels[::-1]) == "one"


def test_a_clear_sentence_outvotes_two_vague_ones() -> None:
    ahead, tiny = np.array([1.0, 0.0]), np.array([0.70, 0.714])
    vectors = {"A": np.array([1.0, 0.0]), "B": np.array([0.0, 1.0])}
    vectors |= {
        "Clear.": ahead,
        "Vague.": tiny / np.linalg.norm(tiny),
        "Vaguer.": tiny / np.linalg.norm(tiny),
    }
    assert _VOTERS["sentences"].choose("Clear. Vague. Vaguer.", [("A", None), ("B", None)], vectors) == "A"
    assert _VOTERS["sentences"].choose("Vague. Vaguer.", [("A", None), ("B", None)], vectors) == "B"


def test_a_text_is_cut_into_its_sentences() -> None:
    assert _sentences("It rained. We stayed in!\nTea?  Yes") == ("It rained.", "We stayed in!", "Tea?", "Yes")


def test_a_text_without_sentences_is_one_passage() -> None:
    assert _sentences(" \n ") == (" \n ",)


def test_words_come_once_and_in_small_letters() -> None:
    assert _words("Rain, rain and RAIN over Trains") == ("rain", "over", "trains")


def test_a_stem_joins_the_forms_of_a_word() -> None:
    assert _stems("labels labelled labelling")["label"] == 3


def test_every_voter_is_in_the_default_pool_once() -> None:
    assert sorted(model.model for model in DEFAULT_MODELS) == sorted(f"embedded/{name}" for name in _VOTERS)
    assert len({model.name for model in DEFAULT_MODELS}) == len(DEFAULT_MODELS) >= 6


def test_no_two_voters_cost_the_same() -> None:
    assert len({(model.input_price, model.output_price) for model in DEFAULT_MODELS}) == len(DEFAULT_MODELS)


def ask(model: str, questions: Sequence[TaskQuestion] = QUESTIONS) -> Any:
    form = {"type": "json_schema", "json_schema": {"name": "labels", "schema": answer_schema(questions)}}
    prompt = prompt_messages(questions, "Take your time.")
    return litellm().acompletion(
        model=model, messages=prompt, questions=questions, response_format=form, max_tokens=64
    )


@pytest.mark.usefixtures("embedder")
@pytest.mark.parametrize("settings", DEFAULT_MODELS, ids=lambda settings: str(settings.name))
class TestThroughLitellm:
    def test_the_answer_is_json_that_the_schema_allows(self, settings: Any) -> None:
        answer = json.loads(asyncio.run(ask(settings.model)).choices[0].message.content)
        properties: Any = answer_schema(QUESTIONS)["properties"]
        assert answer.keys() == properties.keys()
        assert all(label in properties[question]["enum"] for question, label in answer.items())

    def test_the_answer_is_a_vote_on_every_question(self, settings: Any) -> None:
        votes = parse_answer(asyncio.run(ask(settings.model)).choices[0].message.content, QUESTIONS)
        assert votes["mood"] in {"pos", "Sad"}
        assert votes["field"] in {"Sport", "Wirtschaft", "科学"}

    def test_the_usage_is_counted_and_litellm_prices_it(self, settings: Any) -> None:
        response = asyncio.run(ask(settings.model))
        usage, prices = response.usage, (settings.input_price, settings.output_price)
        assert usage.prompt_tokens > 50
        assert usage.completion_tokens > 5
        expected = usage.prompt_tokens * prices[0] + usage.completion_tokens * prices[1]
        assert litellm().completion_cost(response) == pytest.approx(expected / 1e6)
        assert response._hidden_params["response_cost"] == pytest.approx(expected / 1e6)

    def test_litellm_knows_that_a_schema_is_taken(self, settings: Any) -> None:
        assert litellm().supports_response_schema(settings.model)

    def test_the_blocking_call_gives_the_same_answer(self, settings: Any) -> None:
        prompt = prompt_messages(QUESTIONS, None)
        blocking = litellm().completion(model=settings.model, messages=prompt, questions=QUESTIONS)
        awaited = asyncio.run(
            litellm().acompletion(model=settings.model, messages=prompt, questions=QUESTIONS)
        )
        assert blocking.choices[0].message.content == awaited.choices[0].message.content


@pytest.mark.usefixtures("embedder")
def test_the_pool_asks_all_of_them_at_once() -> None:
    async def ask_all() -> list[Any]:
        pool = Pool(DEFAULT_MODELS)
        prompt = prompt_messages(QUESTIONS, None)
        return await asyncio.gather(
            *(
                pool[name].attempt(prompt, answer_schema(QUESTIONS), 30, questions=QUESTIONS)
                for name in pool.names
            )
        )

    answers = asyncio.run(ask_all())
    assert all(parse_answer(answer.content, QUESTIONS).keys() == {"mood", "field"} for answer in answers)
    assert len({answer.usage.cost for answer in answers}) == len(DEFAULT_MODELS)


@pytest.mark.usefixtures("embedder")
def test_a_hint_decides() -> None:
    def asked(first: str, second: str) -> Any:
        labels = OneOf((Label("A", "A", first), Label("B", "B", second)), "choices")
        question = ConfigQuestion("q", "text", "Choices", labels, QUESTIONS[0].config.fields).about(DATA)
        answer = asyncio.run(ask("embedded/hints", [question])).choices[0].message.content
        return parse_answer(answer, [question])["q"]

    sport, cooking = "A goalkeeper in a football match.", "A recipe for onion soup."
    assert (asked(sport, cooking), asked(cooking, sport)) == ("A", "B")


def asked_in(control: str) -> list[TaskQuestion]:
    config = parse_label_config(f'<View><Text name="text" value="$text"/>{control}</View>')
    return [question.about(DATA) for question in config.questions]


@pytest.mark.usefixtures("embedder")
def test_where_several_labels_may_fit_the_best_one_is_chosen() -> None:
    tags = '<Choice value="Sport"/><Choice value="Onion soup"/>'
    questions = asked_in(f'<Choices name="tags" toName="text" choice="multiple">{tags}</Choices>')
    response = asyncio.run(ask("embedded/label-name", questions))
    assert parse_answer(response.choices[0].message.content, questions) == {"tags": '["Sport"]'}


@pytest.mark.usefixtures("embedder")
def test_a_question_without_a_list_of_labels_is_left_out() -> None:
    questions = [*QUESTIONS, *asked_in('<Rating name="stars" toName="text"/>')]
    answer = asyncio.run(ask("embedded/overlap", questions)).choices[0].message.content
    assert parse_answer(answer, questions).keys() == {"mood", "field"}


@pytest.mark.usefixtures("embedder")
def test_a_query_without_any_list_of_labels_is_rejected_at_no_cost() -> None:
    questions = asked_in('<Rating name="stars" toName="text"/>')

    async def attempt() -> None:
        pool = Pool(DEFAULT_MODELS)
        prompt, schema = prompt_messages(questions, None), answer_schema(questions)
        await pool["overlap"].attempt(prompt, schema, 30, questions=questions)

    with pytest.raises(RejectedError) as caught:
        asyncio.run(attempt())
    assert caught.value.usage is None
    assert "only answer questions with a list of labels" in str(caught.value)


@pytest.mark.usefixtures("embedder")
def test_an_unknown_voter_is_rejected_and_not_retried() -> None:
    settings = DEFAULT_MODELS[0].model_copy(update={"model": "embedded/nobody"})

    async def attempt() -> None:
        prompt, schema = prompt_messages(QUESTIONS, None), answer_schema(QUESTIONS)
        await Pool([settings])[settings.name].attempt(prompt, schema, 30, questions=QUESTIONS)

    with pytest.raises(ModelError) as caught:
        asyncio.run(attempt())
    assert isinstance(caught.value, RejectedError)


@pytest.mark.usefixtures("embedder")
def test_a_call_without_questions_is_a_bad_request() -> None:
    with pytest.raises(litellm().BadRequestError):
        litellm().completion(model="embedded/hints", messages=[{"role": "user", "content": "Hello?"}])


@pytest.mark.usefixtures("embedder")
def test_the_answer_depends_on_the_questions_and_not_on_the_wording_of_the_prompt() -> None:
    async def ask_with(messages: list[dict[str, Any]]) -> str:
        response = await litellm().acompletion(
            model="embedded/sentences", messages=messages, questions=QUESTIONS
        )
        return str(response.choices[0].message.content)

    worded = asyncio.run(ask_with(prompt_messages(QUESTIONS, "Take your time.")))
    assert asyncio.run(ask_with([{"role": "user", "content": "Hello?"}])) == worded


@pytest.mark.usefixtures("embedder")
@pytest.mark.parametrize("model", [DEFAULT_MODELS[0], DEFAULT_MODELS[-1]], ids=lambda model: str(model.name))
def test_the_questions_beside_the_prompt_do_not_change_the_key_of_a_stored_answer(model: Any) -> None:
    pool, prompt = Pool([model]), prompt_messages(QUESTIONS, None)
    request = {
        "model": model.model,
        "messages": prompt,
        "max_tokens": model.max_tokens,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "labels", "strict": True, "schema": answer_schema(QUESTIONS)},
        },
    } | ({} if model.temperature is None else {"temperature": model.temperature})
    key = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
    assert pool[model.name].model.fingerprint(prompt, answer_schema(QUESTIONS)) == key


class SlowEmbedder(Embedder):
    """A real embedder whose model waits until the gate opens."""

    def __init__(self) -> None:
        super().__init__()
        self.computing, self.gate = threading.Event(), threading.Event()

    def _rows(self, texts: Sequence[str]) -> list[Array]:
        self.computing.set()
        assert self.gate.wait(30)
        return super()._rows(texts)


def test_the_loop_runs_on_while_a_voter_thinks_and_a_later_embedder_replaces_the_first(
    embedder: Embedder,
) -> None:
    slow = SlowEmbedder()
    register(slow)

    async def think() -> tuple[bool, Any]:
        task = asyncio.create_task(ask("embedded/everything"))
        await asyncio.to_thread(slow.computing.wait, 30)
        thinking = not task.done()
        slow.gate.set()  # only reached if the loop is not blocked
        return thinking, await task

    try:
        thinking, response = asyncio.run(think())
    finally:
        register(embedder)
        slow.gate.set()
        slow.close()
    assert thinking
    assert parse_answer(response.choices[0].message.content, QUESTIONS)


def test_registering_again_keeps_one_entry_and_other_providers(embedder: Embedder) -> None:
    other = {"provider": "somebody-else", "custom_handler": object()}
    litellm().custom_provider_map.append(other)
    try:
        register(embedder)
        register(embedder)
        providers = [item["provider"] for item in litellm().custom_provider_map]
        assert providers.count("embedded") == 1
        assert providers.count("somebody-else") == 1
    finally:
        litellm().custom_provider_map.remove(other)
