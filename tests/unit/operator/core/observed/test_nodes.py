from typing import Any

import pytest

from disttest_operator.core.observed import decoding


def node(**status: Any) -> dict[str, Any]:
    return {"metadata": {"name": "n", "labels": {"pool": "a"}}, "spec": {}, "status": status}


def condition(status: str) -> dict[str, Any]:
    return {
        "type": "Ready",
        "status": status,
        "reason": "NodeStatusUnknown",
        "message": "Kubelet stopped posting node status.",
        "lastTransitionTime": "2026-11-21T02:00:01Z",
    }


@pytest.mark.parametrize(
    ("status", "is_true", "kept"),
    [("True", True, "True"), ("False", False, "False"), ("Unknown", False, "Unknown"), ("?", False, "Unknown")],
)
def test_conditions_of_a_node_are_kept_unknown_ones_too(status: str, is_true: bool, kept: str) -> None:  # noqa: FBT001  # a table
    [(name, ready)] = decoding.node(node(conditions=[condition(status)])).conditions.items()
    assert (name, ready.is_true, ready.status, ready.reason) == ("Ready", is_true, kept, "NodeStatusUnknown")
    assert ready.since is not None


def test_a_node_is_schedulable_unless_it_is_cordoned() -> None:
    assert decoding.node(node()).is_schedulable
    assert decoding.node({"metadata": {"name": "n"}}).is_schedulable
    assert not decoding.node(node() | {"spec": {"unschedulable": True}}).is_schedulable
