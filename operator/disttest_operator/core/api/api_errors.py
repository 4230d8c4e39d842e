"""Errors of the API server, for the operator, the command line and the development cluster.

ApiServerError
├── ServerBusyError           nothing was done: not reached, or too busy; it may work later
│   ├── ServerUnreachableError
│   └── ConflictError         the object was changed by another client: read it again
├── ResponseLostError         no response, or one that leaves it open: it may have been done
├── AlreadyExistsError        an object of this name exists
└── RequestRefusedError       it was not done, and would not be done later
    ├── ForbiddenError
    └── NotFoundError
"""

import json


class ApiServerError(Exception):
    """One line: the error, with the API server's message if it sent one."""


class ServerBusyError(ApiServerError):
    """The API server did not take the request, and may take it later."""


class ServerUnreachableError(ServerBusyError):
    """No server answers at the address, or its certificate cannot be trusted."""


class ConflictError(ServerBusyError):
    """The object has changed since it was read."""


class ResponseLostError(ApiServerError):
    """The API server may have done what was requested."""


class AlreadyExistsError(ApiServerError):
    """An object of this name exists."""


class RequestRefusedError(ApiServerError):
    """Rejected by admission, quota, validation or RBAC."""


class ForbiddenError(RequestRefusedError):
    """The user has no permission, or is unknown."""


class NotFoundError(RequestRefusedError):
    """The object, its namespace or its kind does not exist; a server that just started may not have the kind yet."""

    def __init__(self, message: str, name: str) -> None:
        super().__init__(message)
        self.name = name  # of the missing object or namespace; empty if the kind is missing


BUSY = frozenset({408, 410, 429, 503})  # 410: the resourceVersion or continue token of a list is too old
TEXT_BYTES = 300  # of a body that is not a Status


def error_of(code: int, raw: bytes, *, request: str = "") -> ApiServerError:
    """The error for a response with a code from 400 on; its body is a Status, or the text of a proxy.

    The message begins with `request` if given.
    """
    status = _status(raw)
    message = " ".join(str(status.get("message", "")).split()) or f"the API server answered {code}"
    if request:
        message = f"{request}: {code} {message}"
    if code in BUSY:
        return ServerBusyError(message)
    if code >= 500:
        return ResponseLostError(message)
    if code == 409:
        return AlreadyExistsError(message) if status.get("reason") == "AlreadyExists" else ConflictError(message)
    if code in {401, 403}:
        return ForbiddenError(message)
    if code == 404:
        details = status.get("details")
        return NotFoundError(message, str(details.get("name", "")) if isinstance(details, dict) else "")
    return RequestRefusedError(message)


def _status(raw: bytes) -> dict[str, object]:
    try:
        status = json.loads(raw)
    except ValueError:
        text = raw[:TEXT_BYTES].decode(errors="replace")
        return {} if text.lstrip().startswith("<") else {"message": text}  # a page of HTML explains little
    return status if isinstance(status, dict) else {}
