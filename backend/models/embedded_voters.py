"""The embedded voters as a litellm provider, so that they are called, counted and paid like any model.

A call carries the questions as the parameter ``questions``, a sequence of :class:`TaskQuestion`. The messages
are only counted: the voters do not read them.
"""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from backend.models.embedder import Embedder
from backend.models.model import count_tokens, litellm
from backend.questions.controls import ONE_LABEL, lists_labels
from backend.questions.prompts.messages import Messages, texts_of
from backend.questions.question import TaskQuestion
from backend.settings import ModelSettings
from backend.settings.models import DEFAULT_MODELS
from camvo.typing import Array


def register(embedder: Embedder) -> None:
    """Let litellm answer calls to ``embedded/…`` with this embedder. A second call replaces the embedder.

    Call it before a pool is made. It imports litellm (seconds), but loads no embedding model.
    """
    _install_provider(embedder, DEFAULT_MODELS)


_LONGEST_TEXT = 10_000
"""Characters of a text that are used; the embedding model reads about a tenth of them."""

_PASSAGES = 32
"""The most sentences or words of a text that vote: one batch of the embedder."""

_STEM = 5
"""Letters in a stem: crude, but it works for every language with an alphabet."""

_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_WORD = re.compile(r"\w{4,}")


def _whole_text(text: str) -> tuple[str, ...]:
    """Return the text as one passage."""
    return (text[:_LONGEST_TEXT],)


def _sentences(text: str) -> tuple[str, ...]:
    """Return the text's sentences, or the whole text if there are none."""
    parts = [stripped for part in _END.split(text[:_LONGEST_TEXT]) if (stripped := part.strip())]
    return tuple(parts[:_PASSAGES]) or _whole_text(text)


def _words(text: str) -> tuple[str, ...]:
    """Return the text's distinct words of four or more letters, or the whole text if there are none."""
    distinct = dict.fromkeys(_WORD.findall(text[:_LONGEST_TEXT].casefold()))
    return tuple(distinct)[:_PASSAGES] or _whole_text(text)


def _stems(text: str) -> Counter[str]:
    """Count the first letters of each word of four or more letters."""
    return Counter(word[:_STEM] for word in _WORD.findall(text[:_LONGEST_TEXT].casefold()))


def _label_name(label: str, _hint: str | None) -> tuple[str, ...]:
    """Return the label's name."""
    return (label,)


def _sentence_about(label: str, _hint: str | None) -> tuple[str, ...]:
    """Return a sentence that contains the label's name."""
    return (f"This text is about {label}.",)


def _hint_sentences(label: str, hint: str | None) -> tuple[str, ...]:
    """Return the sentences of the label's hint, or its name if it has no hint."""
    return _sentences(hint) if hint and hint.strip() else (label,)


def _phrases(label: str, hint: str | None) -> tuple[str, ...]:
    """Return all phrases above, and ``name: hint`` as in a dictionary."""
    phrases = (*_label_name(label, hint), *_sentence_about(label, hint), *_hint_sentences(label, hint))
    return (*phrases, f"{label}: {hint}") if hint and hint.strip() else phrases


_LabelSet: TypeAlias = Sequence[tuple[str, str | None]]
"""The labels, each a visible text and a hint or ``None``, in the order of the label config; not empty."""

_Vectors: TypeAlias = Mapping[str, Array]
"""Phrase → its unit vector, shape (d,)."""


class _Voter(Protocol):
    """Chooses a label for a text."""

    def phrases(self, text: str, labels: _LabelSet) -> tuple[str, ...]:
        """Return the phrases whose vectors :meth:`choose` needs."""

    def choose(self, text: str, labels: _LabelSet, vectors: _Vectors) -> str:
        """Return the visible text of one of the labels."""


@dataclass(frozen=True, slots=True)
class _CosineVoter:
    """Compares vectors: each passage of the text votes for the label whose description is nearest to it."""

    passages: Callable[[str], tuple[str, ...]]
    describe: Callable[[str, str | None], tuple[str, ...]]

    def phrases(self, text: str, labels: _LabelSet) -> tuple[str, ...]:
        """Return the passages of the text and the descriptions of the labels."""
        described = (phrase for name, hint in labels for phrase in self.describe(name, hint))
        return (*self.passages(text), *described)

    def choose(self, text: str, labels: _LabelSet, vectors: _Vectors) -> str:
        """Return the label with the greatest weight of passages."""
        directions = [_direction([vectors[phrase] for phrase in self.describe(*label)]) for label in labels]
        leads, sums = [0.0] * len(labels), [0.0] * len(labels)
        for passage in self.passages(text):
            cosines = [float(vectors[passage] @ direction) for direction in directions]
            leads[_best(cosines)] += _lead(cosines)
            sums = [total + cosine for total, cosine in zip(sums, cosines, strict=True)]
        return labels[_best(list(zip(leads, sums, strict=True)))][0]


