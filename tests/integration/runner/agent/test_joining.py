"""Agents that join a gang and agents that are rejected, and the messages about them."""

import json
import socket
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from disttest_contract.gang import environment
from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.results.report import Report
from disttest_runner.protocol.wire import PROTOCOL
from tests.support import patience
from tests.support.gangs.gang import AgentGang, builtin, make_plan, suite_of

SHORT = "def test_it(): pass\n"


def test_a_missing_agent_is_named_at_the_join_deadline(tmp_path: Path) -> None:
    gang = AgentGang(make_plan(builtin("collectives"), nodes=3, rendezvous_seconds=2), tmp_path, indexes=[0, 2])
    report = gang.run()
    assert (report.verdict, report.reason) == (Verdict.INFRA_FAILED, Reason.RENDEZVOUS_TIMEOUT)
    assert f"node index 1 of 3 did not join within {gang.plan.rendezvous_seconds} s" in report.message
    assert gang.wait() == {0: 20, 2: 20}
    assert gang.summary(2).reason is Reason.RENDEZVOUS_TIMEOUT
    assert report.counts.total == 0
    assert [suite.verdict for suite in report.suites] == [Verdict.INFRA_FAILED]


def test_an_agent_without_a_leader_says_where_it_looked(tmp_path: Path) -> None:
    gang = AgentGang(make_plan(builtin("collectives"), rendezvous_seconds=1), tmp_path, indexes=[1])
    assert gang.wait() == {1: 20}
    gang.check_nothing_left()
    summary = gang.summary(1)
    assert (summary.verdict, summary.reason) == (Verdict.INFRA_FAILED, Reason.RENDEZVOUS_TIMEOUT)
    assert f"127.0.0.1:{gang.port}" in summary.message


def test_a_leader_whose_name_does_not_resolve_yet_is_waited_for(tmp_path: Path) -> None:
    gang = AgentGang(
        make_plan(builtin("collectives"), rendezvous_seconds=1),
        tmp_path,
        indexes=[1],
        environ={environment.LEADER: "no-such-host.invalid:29400"},
    )
    assert gang.wait() == {1: 20}
    assert "no-such-host.invalid:29400" in gang.summary(1).message


def test_two_agents_of_a_spread_gang_on_one_node_are_refused(tmp_path: Path) -> None:
    same = {environment.NODE_NAME: "only-node"}
    report = AgentGang(make_plan(builtin("collectives")), tmp_path, environ=same).run()
    assert (report.verdict, report.reason) == (Verdict.INFRA_FAILED, Reason.SHARED_NODE)
    assert "node indexes 0, 1 all run on only-node" in report.message


def test_agents_may_share_a_node_where_the_placement_lets_them(tmp_path: Path) -> None:
    same = {environment.NODE_NAME: "only-node"}
    plan = make_plan(suite_of(tmp_path / "suite", SHORT), spread=False)
    report = AgentGang(plan, tmp_path, environ=same).run()
    assert report.verdict is Verdict.PASSED
    assert report.node_names == ("only-node", "only-node")


STRANGERS: dict[str, Callable[[AgentGang], bytes]] = {
    "wrong nonce": lambda _: hello(nonce="guessed"),
    "no json": lambda _: b"GET / HTTP/1.1\r\n\r\n",
    "not an object": lambda _: b"[1, 2]\n",
    "too long": lambda _: b"x" * 100_000,
    "other protocol": lambda gang: hello(nonce=gang.nonce, protocol=99),
    "index beyond the gang": lambda gang: hello(nonce=gang.nonce, nodeIndex=2),
    "second pod of an index": lambda gang: hello(nonce=gang.nonce, nodeIndex=1, podUid="another"),
    "says nothing": lambda _: b"",
}


def hello(**changes: object) -> bytes:
    message = {
        "op": "hello",
        "protocol": PROTOCOL,
        "nonce": "",
        "nodeIndex": 1,
        "nodeName": "intruder",
        "podName": "intruder",
        "podUid": "intruder",
        "facts": {},
    }
    return json.dumps(message | changes).encode() + b"\n"


@pytest.fixture(scope="module")
def disturbed(tmp_path_factory: pytest.TempPathFactory) -> tuple[AgentGang, Report, dict[str, bytes]]:
    """A run during which all sorts of strangers knock."""
    folder = tmp_path_factory.mktemp("disturbed")
    door = folder / "door"
    source = f"""
import pathlib, time
def test_waits_for_the_strangers():
    while not pathlib.Path({str(door)!r}).exists():
        time.sleep(0.02)
"""
    gang = AgentGang(make_plan(suite_of(folder / "suite", source)), folder)
    gang.wait_for_line("joined after")
    answers, open_sockets = {}, []
    for name, say in STRANGERS.items():
        stranger = socket.create_connection(("127.0.0.1", gang.port), timeout=patience.stretched(5))
        open_sockets.append(stranger)
        stranger.sendall(say(gang))
        if say(gang):
            answers[name] = read_to_end(stranger)
    door.touch()
    report = gang.run()
    for stranger in open_sockets:
        stranger.close()
    return gang, report, answers


