"""Every error that CaMVo raises deliberately, in one tree.

``str(error)`` is for people: it says what went wrong, where, and what to do. ``error.code`` is for programs
and stable: it labels counters in ``/metrics`` and is the ``code`` of a JSON error body. The first three
classes are in :mod:`camvo.errors`, because the algorithm needs no backend.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from camvo.errors import CamvoError


class ConfigError(CamvoError):
    """Mistake in ``camvo.yaml``, the environment or ``extra_params``; ``where`` names the key."""

    code = "config_invalid"


class PriceMissingError(ConfigError):
    """Model whose price is neither in the configuration nor in litellm's price map."""

    code = "price_missing"


class BatchesUnsupportedError(ConfigError):
    """Model whose provider has no batches that CaMVo knows."""

    code = "batches_unsupported"


class ModelUnknownError(ConfigError):
    """Model name that is not in the pool."""

    code = "model_unknown"


class RequestError(CamvoError):
    """Request that cannot be served; ``status`` is the HTTP status of the response."""

    code = "bad_request"
    status = 400


class BadBodyError(RequestError):
    """Request body that is not JSON, or not the JSON that the endpoint expects."""

    code = "body_invalid"


class BadLabelConfigError(RequestError):
    """Label config that cannot be parsed."""

    code = "label_config_invalid"


class UnauthorizedError(RequestError):
    """Missing or wrong credentials."""

    code = "unauthorized"
    status = 401


class NotShownError(RequestError):
    """Texts of a task, which a server without credentials shows to nobody."""

    code = "texts_not_shown"
    status = 403


class ProjectUnknownError(RequestError):
    """Project that the ledger does not know."""

    code = "project_unknown"
    status = 404


class SlowRequestError(RequestError):
    """Request whose header or body was not received in time."""

    code = "request_slow"
    status = 408


class BodyTooLargeError(RequestError):
    """Request body, or number of tasks in it, over the limit."""

    code = "body_too_large"
    status = 413


class BusyError(RequestError):
    """Request for which the server has no place at the moment.

    Attributes:
        retry_after: seconds after which the caller may try again.
    """

    code = "busy"
    status = 503
    retry_after = 2

    @classmethod
    def now(cls, message: str) -> BusyError:
        """The error of a server that may have room in a moment."""
        return cls(message, where="server", fix=f"repeat it after {cls.retry_after} s")


class MalformedRequestError(RequestError):
    """Bytes that are no HTTP request, or one whose length is ambiguous.

    Args:
        status: the HTTP status of the response.
    """

    code = "http"

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message, where="header or chunks", fix="send HTTP/1.1")
        self.status = status


class TaskError(CamvoError):
    """Task that lacks a label for one of its questions, or for all; other tasks are unaffected.

    Attributes:
        meaning: why tasks have no label, for people: it follows "because".
        cure: what to do about them.
        partial: the prediction of its questions that have a label; ``None`` if none has.
    """

    code = "task_failed"
    meaning = "of an error in CaMVo"
    cure = "look for task_failed or vote_failed in the log, and report it"
    partial: dict[str, Any] | list[Any] | None = None


class MissingFieldError(TaskError):
    """Task data that lacks a key which the label config reads."""

    code = "field_missing"
    meaning = "the data lacks a key that the label config reads"
    cure = "import the key that the label config reads, or set camvo_fields at the control"


class EmptyTextError(TaskError):
    """Task data whose text is blank."""

    code = "text_empty"
    meaning = "the text is blank"
    cure = "give them a text, or delete them"


class ImageUnavailableError(TaskError):
    """Task image that cannot be shown to any model."""

    code = "image_unavailable"
    meaning = "no model can be shown the image"
    cure = "make their images available to a model (docs/tags.md#images)"


class RedactionError(TaskError):
    """Task text that the redact function could not redact, so that no model is shown it."""

    code = "redaction_failed"
    meaning = "the function of redact failed on the text"
    cure = "correct the function that redact names in camvo.yaml"


class NoVoteError(TaskError):
    """Task on which every queried model failed, so that there are no votes.

    Args:
        reason: the code of the failure of most of these models, which becomes the error's own code.
    """

    code = "no_vote"
    meaning = "no model gave a vote"
    cure = "run camvo check --live, which asks each model once"

    def __init__(
        self, message: str, *, where: str | None = None, fix: str | None = None, reason: str | None = None
    ) -> None:
        super().__init__(message, where=where, fix=fix)
        self.code = reason or self.code


