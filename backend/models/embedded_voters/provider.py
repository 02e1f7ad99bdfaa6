"""The voters as a litellm provider, so that they are asked, counted and paid like any model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from backend.models.embedded_voters.voters import VOTERS, Vectors, Voter
from backend.models.embedder.embedder import Embedder
from backend.models.facts import count_tokens, litellm
from backend.questions.controls.closed_set import ONE_FORM
from backend.questions.prompts.parts import Messages, texts
from backend.questions.prompts.prompts import Prompt, read
from backend.settings import ModelSettings
from camvo.errors import InvalidParameterError

PROVIDER = "embedded"
"""What litellm's names of the voters begin with, before the slash."""

_DOLLAR_PER_MILLION = 1e-6


def install(embedder: Embedder, models: Sequence[ModelSettings]) -> None:
    """Make litellm know the provider and the models' prices; a second call replaces the first."""
    module = litellm()
    handler = _handler(embedder)
    others = [item for item in module.custom_provider_map if item["provider"] != PROVIDER]
    module.custom_provider_map = [*others, {"provider": PROVIDER, "custom_handler": handler}]
    # in this order: before its set-up litellm does not see the prices, nor that schemas are supported
    module.utils.custom_llm_setup()
    module.register_model({model.model: _entry(model) for model in models})


def _entry(model: ModelSettings) -> dict[str, object]:
    return {
        "litellm_provider": PROVIDER,
        "mode": "chat",
        "input_cost_per_token": (model.input_price or 0.0) * _DOLLAR_PER_MILLION,
        "output_cost_per_token": (model.output_price or 0.0) * _DOLLAR_PER_MILLION,
        "supports_response_schema": True,
        "supports_system_messages": True,
    }


def _handler(embedder: Embedder) -> Any:
    """The provider over an embedder; its base class is litellm's, which is imported on first use only."""
    litellm()
    from litellm.llms.custom_llm import CustomLLM  # noqa: PLC0415 - heavy

    class EmbeddedVoters(CustomLLM):  # type: ignore[misc]  # litellm's types are not followed
        """Answers CaMVo's own prompts; parameters such as the temperature change nothing."""

        def completion(self, model: str, messages: Any, model_response: Any, **_: Any) -> Any:
            voter, prompt = _asked(model, messages)
            phrases = _phrases(voter, prompt)
            vectors = dict(zip(phrases, embedder.embed(phrases), strict=True))
            return _filled(model_response, model, messages, _content(voter, prompt, vectors))

        async def acompletion(self, model: str, messages: Any, model_response: Any, **_: Any) -> Any:
            voter, prompt = _asked(model, messages)
            phrases = _phrases(voter, prompt)
            rows = await asyncio.gather(*map(embedder.vector, phrases))
            vectors = dict(zip(phrases, rows, strict=True))
            return _filled(model_response, model, messages, _content(voter, prompt, vectors))

    return EmbeddedVoters()


def _asked(model: str, messages: Messages) -> tuple[Voter, Prompt]:
    """Whom and what; litellm's own errors, so that neither counts as an outage."""
    if model not in VOTERS:
        message = f"there is no embedded voter {model!r}; there are {', '.join(VOTERS)}"
        raise litellm().NotFoundError(message=message, model=model, llm_provider=PROVIDER)
    try:
        prompt = read(messages)
    except InvalidParameterError as error:
        raise litellm().BadRequestError(message=str(error), model=model, llm_provider=PROVIDER) from error
    answerable = tuple(question for question in prompt.questions if question.form in (ONE_FORM, [ONE_FORM]))
    if not answerable:
        message = "an embedded voter answers only what has a list of labels"
        raise litellm().BadRequestError(message=message, model=model, llm_provider=PROVIDER)
    return VOTERS[model], replace(prompt, questions=answerable)


def _phrases(voter: Voter, prompt: Prompt) -> list[str]:
    return list(dict.fromkeys(_all_phrases(voter, prompt)))


def _all_phrases(voter: Voter, prompt: Prompt) -> Iterator[str]:
    for question in prompt.questions:
        yield from voter.phrases(prompt.text, question.labels)


def _content(voter: Voter, prompt: Prompt, vectors: Vectors) -> str:
    """The label that fits best; where several may fit, it alone."""
    votes: dict[str, str | list[str]] = {}
    for question in prompt.questions:
        label = voter.choose(prompt.text, question.labels, vectors)
        votes[question.name] = label if question.form == ONE_FORM else [label]
    return json.dumps(votes)


def _filled(response: Any, model: str, messages: Messages, content: str) -> Any:
    """The response with the answer, and a usage in the tokens that the pool counts with, too."""
    sent = count_tokens(texts(messages))
    written = count_tokens((content,))
    response.model = f"{PROVIDER}/{model}"  # without it litellm cannot price what it returns
    response.choices[0].message.content = content
    response.choices[0].finish_reason = "stop"
    response.usage = litellm().Usage(
        prompt_tokens=sent, completion_tokens=written, total_tokens=sent + written
    )
    return response