@dataclass(frozen=True, slots=True)
class _LexicalVoter:
    """Compares words: counts the features that a text shares with a label's name and hint."""

    features: Callable[[str], Counter[str]]

    def phrases(self, text: str, labels: _LabelSet) -> tuple[str, ...]:
        """Return nothing: this voter needs no vectors."""
        return ()

    def choose(self, text: str, labels: _LabelSet, vectors: _Vectors) -> str:
        """Return the label that shares most features with the text, relative to the label's length."""
        counts = self.features(text)
        label_features = [set(self.features(f"{name} {hint or ''}")) for name, hint in labels]
        owners = Counter(feature for owned in label_features for feature in owned)
        scores = []
        for owned in label_features:
            # sorted, so that every process rounds the sum in the same way
            shared = sum(counts[feature] / owners[feature] for feature in sorted(owned))
            scores.append(shared / math.sqrt(len(owned)) if owned else 0.0)
        return labels[_best(scores)][0]


_VOTERS: Mapping[str, _Voter] = {
    "overlap": _LexicalVoter(_stems),
    "keywords": _CosineVoter(_words, _hint_sentences),
    "label-name": _CosineVoter(_whole_text, _label_name),
    "label-sentence": _CosineVoter(_whole_text, _sentence_about),
    "hints": _CosineVoter(_whole_text, _hint_sentences),
    "sentences": _CosineVoter(_sentences, lambda label, hint: (*_hint_sentences(label, hint), label)),
    "everything": _CosineVoter(_whole_text, _phrases),
}
"""Name → voter, weakest first; litellm's name is ``embedded/<name>``."""


def _direction(vectors: Sequence[Array]) -> Array:
    mean: Array = np.mean(vectors, axis=0)
    return mean / max(float(np.linalg.norm(mean)), 1e-12)


def _lead(scores: Sequence[float]) -> float:
    """Return the distance from the best score to the second best; 0 for a single score."""
    best, *others = sorted(scores, reverse=True)
    return best - others[0] if others else 0.0


def _best(scores: Sequence[float] | Sequence[tuple[float, float]]) -> int:
    return max(range(len(scores)), key=lambda position: scores[position])


_PROVIDER = "embedded"
"""The provider in litellm's names of the voters: ``embedded/<name>``."""

_DOLLAR_PER_MILLION = 1e-6


def _install_provider(embedder: Embedder, models: Sequence[ModelSettings]) -> None:
    """Register the provider and the models' prices with litellm; a second call replaces the first."""
    module = litellm()
    handler = _handler(embedder)
    others = [item for item in module.custom_provider_map if item["provider"] != _PROVIDER]
    module.custom_provider_map = [*others, {"provider": _PROVIDER, "custom_handler": handler}]
    # This order matters: before the set-up litellm ignores the prices and the support of schemas.
    module.utils.custom_llm_setup()
    module.register_model({model.model: _price_map_entry(model) for model in models})


def _price_map_entry(model: ModelSettings) -> dict[str, object]:
    return {
        "litellm_provider": _PROVIDER,
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

    voter: _Voter
    text: str
    questions: Sequence[TaskQuestion]

    def phrases(self) -> list[str]:
        """Return the distinct phrases whose vectors :meth:`answer` needs."""
        return list(
            dict.fromkeys(
                phrase
                for question in self.questions
                for phrase in self.voter.phrases(self.text, _labels(question))
            )
        )

    def answer(self, vectors: _Vectors) -> str:
        """Return the answer as JSON: the best label of each question, alone even if several may fit."""
        votes: dict[str, str | list[str]] = {}
        for question in self.questions:
            label = self.voter.choose(self.text, _labels(question), vectors)
            votes[question.name] = label if _form(question) == ONE_LABEL else [label]
        return json.dumps(votes)


def _ballot(model: str, parameters: Mapping[str, Any]) -> _Ballot:
    """Return what the model is asked.

    The errors are litellm's own, so that none of them counts as an outage of the provider.
    """
    if model not in _VOTERS:
        message = f"there is no embedded voter {model!r}; there are {', '.join(_VOTERS)}"
        raise litellm().NotFoundError(message=message, model=model, llm_provider=_PROVIDER)
    questions: Sequence[TaskQuestion] = parameters.get("questions") or ()
    texts = {key: text for question in questions for key, text in question.texts.items()}
    if not texts:
        message = "an embedded voter needs questions about a text, in the parameter questions"
        raise litellm().BadRequestError(message=message, model=model, llm_provider=_PROVIDER)
    answerable = [question for question in questions if lists_labels(question.config.control)]
    if not answerable:
        message = "an embedded voter only answers questions with a list of labels"
        raise litellm().BadRequestError(message=message, model=model, llm_provider=_PROVIDER)
    return _Ballot(_VOTERS[model], "\n".join(texts.values()), answerable)


def _labels(question: TaskQuestion) -> _LabelSet:
    return question.config.control.answer_format.labels


def _form(question: TaskQuestion) -> object:
    return question.config.control.answer_format.form


def _fill(response: Any, model: str, messages: Messages, content: str) -> Any:
    """Return the response with the answer, and with a usage in the tokens that the pool counts."""
    input_tokens, output_tokens = count_tokens(texts_of(messages)), count_tokens((content,))
    response.model = f"{_PROVIDER}/{model}"  # litellm needs it to price the response
    response.choices[0].message.content = content
    response.choices[0].finish_reason = "stop"
    response.usage = litellm().Usage(
        prompt_tokens=input_tokens, completion_tokens=output_tokens, total_tokens=input_tokens + output_tokens
    )
    return response
