"""`disttest list`: its table, its order, and what it asks the API server for."""

import json
import os
import pty
import re
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from disttest_cli.main import main
from disttest_cli.views import run_list
from disttest_contract.text import formatting
from tests.support import golden
from tests.support.builders import bodies
from tests.support.builders.bodies import NOW
from tests.support.fakes.canned import NAMESPACE, Server
from tests.support.fakes.terminal import read_to_end

RUNS = [
    bodies.failed(),
    bodies.passed(),
    bodies.going_on(),
    bodies.waiting(),
    bodies.a_run("new", created=1, series=""),
]


def run(server: Server, folder: Path, *arguments: str) -> int:
    return main(["list", "--kubeconfig", server.kubeconfig(folder), *arguments])


def made(*, wide: bool = False, namespaces: bool = False) -> str:
    lines = run_list.table(run_list.newest_first(RUNS), now=NOW, wide=wide, namespaces=namespaces)
    return "".join(f"{line.plain}\n" for line in lines)


def test_the_table_has_the_newest_first_and_says_how_far_runs_are(*, updates_golden: bool) -> None:
    golden.check(made(), "list.txt", updates=updates_golden)


def test_the_wide_table_says_why_and_what_is_in_flight_without_what_steers_a_terminal(*, updates_golden: bool) -> None:
    text = made(wide=True, namespaces=True)
    assert "\x1b" not in text
    golden.check(text, "list-wide.txt", updates=updates_golden)


def test_a_verdict_and_a_failure_have_their_colours() -> None:
    lines = run_list.table([bodies.failed(), bodies.passed()], now=NOW, wide=False, namespaces=False)
    styles = [[(line.plain[span.start : span.end].strip(), span.style) for span in line.spans] for line in lines]
    assert styles == [[], [("TestsFailed", "bold red"), ("2", "bold red")], [("Passed", "green")]]


@pytest.mark.parametrize("is_terminal", [True, False], ids=["terminal", "pipe"])
def test_the_counts_are_explained_at_a_terminal_and_a_pipe_gets_the_table_alone(
    is_terminal: bool,  # noqa: FBT001  # a parameter of the test
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server.answers = [(200, {"items": [bodies.passed()]})]
    read, write = pty.openpty() if is_terminal else os.pipe()
    with os.fdopen(write, "w") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        assert run(server, tmp_path) == 0
    shown = read_to_end(read).decode()
    os.close(read)
    assert ("FAILED: failed, errored, crashed or hung cases" in " ".join(shown.split())) is is_terminal


def test_filters_are_the_api_servers(server: Server, tmp_path: Path) -> None:
    server.answers = [(200, {"items": []})]
    assert run(server, tmp_path, "-l", "team=a,tier!=b", "--series", "n", "--verdict", "passed", "-n", "x") == 0
    address = urlsplit(server.requests[0].path)
    assert address.path == "/apis/disttest.dev/v1alpha1/namespaces/x/disttests"
    query = parse_qs(address.query)
    assert query["labelSelector"] == ["team=a,tier!=b"]
    assert query["fieldSelector"] == ["status.series=n,status.verdict=Passed"]


def test_large_lists_come_in_pages(server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    server.answers = [
        (200, {"items": [bodies.passed("a")], "metadata": {"continue": "next"}}),
        (200, {"items": [bodies.passed("b", created=5)], "metadata": {}}),
    ]
    assert run(server, tmp_path, "-A", "-o", "name") == 0
    assert capsys.readouterr().out.splitlines() == ["disttest.disttest.dev/b", "disttest.disttest.dev/a"]
    assert [urlsplit(request.path).path for request in server.requests] == ["/apis/disttest.dev/v1alpha1/disttests"] * 2
    assert "continue=next" in server.requests[1].path


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), f"No DistTests in namespace {NAMESPACE}."),
        (("-A",), "No DistTests in any namespace."),
        (("--verdict", "Hung"), f"No DistTests that match in namespace {NAMESPACE}."),
    ],
    ids=repr,
)
def test_that_there_are_none_is_said_beside_the_output(
    arguments: tuple[str, ...], words: str, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = [(200, {"items": []})]
    assert run(server, tmp_path, *arguments) == 0
    assert capsys.readouterr() == ("", f"{words}\n")


@pytest.mark.parametrize(("output", "read"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_objects_are_printed_as_kubectl_does(
    output: str, read: object, server: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server.answers = [(200, {"items": [bodies.failed()]})]
    assert run(server, tmp_path, "-o", output) == 0
    text = capsys.readouterr().out
    assert "\x1b" not in text
    printed = read(text)  # type: ignore[operator]
    assert (printed["kind"], printed["apiVersion"], printed["metadata"]) == ("List", "v1", {"resourceVersion": ""})
    expected = bodies.failed()
    del expected["metadata"]["managedFields"]
    assert printed["items"] == [expected]


@pytest.mark.parametrize(
    ("answer", "code", "words"),
    [
        (
            (403, {"message": 'disttests.disttest.dev is forbidden: User "u" cannot list'}),
            2,
            "Ask an administrator for the ClusterRole disttest-view or disttest-edit",
        ),
        ((401, {"message": "Unauthorized"}), 2, "Unauthorized. Log in again, or use another user"),
        (
            (404, b"404 page not found"),
            2,
            "DistTests are not installed in this cluster. To install them, see docs/operating/installing.md.",
        ),
        ((503, {"message": "later"}), 42, "later"),
    ],
    ids=["no rights", "unknown", "not installed", "busy"],
)
def test_what_goes_wrong_is_one_line(
    answer: tuple[int, object],
    code: int,
    words: str,
    server: Server,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    server.answers = [answer]
    assert run(server, tmp_path) == code
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


def test_an_api_server_that_is_not_there_is_named_with_what_to_look_at(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    unreachable = Server(url="http://127.0.0.1:1")
    assert run(unreachable, tmp_path) == 2
    line = (
        r"disttest: cannot reach the API server at http://127.0.0.1:1: "
        r".*\. Check that the cluster is running, .* --kubeconfig\.\n"
    )
    assert re.fullmatch(line, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (None, ""),
        (0, "0s"),
        (0.44, "0.4s"),
        (9.96, "10s"),
        (12.4, "12s"),
        (60, "1m"),
        (78.4, "1m18s"),
        (119, "1m59s"),
        (120, "2m"),
        (185, "3m5s"),
        (3599, "59m59s"),
        (3660, "1h1m"),
        (7810, "2h10m"),
        (100 * 3600, "4d4h"),
    ],
)
def test_spans_have_two_units_at_most(seconds: float | None, words: str) -> None:
    assert formatting.show_duration(seconds) == words
