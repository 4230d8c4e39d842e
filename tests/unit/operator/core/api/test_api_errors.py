"""What an error of the API server means."""

import json

import pytest

from disttest_operator.core.api.api_errors import (
    AlreadyExistsError,
    ApiServerError,
    ConflictError,
    ForbiddenError,
    NotFoundError,
    RequestRefusedError,
    ResponseLostError,
    ServerBusyError,
    error_of,
)


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (400, "BadRequest", RequestRefusedError),
        (401, "Unauthorized", ForbiddenError),
        (403, "Forbidden", ForbiddenError),
        (404, "NotFound", NotFoundError),
        (409, "AlreadyExists", AlreadyExistsError),
        (409, "Conflict", ConflictError),  # also of a quota that two requests change at once
        (410, "Expired", ServerBusyError),
        (413, "RequestEntityTooLarge", RequestRefusedError),
        (422, "Invalid", RequestRefusedError),
        (429, "TooManyRequests", ServerBusyError),
        (500, "InternalError", ResponseLostError),
        (503, "ServiceUnavailable", ServerBusyError),
        (504, "Timeout", ResponseLostError),
    ],
)
def test_each_code_has_its_error(code: int, reason: str, kind: type[ApiServerError]) -> None:
    raw = json.dumps({"kind": "Status", "code": code, "reason": reason, "message": "two\n  lines"}).encode()
    error = error_of(code, raw)
    assert type(error) is kind
    assert str(error) == "two lines"


@pytest.mark.parametrize("raw", [b"", b" <html>", b"[]", b'{"details": 7}'])
def test_an_error_without_a_message_names_its_code(raw: bytes) -> None:
    assert str(error_of(404, raw, request="GET /api")) == "GET /api: 404 the API server answered 404"


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"404 page not found\n", "404 page not found"),
        (b"Access denied\r\n by proxy.example.com", "Access denied by proxy.example.com"),
        (b"\xff", "\N{REPLACEMENT CHARACTER}"),
        (b"x" * 1000, "x" * 300),
    ],
)
def test_the_text_of_a_proxy_is_in_the_message(raw: bytes, words: str) -> None:
    assert str(error_of(403, raw)) == words


def test_what_does_not_exist_is_named() -> None:
    error = error_of(404, b'{"message": "no", "details": {"name": "nightly"}}')
    assert isinstance(error, NotFoundError)
    assert error.name == "nightly"
