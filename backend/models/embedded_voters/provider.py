"""The embedded voters as a litellm provider, so that they are called, counted and paid like any model.

A call carries the questions as the parameter ``questions``, a sequence of :class:`TaskQuestion`. The messages
are only counted: the voters do not read them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from backend.models.embedded_voters.voters import VOTERS, LabelSet, Vectors, Voter
from backend.models.embedder.embedder import Embedder
from backend.models.litellm_info import count_tokens, litellm
from backend.questions.controls.closed_set import ONE_LABEL, lists_labels
from backend.questions.prompts.message_parts import Messages, texts_of
from backend.questions.question import TaskQuestion
from backend.settings import ModelSettings

PROVIDER = "embedded"
"""The provider in litellm's names of the voters: ``embedded/<name>``."""

_DOLLAR_PER_MILLION = 1e-6


def install_provider(embedder: Embedder, models: Sequence[ModelSettings]) -> None:
    """Register the provider and the models' prices with litellm; a second call replaces the first."""
    module = litellm()
    handler = _handler(embedder)
    others = [item for item in module.custom_provider_map if item["provider"] != PROVIDER]
    module.custom_provider_map = [*others, {"provider": PROVIDER, "custom_handler": handler}]
    # This order matters: before the set-up litellm ignores the prices and the support of schemas.
    module.utils.custom_llm_setup()
    module.register_model({model.model: _price_map_entry(model) for model in models})


def _price_map_entry(model: ModelSettings) -> dict[str, object]:
    return {
        "litellm_provider": PROVIDER,
        "mode": "chat",
        "input_cost_per_token": (model.input_price or 0.0) * _DOLLAR_PER_MILLION,
        "output_cost_per_token": (model.output_price or 0.0) * _DOLLAR_PER_MILLION,
        "supports_response_schema": True,
        "supports_system_messages": True,
    }


def _handler(embedder: Embedder) -> Any:
    """Return the provider's handler. Its base class is litellm's, which is imported on first use."""
    litellm()
    from litellm.llms.custom_llm import CustomLLM  # noqa: PLC0415 - heavy

    class EmbeddedVoters(CustomLLM):  # type: ignore[misc]  # litellm's types are not followed
        """Answers the call's questions. Other parameters, such as the temperature, have no effect."""

        def completion(
            self, model: str, messages: Any, model_response: Any, optional_params: Any, **_: Any
        ) -> Any:
            ballot = _ballot(model, optional_params)
            phrases = ballot.phrases()
            vectors = dict(zip(phrases, embedder.embed(phrases), strict=True))
            return _fill(model_response, model, messages, ballot.answer(vectors))

        async def acompletion(
            self, model: str, messages: Any, model_response: Any, optional_params: Any, **_: Any
        ) -> Any:
            ballot = _ballot(model, optional_params)
            phrases = ballot.phrases()
            rows = await asyncio.gather(*map(embedder.vector, phrases))
            vectors = dict(zip(phrases, rows, strict=True))
            return _fill(model_response, model, messages, ballot.answer(vectors))

    return EmbeddedVoters()


@dataclass(frozen=True, slots=True)
class _Ballot:
    """What one voter is asked: the text, and the questions that have a list of labels."""

    voter: Voter
    text: str
    questions: Sequence[TaskQuestion]

    def phrases(self) -> list[str]:
        """Return the distinct phrases whose vectors :meth:`answer` needs."""
        return list(dict.fromkeys(self._all_phrases()))

    def answer(self, vectors: Vectors) -> str:
        """Return the answer as JSON: the best label of each question, alone even if several may fit."""
        votes: dict[str, str | list[str]] = {}
        for question in self.questions:
            label = self.voter.choose(self.text, _labels(question), vectors)
            votes[question.name] = label if _form(question) == ONE_LABEL else [label]
        return json.dumps(votes)

    def _all_phrases(self) -> Iterator[str]:
        for question in self.questions:
            yield from self.voter.phrases(self.text, _labels(question))


def _ballot(model: str, parameters: Mapping[str, Any]) -> _Ballot:
    """Return what the model is asked.

    The errors are litellm's own, so that none of them counts as an outage of the provider.
    """
    if model not in VOTERS:
        message = f"there is no embedded voter {model!r}; there are {', '.join(VOTERS)}"
        raise litellm().NotFoundError(message=message, model=model, llm_provider=PROVIDER)
    questions: Sequence[TaskQuestion] = parameters.get("questions") or ()
    texts = {key: text for question in questions for key, text in question.texts.items()}
    if not texts:
        message = "an embedded voter needs questions about a text, in the parameter questions"
        raise litellm().BadRequestError(message=message, model=model, llm_provider=PROVIDER)
    answerable = [question for question in questions if lists_labels(question.question.control)]
    if not answerable:
        message = "an embedded voter only answers questions with a list of labels"
        raise litellm().BadRequestError(message=message, model=model, llm_provider=PROVIDER)
    return _Ballot(VOTERS[model], "\n".join(texts.values()), answerable)


def _labels(question: TaskQuestion) -> LabelSet:
    return question.question.control.answer_format.labels


def _form(question: TaskQuestion) -> object:
    return question.question.control.answer_format.form


def _fill(response: Any, model: str, messages: Messages, content: str) -> Any:
    """Return the response with the answer, and with a usage in the tokens that the pool counts."""
    input_tokens, output_tokens = count_tokens(texts_of(messages)), count_tokens((content,))
    response.model = f"{PROVIDER}/{model}"  # litellm needs it to price the response
    response.choices[0].message.content = content
    response.choices[0].finish_reason = "stop"
    response.usage = litellm().Usage(
        prompt_tokens=input_tokens,
        completion_tokens=output_tokens,
        total_tokens=input_tokens + output_tokens,
    )
    return response