class NoUsableAnswerError(NoVoteError):
    """Task about which every queried model has made all its attempts without a usable answer.

    Asking again about it is pointless unless the prompt or the models change.
    """

    code = "no_usable_answer"
    meaning = "all attempts of all models brought unusable answers"
    cure = "label them by hand, give the labels hints in the label config, or name other models in camvo.yaml"


class TaskDeletedError(TaskError):
    """Task that was deleted; nobody is asked about it, and nothing about it is stored."""

    code = "task_deleted"
    meaning = "they were deleted"
    cure = "nothing: somebody deleted them"


class BatchPendingError(TaskError):
    """Task that waits for an answer from a provider's batch; nobody buys the same answer meanwhile."""

    code = "in_batch"
    meaning = "a provider's batch has not answered yet"
    cure = "run the same command again when the batches are back; camvo jobs lists them"


class StoppingError(TaskError):
    """Task that needs a model while the server stops; another request after the restart gets its answer."""

    code = "stopping"
    meaning = "the run or the server stopped"
    cure = "start the server again if it was one"


class WithdrawnError(TaskError):
    """Call to a slow model that its round gave up before it was sent."""

    code = "withdrawn"
    meaning = "the round no longer waited for it"
    cure = "nothing: other votes were enough"


class BudgetExhaustedError(TaskError):
    """Budget of the project or of the day that does not cover the next call."""

    code = "budget_exhausted"
    meaning = "the budget does not cover a call"
    cure = "raise budget in camvo.yaml or --budget, or wait for the next UTC day if it is the day's"

    held = False
    """Whether calls under way may leave enough for it, because they reserve more than they cost."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost of one model call, as the provider reported them.

    Attributes:
        input_tokens: tokens of the prompt.
        output_tokens: tokens of the answer.
        cost: in $.
        cached_tokens: the part of the input tokens that the provider read from its cache.
    """

    input_tokens: int
    output_tokens: int
    cost: float
    cached_tokens: int = 0


class ModelError(CamvoError):
    """Model call that gave no vote.

    Attributes:
        meaning: why a model gave no vote, for people: it follows "because", and calls the model "it".
        cure: what to do about the model.
        retry: whether another attempt may succeed.
        usage: tokens and cost of the failed call, ``None`` if the provider reported nothing.
        reason: why it failed, in a few words, such as ``HTTP 503``; ``None`` if nobody has to be told.
        certain: whether no call to the model can succeed at the moment, whatever it is about.
        billable: whether the provider may bill the call although no answer has come.
    """

    code = "model_failed"
    meaning = "calls failed"
    cure = "look for the event model_failed in the log, which names the failure"
    retry = False
    reason: str | None = None
    certain = False
    billable = False

    def __init__(
        self, message: str, *, where: str | None = None, fix: str | None = None, usage: Usage | None = None
    ) -> None:
        super().__init__(message, where=where, fix=fix)
        self.usage = usage


class ModelTimeoutError(ModelError):
    """No answer in time. There is no retry: it would take as long, and the provider may bill both."""

    code = "model_timeout"
    meaning = "no answer came within the timeout"
    cure = (
        "if its server answers one call after another, set max_concurrency: 1 at its entry in "
        "camvo.yaml; if a single call takes as long, raise timeout there"
    )
    billable = True


class RateLimitedError(ModelError):
    """The provider's rate limit is reached."""

    code = "model_rate_limited"
    meaning = "the provider refused calls for its quota"
    cure = "ask its provider for more quota, or set rpm or tpm of its entry in camvo.yaml to the quota"
    retry = True


class UnavailableError(ModelError):
    """The provider is down or unreachable, or its response is malformed."""

    code = "model_unavailable"
    meaning = "the server failed or could not be reached"
    cure = (
        "look at the provider's status page; if the server is yours, check that it runs and that "
        "api_base in camvo.yaml is its address"
    )
    retry = True


class KeyRejectedError(ModelError):
    """The provider's API key is missing, wrong, has no access to the model, or no credit."""

    code = "model_key_rejected"
    meaning = "the provider rejected the key or lacks credit for it, or none is set"
    cure = (
        "check the account's credit, and put a valid key into the variable that api_key_env of its entry in"
        " camvo.yaml names"
    )


class RejectedError(ModelError):
    """The provider does not accept the request, e.g. because of an unknown model or a bad parameter."""

    code = "model_rejected"
    meaning = "the provider rejected the requests"
    cure = (
        "correct model, api_base and the further keys of its entry in camvo.yaml; camvo check --live "
        "asks it once"
    )


