"""What an answer of the API server that is no success means."""

import json

from disttest_operator.ports import ClusterError, ConflictError, ExistsError, RefusedError


def error(status: int, request: str, raw: bytes) -> ClusterError:
    """403 and 422 come from admission, quota, RBAC and validation."""
    try:
        answer = json.loads(raw)
        words, reason = str(answer.get("message", "")), str(answer.get("reason", ""))
    except (ValueError, AttributeError):
        words, reason = raw[:300].decode(errors="replace"), ""
    sentence = f"{request}: {status} {words}"
    if status == 409:
        return ExistsError(sentence) if reason == "AlreadyExists" else ConflictError(sentence)
    if status in {400, 403, 404, 413, 422}:
        return RefusedError(sentence)
    return ClusterError(sentence)