def read_to_end(stranger: socket.socket) -> bytes:
    answer, deadline = b"", patience.Deadline(5)
    while not deadline.has_passed():
        try:
            chunk = stranger.recv(65536)
        except ConnectionResetError:
            return answer
        if not chunk:
            return answer
        answer += chunk
    raise AssertionError("the leader keeps a stranger's connection open")


def test_strangers_do_not_disturb_the_run(disturbed: tuple[AgentGang, Report, dict[str, bytes]]) -> None:
    gang, report, _ = disturbed
    assert report.verdict is Verdict.PASSED, gang.text
    assert report.node_names == ("local-0", "local-1")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("wrong nonce", b"not an agent of this gang"),
        ("no json", b"refused|JSON"),
        ("not an object", b"object"),
        ("too long", b""),
        ("other protocol", b"the same image for all pods"),
        ("index beyond the gang", b"not below 2"),
        ("second pod of an index", b"has joined already"),
    ],
)
def test_a_stranger_is_refused(disturbed: tuple[AgentGang, Report, dict[str, bytes]], name: str, words: bytes) -> None:
    answer = disturbed[2][name]
    assert b"welcome" not in answer
    assert any(word in answer for word in words.split(b"|"))


def test_a_stranger_with_a_wrong_nonce_learns_nothing(disturbed: tuple[AgentGang, Report, dict[str, bytes]]) -> None:
    gang, _, answers = disturbed
    assert gang.nonce.encode() not in answers["wrong nonce"]
    assert b"local-" not in answers["wrong nonce"]


def test_an_unknown_suite_ends_every_agent_at_once(tmp_path: Path) -> None:
    gang = AgentGang(make_plan(builtin("colectives")), tmp_path)
    assert gang.wait() == {0: 30, 1: 30}
    for index in (0, 1):
        summary = gang.summary(index)
        assert (summary.verdict, summary.reason) == (Verdict.ERRORED, Reason.UNKNOWN_SUITE)
        assert "no built-in suite 'colectives'" in summary.message
        assert "Built-in suites: c10d-spawn, collectives, data-parallel" in summary.message


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({environment.PLAN: "{}"}, "schema"),
        ({environment.NONCE: ""}, "DISTTEST_NONCE is missing"),
        ({environment.NODE_INDEX: "2"}, "not a node index below 2"),
        ({environment.LEADER: "no-port"}, "not host:port"),
        ({environment.PLAN: make_plan(builtin("collectives"), ranks=0).to_json()}, "are no ranks"),
        ({environment.PLAN: make_plan().to_json()}, "the plan has no suites"),
    ],
    ids=["plan", "nonce", "index", "leader", "no ranks", "no suite"],
)
def test_an_environment_that_makes_no_sense_is_refused(changes: dict[str, str], words: str, tmp_path: Path) -> None:
    gang = AgentGang(make_plan(builtin("collectives")), tmp_path, indexes=[0], environ=changes)
    assert gang.wait() == {0: 30}
    summary = gang.summary()
    assert (summary.verdict, summary.reason) == (Verdict.ERRORED, Reason.RUNNER_ERROR)
    assert words in summary.message


def test_a_termination_message_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    plan = make_plan(suite_of(tmp_path / "suite", SHORT), nodes=1)
    unwritable = {environment.TERMINATION_LOG: str(tmp_path / "no" / "folder")}
    gang = AgentGang(plan, tmp_path, environ=unwritable)
    assert gang.run().verdict is Verdict.PASSED
    assert "warning: the termination message cannot be written" in gang.text


def test_agents_that_wait_long_for_another_one_do_not_take_the_leader_for_lost(tmp_path: Path) -> None:
    silence_seconds = patience.stretched(1)
    gang = AgentGang(
        make_plan(suite_of(tmp_path / "suite", SHORT), nodes=3, ranks=1),
        tmp_path,
        indexes=(0, 1),
        environ={environment.SILENCE_SECONDS: str(silence_seconds)},
    )
    with pytest.raises(subprocess.TimeoutExpired):
        gang.agents[1].wait(3 * silence_seconds)
    gang.start(2)
    assert gang.run().verdict is Verdict.PASSED, gang.text