class ContextTooLongError(ModelError):
    """The prompt is longer than the model's context window."""

    code = "model_context_too_long"
    meaning = "the texts were longer than the context window"
    cure = "show less text, or take it out of camvo.yaml for long texts"


class RefusedError(ModelError):
    """The model or a content filter refused to answer."""

    code = "model_refused"
    meaning = "an answer was refused"
    cure = "take it out of camvo.yaml if its provider refuses such texts"


class BadAnswerError(ModelError):
    """The answer is empty, cannot be parsed, or contains a label outside the label set."""

    code = "model_bad_answer"
    meaning = "the answers named no label"
    cure = (
        "set structured_output: true at its entry in camvo.yaml if its server takes JSON schemas and gets "
        "none, give the labels hints in the label config, or take the model out"
    )


class CutOffError(BadAnswerError):
    """The answer reached ``max_tokens`` before it named a label. The same prompt would be cut off again."""

    code = "model_cut_off"
    meaning = "answers were cut off by max_tokens"
    cure = "raise max_tokens of its entry in camvo.yaml"


class NotBookedError(ModelError):
    """The ledger could not book the call or its answer, for a reason that does not pass.

    Money that was reserved for the call stays reserved, and counts as spent once the reservation expires.
    """

    code = "model_not_booked"
    meaning = "the ledger could not book the calls"
    cure = "look for the event not_booked in the log: its money could not be booked in the ledger"


class UnusableAnswersError(ModelError):
    """The model has made all its attempts at the prompt, and no answer was usable; it is not asked again."""

    code = "model_answers_unusable"
    meaning = "all attempts brought unusable answers"
    cure = "give the labels hints in the label config, or take it out of camvo.yaml"


def cure_of(code: str) -> str:
    """What to do about tasks or models that fail with a code, for people."""
    return _kinds().get(code, TaskError).cure


def meaning_of(code: str) -> str:
    """What a code of a failed task or call means, for people: it follows "because"."""
    return _kinds().get(code, TaskError).meaning


@cache
def _kinds() -> dict[str, type[TaskError] | type[ModelError]]:
    """The classes of failed tasks and calls by code; every other code is an error in CaMVo."""
    return {kind.code: kind for root in (TaskError, ModelError) for kind in _with_subclasses(root)}


def _with_subclasses(
    root: type[TaskError] | type[ModelError],
) -> Iterator[type[TaskError] | type[ModelError]]:
    yield root
    for kind in root.__subclasses__():
        yield from _with_subclasses(kind)


class ReplayError(CamvoError):
    """Votes table, prices, embeddings or options that cannot be replayed; ``where`` names the input."""

    code = "replay_invalid"


class DatasetError(CamvoError):
    """File of tasks or labels that cannot be read or written, or does not fit; ``where`` names the line."""

    code = "dataset_invalid"


class EmbedderError(CamvoError):
    """The embedding model is unavailable, or returned something other than embeddings."""

    code = "embedder_unavailable"


DISK_FULL = "disk_full"
"""The code of a failure for lack of room on a disk."""


class DiskFullError(DatasetError):
    """There is no room on the disk for an output or for temporary files."""

    code = DISK_FULL


class LedgerError(CamvoError):
    """The ledger cannot be opened, read or written.

    Attributes:
        temporary: whether the database is down, full or locked, so that the same may succeed later.
    """

    code = "ledger_failed"

    def __init__(
        self, message: str, *, where: str | None = None, fix: str | None = None, temporary: bool = False
    ) -> None:
        super().__init__(message, where=where, fix=fix)
        self.temporary = temporary


class LedgerFullError(LedgerError):
    """There is no room on the disk of the ledger."""

    code = DISK_FULL


class LabelStudioError(CamvoError):
    """A request to Label Studio's API failed."""

    code = "label_studio_failed"


class LabelStudioUnreachableError(LabelStudioError):
    """Label Studio does not respond at its address, or not in time."""

    code = "label_studio_unreachable"


class LabelStudioKeyError(LabelStudioError):
    """The API key is missing, wrong or expired, or its owner lacks the permission."""

    code = "label_studio_unauthorized"


class LabelStudioMissingError(LabelStudioError):
    """The project or object does not exist, or the key's owner cannot see it."""

    code = "label_studio_not_found"


class PrivateAddressError(LabelStudioError):
    """Label Studio refuses to call a backend or webhook at a private address unless it is configured to."""

    code = "label_studio_private_address"


class BackendError(CamvoError):
    """The CaMVo server did not respond to a command, or refused its request."""

    code = "backend_failed"
