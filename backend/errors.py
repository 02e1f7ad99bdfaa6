"""Every error CaMVo raises on purpose, in one tree.

A person reads ``str(error)``: what went wrong, where, and what to do about it. A program reads
``error.code``, which is stable: it names the counter in ``/metrics`` and the ``code`` of a JSON error body.

::

    CamvoError
    ├── InvalidParameterError     a parameter or an array the algorithm cannot work with
    ├── SnapshotError             bytes that are no snapshot of a state
    ├── ConfigError               camvo.yaml, the environment or extra_params; names the path and the value
    │   ├── PriceMissingError     a model whose price nobody knows
    │   └── ModelUnknownError     a model name that is not in the pool
    ├── RequestError              a request that cannot be served; carries the HTTP status
    │   ├── BadBodyError          400
    │   ├── BadLabelConfigError   400
    │   ├── UnauthorizedError     401
    │   └── BodyTooLargeError     413
    ├── TaskError                 one task gets no prediction; the others do
    │   ├── MissingFieldError     the task's data lacks a key that the label config reads
    │   ├── EmptyTextError        the key is there, the text is blank
    │   ├── ImageUnavailableError no model can be shown the task's image
    │   ├── NoVoteError           every model that was asked failed
    │   ├── TaskDeletedError      the task was deleted while models were thinking
    │   └── BudgetExhaustedError  the money is spent
    ├── ModelError                one call to one model brought no vote
    │   ├── ModelTimeoutError     no answer in time
    │   ├── RateLimitedError      the provider asks for patience             (worth a retry)
    │   ├── UnavailableError      the provider is down or unreachable        (worth a retry)
    │   ├── KeyRejectedError      the key is missing, wrong or not allowed
    │   ├── RejectedError         the provider does not take such a request
    │   ├── ContextTooLongError   the prompt is longer than the model's window
    │   ├── RefusedError          a content filter or the model itself refused
    │   └── BadAnswerError        an empty answer, or one outside the label set
    ├── ReplayError               a votes table, or what goes with it, that cannot be replayed
    ├── EmbedderError             the embedding model is not to be had
    ├── LedgerError               the ledger cannot be opened, read or written
    ├── LabelStudioError          Label Studio's API did not do what it was asked
    │   ├── LabelStudioUnreachableError   nobody answers there, or not in time
    │   ├── LabelStudioKeyError           the API key is wrong, expired, or may not do this
    │   ├── LabelStudioMissingError       there is no such project or object
    │   └── PrivateAddressError           Label Studio does not call private addresses
    └── BackendError              CaMVo's own server, asked from the command line, did not do its part
"""

from __future__ import annotations

from dataclasses import dataclass

from camvo.errors import CamvoError


class ConfigError(CamvoError):
    """A mistake in ``camvo.yaml``, the environment or ``extra_params``."""

    code = "config_invalid"


class PriceMissingError(ConfigError):
    """A model whose price neither the configuration nor litellm's price map knows."""

    code = "price_missing"


class ModelUnknownError(ConfigError):
    """A model name that is not in the pool."""

    code = "model_unknown"


class RequestError(CamvoError):
    """A request that cannot be served; ``status`` is the HTTP status of the answer."""

    code = "bad_request"
    status = 400


class BadBodyError(RequestError):
    """A body that is not JSON, or not the JSON this endpoint takes."""

    code = "body_invalid"


class BadLabelConfigError(RequestError):
    """A label config that cannot be parsed."""

    code = "label_config_invalid"


class UnauthorizedError(RequestError):
    """Credentials are missing or wrong."""

    code = "unauthorized"
    status = 401


class BodyTooLargeError(RequestError):
    """A body over the limit."""

    code = "body_too_large"
    status = 413


class TaskError(CamvoError):
    """One task gets no prediction; the others of its request do."""

    code = "task_failed"


class MissingFieldError(TaskError):
    """The task's data lacks a key that the label config reads."""

    code = "field_missing"


class EmptyTextError(TaskError):
    """The field is there, but blank."""

    code = "text_empty"


class ImageUnavailableError(TaskError):
    """No model can be shown the task's image."""

    code = "image_unavailable"


class NoVoteError(TaskError):
    """Every model that was asked failed, so there is nothing to count."""

    code = "no_vote"


class TaskDeletedError(TaskError):
    """The task was deleted while models were thinking: nothing of it may be stored."""

    code = "task_deleted"


class BudgetExhaustedError(TaskError):
    """The budget of the project or of the day does not cover the next call."""

    code = "budget_exhausted"


@dataclass(frozen=True, slots=True)
class Usage:
    """What a provider reported for one call: tokens in, tokens out, and dollars."""

    input_tokens: int
    output_tokens: int
    cost: float


class ModelError(CamvoError):
    """One call to one model brought no vote; ``retry`` says whether another try may help.

    ``usage`` is what the failed call cost all the same, ``None`` where the provider reported nothing.
    """

    code = "model_failed"
    retry = False

    def __init__(
        self, message: str, *, where: str | None = None, fix: str | None = None, usage: Usage | None = None
    ) -> None:
        super().__init__(message, where=where, fix=fix)
        self.usage = usage


class ModelTimeoutError(ModelError):
    """No answer in time. Another try would take as long, and the provider may bill both."""

    code = "model_timeout"


class RateLimitedError(ModelError):
    """The provider asks for patience."""

    code = "model_rate_limited"
    retry = True


class UnavailableError(ModelError):
    """The provider is down, unreachable or answered with something that is no answer."""

    code = "model_unavailable"
    retry = True


class KeyRejectedError(ModelError):
    """The provider's key is missing, wrong or not allowed to use the model."""

    code = "model_key_rejected"


class RejectedError(ModelError):
    """The provider does not take such a request (unknown model, bad parameter)."""

    code = "model_rejected"


class ContextTooLongError(ModelError):
    """The prompt is longer than the model's window."""

    code = "model_context_too_long"


class RefusedError(ModelError):
    """A content filter or the model itself refused."""

    code = "model_refused"


class BadAnswerError(ModelError):
    """An empty answer, one that cannot be read, or a label outside the label set."""

    code = "model_bad_answer"


class ReplayError(CamvoError):
    """A votes table, prices, embeddings or options that cannot be replayed; ``where`` names the place."""

    code = "replay_invalid"


class EmbedderError(CamvoError):
    """The embedding model is not to be had, or returned something that is no embedding."""

    code = "embedder_unavailable"


class LedgerError(CamvoError):
    """The ledger cannot be opened, read or written."""

    code = "ledger_failed"


class LabelStudioError(CamvoError):
    """Label Studio's API did not do what it was asked."""

    code = "label_studio_failed"


class LabelStudioUnreachableError(LabelStudioError):
    """Nobody answers at Label Studio's address, or not in time."""

    code = "label_studio_unreachable"


class LabelStudioKeyError(LabelStudioError):
    """The API key is missing, wrong or expired, or its owner may not do this."""

    code = "label_studio_unauthorized"


class LabelStudioMissingError(LabelStudioError):
    """There is no such project or object, or the key's owner cannot see it."""

    code = "label_studio_not_found"


class PrivateAddressError(LabelStudioError):
    """Label Studio does not call backends or webhooks at private addresses unless it is told to."""

    code = "label_studio_private_address"


class BackendError(CamvoError):
    """CaMVo's own server, asked from the command line, is not there or refused."""

    code = "backend_failed"
