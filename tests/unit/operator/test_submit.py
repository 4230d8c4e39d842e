"""Creating the DistTest of a file: what is tried again, what is not, and what the user reads."""

import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from disttest_operator import submit
from disttest_operator.submit import BusyError, Cluster, SubmitError

MANIFEST = {"apiVersion": "disttest.dev/v1alpha1", "kind": "DistTest", "metadata": {"generateName": "n-"}, "spec": {}}


@dataclass
class Server:
    """Answers with what it is told, in order, and keeps what it was asked."""

    url: str = ""
    answers: list[tuple[int, Any]] = field(default_factory=list)
    requests: list[tuple[str, str, Any]] = field(default_factory=list)


@pytest.fixture
def server() -> Iterator[Server]:
    state = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            state.requests.append((self.path, self.headers["Authorization"], body))
            status, answer = state.answers.pop(0)
            raw = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: Any) -> None:  # type: ignore[explicit-override]  # typing has it since Python 3.12
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        state.url = f"http://127.0.0.1:{http.server_address[1]}"
        yield state
        http.shutdown()
        thread.join()


def cluster(url: str) -> Cluster:
    return Cluster(url=url, token="t0ken", namespace="gpu-ci", tls=None)


CREATED = (201, {"metadata": {"name": "n-x7k2p"}})


def test_the_name_that_the_api_server_gave_comes_back(server: Server) -> None:
    server.answers = [CREATED]
    assert submit.submit(MANIFEST, cluster(server.url)) == "n-x7k2p"
    [(path, authorization, body)] = server.requests
    assert path == "/apis/disttest.dev/v1alpha1/namespaces/gpu-ci/disttests?fieldValidation=Strict"
    assert authorization == "Bearer t0ken"
    assert body == MANIFEST


def test_a_namespace_in_the_manifest_wins(server: Server) -> None:
    server.answers = [CREATED]
    submit.submit({**MANIFEST, "metadata": {"name": "a", "namespace": "other"}}, cluster(server.url))
    assert "/namespaces/other/" in server.requests[0][0]


@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_api_server_is_asked_again(status: int, server: Server) -> None:
    server.answers = [(status, {"message": "later"}), CREATED]
    assert submit.submit(MANIFEST, cluster(server.url), pause_seconds=0) == "n-x7k2p"


@pytest.mark.parametrize("status", [400, 403, 409, 422, 500, 504])
def test_a_refusal_and_an_answer_that_leaves_it_open_are_not_tried_again(status: int, server: Server) -> None:
    server.answers = [(status, {"message": "spec.nodes:\n  write less"})]
    with pytest.raises(SubmitError, match=r"^spec.nodes: write less$"):
        submit.submit(MANIFEST, cluster(server.url))
    assert len(server.requests) == 1


def test_an_answer_that_cannot_be_read_says_that_the_disttest_may_exist(server: Server) -> None:
    server.answers = [(201, b"not JSON")]
    with pytest.raises(SubmitError, match="may exist"):
        submit.submit(MANIFEST, cluster(server.url))


def test_patience_ends(server: Server) -> None:
    server.answers = [(503, {"message": "later"})]
    with pytest.raises(BusyError, match="later"):
        submit.submit(MANIFEST, cluster(server.url), patience_seconds=-1)


def test_an_api_server_that_is_not_there_is_named() -> None:
    with pytest.raises(BusyError, match=r"^cannot reach the API server at http://127\.0\.0\.1:9: "):
        submit.submit(MANIFEST, cluster("http://127.0.0.1:9"), patience_seconds=-1)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must hold one DistTest"),
        ("{}", "must hold one DistTest"),
        ("- a", "must hold one DistTest"),
        ("kind: DistTest\n---\nkind: DistTest", "must hold one DistTest"),
        ("kind: DistTest", "has no metadata"),
        ("kind: [", "is not YAML"),
    ],
    ids=repr,
)
def test_a_file_without_a_disttest_is_refused_in_one_line(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "f.yaml"
    path.write_text(text)
    with pytest.raises(SubmitError, match=says) as caught:
        submit.read(path)
    assert "\n" not in str(caught.value)


def test_a_missing_file_and_a_missing_argument_end_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert submit.main([]) == 2
    assert submit.main([str(tmp_path / "no.yaml")]) == 2
    usage, missing = capsys.readouterr().err.splitlines()
    assert usage.startswith("usage:")
    assert missing.startswith("disttest: cannot read")
