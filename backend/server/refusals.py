"""Errors as JSON answers, which quote neither tasks nor secrets."""

from __future__ import annotations

import structlog
from flask import Flask, Response, jsonify, request
from werkzeug.datastructures import WWWAuthenticate
from werkzeug.exceptions import HTTPException, RequestEntityTooLarge

from backend.errors import BodyTooLargeError, ConfigError, LedgerError, RequestError, UnauthorizedError
from backend.settings import Environment
from camvo.errors import CamvoError

_log = structlog.get_logger(__name__)


def register_refusals(app: Flask, environment: Environment) -> None:
    """Register the error handlers; every answer has the keys ``code``, ``message``, ``where`` and ``fix``."""

    @app.errorhandler(CamvoError)
    def refuse(error: CamvoError) -> tuple[Response, int]:
        _log.warning("refused", endpoint=request.path, code=error.code, reason=str(error))
        if isinstance(error, RequestError | ConfigError):
            status = error.status if isinstance(error, RequestError) else 400
            answer = jsonify(code=error.code, message=error.message, where=error.where, fix=error.fix)
            if status == UnauthorizedError.status:
                answer.www_authenticate = WWWAuthenticate("basic", {"realm": "CaMVo"})
            return answer, status
        # The details, such as the ledger's address, are not for the caller.
        message = "CaMVo cannot answer the request"
        status = 503 if isinstance(error, LedgerError) and error.temporary else 500
        return jsonify(code=error.code, message=message, where=request.path, fix="see CaMVo's log"), status

    @app.errorhandler(RequestEntityTooLarge)
    def refuse_large_body(_: RequestEntityTooLarge) -> tuple[Response, int]:
        limit = environment.max_body_mb
        return refuse(
            BodyTooLargeError(
                f"the body is over {limit} MB",
                where="body",
                fix="select fewer tasks or raise CAMVO_MAX_BODY_MB",
            )
        )

    @app.errorhandler(HTTPException)
    def refuse_http(error: HTTPException) -> tuple[Response, int]:
        return jsonify(code="http", message=error.name, where=request.path, fix=None), error.code or 500

    @app.errorhandler(Exception)
    def refuse_any(error: Exception) -> tuple[Response, int]:
        # The message may quote a task, so only the type is logged and nothing is returned.
        _log.error("internal", endpoint=request.path, kind=type(error).__name__, where=_source_line(error))
        return jsonify(
            code="internal", message="an error in CaMVo", where=request.path, fix="see CaMVo's log"
        ), 500


def _source_line(error: BaseException) -> str:
    """The file and line that raised an error, for the log."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    return (
        "" if trace is None else f"{trace.tb_frame.f_code.co_filename.rsplit('/', 1)[-1]}:{trace.tb_lineno}"
    )
