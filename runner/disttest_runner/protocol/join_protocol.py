"""The rules for joining a gang: what the leader checks in an agent's first line. No I/O."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from disttest_contract.gang.plan import RunPlan
from disttest_contract.outcomes import Reason, Verdict
from disttest_contract.results.preflight import NodeFacts
from disttest_contract.text.json_values import JsonRecord, fields_to_json
from disttest_runner.protocol.wire import PROTOCOL, Message


class JoinRefusedError(Exception):
    """Its message is sent to the client that tried to join."""


@dataclass(frozen=True, slots=True)
class RunEnd:
    """Why a run ends before its last case."""

    verdict: Verdict
    reason: Reason
    message: str
    at_fault: tuple[int, ...] = ()  # node indexes, where they are known


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello(JsonRecord):
    """An agent's first line."""

    nonce: str = field(repr=False)
    node_index: int
    node_name: str
    pod_name: str
    pod_uid: str
    facts: NodeFacts

    def to_message(self) -> Message:
        return {"op": "hello", "protocol": PROTOCOL, **fields_to_json(self)}


def check_hello(message: Message, *, plan: RunPlan, nonce: str, joined: Mapping[int, Hello]) -> Hello:
    """Raises JoinRefusedError. The nonce is checked first: without it a client learns nothing else."""
    if message.get("op") != "hello" or not _is_equal(message.get("nonce"), nonce):
        raise JoinRefusedError("refused: the client is not an agent of this gang")
    if message.get("protocol") != PROTOCOL:
        raise JoinRefusedError(
            f"refused: the agent uses protocol {message.get('protocol')!r}, the leader {PROTOCOL}. "
            "Use the same image for all pods"
        )
    index = message.get("nodeIndex")
    if not isinstance(index, int) or not 0 <= index < plan.nodes:
        raise JoinRefusedError(f"refused: node index {index!r} is not below {plan.nodes}")
    if index in joined:
        first = joined[index]
        raise JoinRefusedError(
            f"refused: node index {index} has joined already, "
            f"as pod {first.pod_name} ({first.pod_uid}) on {first.node_name}"
        )
    try:
        return Hello.from_json(message)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise JoinRefusedError(f"refused: the facts about the agent's node are invalid: {error}") from error


def _is_equal(received: object, nonce: str) -> bool:
    """`received` may be any JSON value, also half of a surrogate pair."""
    return isinstance(received, str) and hmac.compare_digest(received.encode(errors="replace"), nonce.encode())


def check_gang(plan: RunPlan, joined: Mapping[int, Hello]) -> RunEnd | None:
    """Return why this gang cannot run the plan, if so; called when waiting for agents is over."""
    missing = [index for index in range(plan.nodes) if index not in joined]
    if missing:
        return RunEnd(
            Verdict.INFRA_FAILED,
            Reason.RENDEZVOUS_TIMEOUT,
            f"node {_indexes(missing)} of {plan.nodes} did not join within {plan.rendezvous_seconds} s. "
            "Check that these pods run and can connect to the pod of node index 0",
            at_fault=tuple(missing),
        )
    names: dict[str, list[int]] = {}
    for index in range(plan.nodes):
        names.setdefault(joined[index].node_name, []).append(index)
    shared = {name: indexes for name, indexes in names.items() if len(indexes) > 1}
    if plan.spread and shared:
        name, indexes = next(iter(shared.items()))
        return RunEnd(
            Verdict.INFRA_FAILED,
            Reason.SHARED_NODE,
            f"node {_indexes(indexes)} all run on {name}, but `placement: Spread` requires one pod per node",
        )
    return None


def _indexes(indexes: Sequence[int], shown: int = 16) -> str:
    words = ", ".join(map(str, indexes[:shown])) + (" …" if len(indexes) > shown else "")
    return f"{'indexes' if len(indexes) > 1 else 'index'} {words}"
