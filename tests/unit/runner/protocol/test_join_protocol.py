"""The rules for joining a gang, and for gangs that can run."""

import dataclasses
from typing import Any

import pytest

from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.results.preflight import NodeFacts
from disttest_runner.protocol.join_protocol import Hello, JoinRefusedError, check_gang, check_hello
from tests.support.builders.run_plans import THREE_NODES as PLAN


def agent(index: int, **changes: Any) -> Hello:
    hello = Hello(
        nonce="secret",
        node_index=index,
        node_name=f"node-{index}",
        pod_name=f"pod-{index}",
        pod_uid=f"uid-{index}",
        facts=NodeFacts(gpus=("H100",) * 8),
    )
    return dataclasses.replace(hello, **changes)


GANG = {index: agent(index) for index in range(3)}


def test_an_agent_of_the_gang_is_let_in() -> None:
    assert check_hello(agent(1).to_message(), plan=PLAN, nonce="secret", joined={0: agent(0)}) == agent(1)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"nonce": "guessed"}, "not an agent of this gang"),
        ({"nonce": None}, "not an agent of this gang"),
        ({"nonce": "sécret"}, "not an agent of this gang"),
        ({"nonce": "secret\ud800"}, "not an agent of this gang"),
        ({"nonce": [[["secret"]]]}, "not an agent of this gang"),
        ({"op": "done"}, "not an agent of this gang"),
        ({"protocol": 1}, "the same image for all pods"),
        ({"facts": {"gpus": 8}}, "facts about the agent's node are invalid"),
        ({"facts": {"versions": []}}, "facts about the agent's node are invalid"),
        ({"nodeIndex": 3}, "not below 3"),
        ({"nodeIndex": -1}, "not below 3"),
        ({"nodeIndex": "1"}, "not below 3"),
        ({"nodeIndex": 0, "podUid": "another"}, "joined already, as pod pod-0 \\(uid-0\\) on node-0"),
    ],
)
def test_others_are_refused_with_a_sentence(changes: dict[str, Any], words: str) -> None:
    message = {**agent(1).to_message(), **changes}
    with pytest.raises(JoinRefusedError, match=words):
        check_hello(message, plan=PLAN, nonce="secret", joined={0: agent(0)})


def test_the_nonce_is_not_shown_by_accident() -> None:
    assert "secret" not in repr(agent(0))


def test_a_whole_gang_may_run() -> None:
    assert check_gang(PLAN, GANG) is None


@pytest.mark.parametrize(
    ("plan", "gang", "reason", "words"),
    [
        ({}, {0: agent(0)}, Reason.RENDEZVOUS_TIMEOUT, "node indexes 1, 2 of 3 did not join within 30 s"),
        ({}, {**GANG, 2: agent(2, node_name="node-0")}, Reason.SHARED_NODE, "node indexes 0, 2 all run on node-0"),
    ],
)
def test_a_gang_that_cannot_do_the_job_is_stopped(
    plan: dict[str, Any], gang: dict[int, Hello], reason: Reason, words: str
) -> None:
    stop = check_gang(dataclasses.replace(PLAN, **plan), gang)
    assert stop is not None
    assert (stop.verdict, stop.reason) == (Verdict.INFRA_FAILED, reason)
    assert words in stop.message


def test_pods_may_share_a_node_where_the_plan_lets_them() -> None:
    assert check_gang(dataclasses.replace(PLAN, spread=False), {**GANG, 2: agent(2, node_name="node-0")}) is None
