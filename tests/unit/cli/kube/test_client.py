"""The command line's client against canned answers: what it sends, and what it makes of answers."""

from pathlib import Path

import pytest

from disttest_cli.kube import client
from disttest_cli.kube.client import KubeClient
from disttest_operator.core.api.api_errors import (
    AlreadyExistsError,
    RequestRefusedError,
    ResponseLostError,
    ServerBusyError,
)
from disttest_operator.core.api.resources import Kind
from tests.support.fakes.canned import NAMESPACE, Broken, CannedWatch, Server

MANIFEST = {"apiVersion": "disttest.dev/v1alpha1", "kind": "DistTest", "metadata": {"name": "a"}, "spec": {}}
PATH = f"/apis/disttest.dev/v1alpha1/namespaces/{NAMESPACE}/disttests"
BODY = {"metadata": {"name": "a", "uid": "u", "resourceVersion": "7"}}


def test_it_is_created_strictly_and_with_the_token(api: KubeClient, server: Server) -> None:
    server.answers = [(201, BODY)]
    assert api.create(Kind.RUN, NAMESPACE, MANIFEST) == BODY
    [request] = server.requests
    assert (request.method, request.path) == ("POST", f"{PATH}?fieldValidation=Strict")
    assert request.authorization == "Bearer t0ken"
    assert request.body == MANIFEST


@pytest.mark.parametrize(
    ("status", "answer", "error"),
    [
        (429, {"message": "later"}, ServerBusyError),
        (503, {"message": "later"}, ServerBusyError),
        (500, {"message": "later"}, ResponseLostError),
        (504, b"gateway", ResponseLostError),
        (409, {"message": "later", "reason": "AlreadyExists"}, AlreadyExistsError),
        (409, {"message": "later", "reason": "Conflict"}, ServerBusyError),
        (400, {"message": "later"}, RequestRefusedError),
        (401, {"message": "later"}, RequestRefusedError),
        (403, {"message": "later"}, RequestRefusedError),
        (404, {"message": "later"}, RequestRefusedError),
        (422, {"message": "spec.nodes:\n  write less"}, RequestRefusedError),
        (201, b"not JSON", ResponseLostError),
        (201, [], ResponseLostError),
        (201, {}, ResponseLostError),
    ],
)
def test_an_answer_says_whether_it_was_done(
    status: int, answer: object, error: type[Exception], api: KubeClient, server: Server
) -> None:
    server.answers = [(status, answer)]
    with pytest.raises(error) as caught:
        api.create(Kind.RUN, NAMESPACE, MANIFEST)
    assert type(caught.value) in {error, *error.__subclasses__()}
    assert "\n" not in str(caught.value)
    assert len(server.requests) == 1, "whether to try again is not for the client to say"


def test_a_connection_that_breaks_off_may_have_done_it(api: KubeClient, server: Server) -> None:
    server.answers = [Broken()]
    with pytest.raises(ResponseLostError, match="response of the API server was lost"):
        api.create(Kind.RUN, NAMESPACE, MANIFEST)
    assert len(server.requests) == 1


def test_an_api_server_that_is_not_there_is_named(server: Server, tmp_path: Path) -> None:
    server.url = "http://127.0.0.1:9"
    api = client.connect({}, kubeconfig=server.kubeconfig(tmp_path))
    with pytest.raises(ServerBusyError, match=r"^cannot reach the API server at http://127\.0\.0\.1:9: "):
        api.create(Kind.RUN, NAMESPACE, MANIFEST)


def test_a_run_that_is_gone_is_none_and_a_kind_that_is_not_served_is_an_error(api: KubeClient, server: Server) -> None:
    server.answers = [(404, {"message": "not found", "details": {"name": "a", "kind": "disttests"}})]
    assert api.get(Kind.RUN, NAMESPACE, "a") is None
    server.answers = [(404, b"404 page not found\n")]
    with pytest.raises(RequestRefusedError, match="404 page not found"):
        api.get(Kind.RUN, NAMESPACE, "a")


def test_a_watch_tells_of_one_object_and_ends_where_its_version_is_too_old(api: KubeClient, server: Server) -> None:
    gone = {"type": "ERROR", "object": {"kind": "Status", "code": 410}}
    server.answers = [CannedWatch([{"type": "MODIFIED", "object": BODY}, {"type": "DELETED", "object": BODY}, gone])]
    events = list(api.watch(Kind.RUN, NAMESPACE, "a", version="7", seconds=60))
    assert [event.is_gone for event in events] == [False, True]
    assert server.requests[0].path == (
        f"{PATH}?watch=true&fieldSelector=metadata.name%3Da&resourceVersion=7&timeoutSeconds=60"
    )


def test_a_broken_watch_returns_its_earlier_events(api: KubeClient, server: Server) -> None:
    server.answers = [CannedWatch([{"type": "MODIFIED", "object": BODY}], breaks_off=True)]
    events = api.watch(Kind.RUN, NAMESPACE, "a", version="7", seconds=60)
    assert next(events).body == BODY
    with pytest.raises(ResponseLostError, match="the connection of the watch broke"):
        next(events)


def test_the_namespace_is_that_of_the_context(server: Server, tmp_path: Path) -> None:
    file = server.kubeconfig(tmp_path)
    assert client.connect({}, kubeconfig=file).namespace == NAMESPACE
    assert client.connect({}, kubeconfig=file, context="there").namespace == "default"
    assert client.connect({"KUBECONFIG": file}).namespace == NAMESPACE


@pytest.mark.parametrize("text", [None, "", "{", "[]", "kind: Config"], ids=repr)
def test_a_kubeconfig_that_cannot_be_used_is_refused_in_one_line(text: str | None, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    if text is not None:
        file.write_text(text)
    with pytest.raises(RequestRefusedError, match="file with --kubeconfig") as caught:
        client.connect({}, kubeconfig=str(file))
    assert "\n" not in str(caught.value)


def test_a_context_that_is_not_there_is_refused(server: Server, tmp_path: Path) -> None:
    with pytest.raises(RequestRefusedError, match="missing"):
        client.connect({}, kubeconfig=server.kubeconfig(tmp_path), context="missing")
