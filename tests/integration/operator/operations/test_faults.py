"""Operators that die, stand by, and have nothing to do."""

import functools
import json
import time

import pytest

from tests.support import patience
from tests.support.clusters.cluster import SessionCluster
from tests.support.operators.operator import (
    STOP_SECONDS,
    OperatorProcess,
    StartOperator,
    config_map,
    disttest,
    finished,
    leads,
    ledger,
    reaches_phase,
    run_counts,
)

IDLE_SECONDS = 10.5
TAKE_OVER_SECONDS = 17  # 15 s of Lease, 1 s between looks at it, and slack for two cores
SLEEPY = """
import time

def test_sleepy():
    time.sleep({seconds})
"""


def follows(operator: OperatorProcess) -> bool:
    return operator.metrics()["disttest_followed_logs"] == 1


def is_rid_of_dying_namespaces(cluster: SessionCluster) -> bool:
    """Whether nothing is left there whose deletion an operator would receive."""
    listed = json.loads(cluster.kubectl("get", "disttests,disttestseries", "--all-namespaces", "-o", "json"))
    dying = {one["metadata"]["name"] for one in cluster.find("namespaces") if "deletionTimestamp" in one["metadata"]}
    return not any(item["metadata"]["namespace"] in dying for item in listed["items"])


def sleepy_run(cluster: SessionCluster, namespace: str, name: str, seconds: float) -> None:
    cluster.apply(config_map(namespace, name, SLEEPY.format(seconds=seconds)))
    cluster.apply(disttest(namespace, name, series=name, suites=[{"name": "sleepy", "configMap": {"name": name}}]))


def test_a_standby_finishes_the_run_of_a_killed_operator_and_counts_it_once(
    cluster: SessionCluster, start_operator: StartOperator, namespace: str
) -> None:
    with start_operator(log="first.log") as first:
        cluster.wait_until("the first is active", functools.partial(leads, first), 20)
        with start_operator(log="second.log") as second:
            assert second.metrics()["disttest_leader"] == 0
            assert not [name for name in second.metrics() if name.startswith("disttest_active_runs")]
            sleepy_run(cluster, namespace, "orphan", 4)
            reaches_phase(cluster, namespace, "orphan", "Running")
            cluster.wait_until("its log is followed", functools.partial(follows, first), 10)
            assert second.metrics()["disttest_followed_logs"] == 0, "only by the active operator"
            first.kill()
            killed = time.monotonic()
            cluster.wait_until("the second is active", functools.partial(leads, second), TAKE_OVER_SECONDS)
            print(f"taken over after {time.monotonic() - killed:.1f} s")
            status = finished(cluster, namespace, "orphan")
    assert (status["verdict"], status["reason"]) == ("Passed", "AllCasesPassed"), status
    assert run_counts(ledger(cluster, namespace, "orphan")) == {("Passed", "AllCasesPassed"): 1}


@pytest.mark.soak
def test_an_operator_killed_again_and_again_at_the_end_of_runs_counts_each_once(
    cluster: SessionCluster, start_operator: StartOperator, namespace: str
) -> None:
    """Runs that end at once, and a kill at any point: the next operator continues."""
    names = [f"quick-{number}" for number in range(12)]
    runs = [disttest(namespace, name, series="quick", suites=[{"name": "none-such"}]) for name in names]
    for begin in range(0, len(runs), 4):
        with start_operator(log="killed.log") as operator:
            is_active = functools.partial(leads, operator)
            cluster.wait_until("it is active", is_active, 25)
            cluster.apply(runs[begin : begin + 4])
            # Not settled: some are folded but not written, some not started.
            cluster.wait_until("a run is counted", functools.partial(has_counted, cluster, namespace, begin), 20)
            operator.kill()
        # The next need not wait for it to expire: that is another test's matter.
        cluster.kubectl("delete", "lease", "disttest-operator", "-n", "disttest-system")
    with start_operator(log="killed.log"):
        for name in names:
            assert finished(cluster, namespace, name)["reason"] == "UnknownSuite"
        cluster.wait_until(
            "the ledger is settled", lambda: ledger(cluster, namespace, "quick").get("pending") == [], 20
        )
    assert run_counts(ledger(cluster, namespace, "quick")) == {("Errored", "UnknownSuite"): len(names)}


def test_an_operator_that_is_stopped_hands_the_lease_over_at_once(
    cluster: SessionCluster, start_operator: StartOperator, namespace: str
) -> None:
    with start_operator(log="leaving.log") as leaving:
        cluster.wait_until("it is active", functools.partial(leads, leaving), 25)
        with start_operator(log="coming.log") as coming:
            sleepy_run(cluster, namespace, "handed-over", 60)
            cluster.wait_until("its log is followed", functools.partial(follows, leaving), 30)
            took_seconds = leaving.stop(patience.stretched(STOP_SECONDS))
            stopped = time.monotonic()
            cluster.wait_until("the other is active", functools.partial(leads, coming), 8)
            print(f"stopped in {took_seconds:.1f} s, taken over {time.monotonic() - stopped:.1f} s later")
            cluster.wait_until("its log is followed again", functools.partial(follows, coming), 10)


@pytest.mark.soak
def test_an_idle_operator_sends_nothing_but_its_lease_and_watches(
    cluster: SessionCluster, operator: OperatorProcess, namespace: str
) -> None:
    cluster.wait_until("runs of other tests are gone", functools.partial(is_rid_of_dying_namespaces, cluster), 60)
    cluster.apply(disttest(namespace, "before", suites=[{"name": "none-such"}]))
    finished(cluster, namespace, "before")
    cluster.wait_until("the ledger is settled", lambda: ledger(cluster, namespace, "adhoc").get("pending") == [], 10)
    before = requests(operator)
    time.sleep(IDLE_SECONDS)  # the absence of something has no event to wait for
    sent = {
        name: count - before.get(name, 0) for name, count in requests(operator).items() if count != before.get(name)
    }
    others = {
        name: count for name, count in sent.items() if 'resource="leases"' not in name and 'verb="watch"' not in name
    }
    assert others == {}
    lease = sum(count for name, count in sent.items() if 'resource="leases"' in name)
    assert 1 <= lease <= 3, "one renewal every 5 s"


def test_health_says_live_and_ready(operator: OperatorProcess) -> None:
    assert operator.get("/healthz") == (200, "ok")
    assert operator.get("/readyz") == (200, "ok")


def has_counted(cluster: SessionCluster, namespace: str, runs: int) -> bool:
    """Whether the ledger counts more runs than this number."""
    return bool(ledger(cluster, namespace, "quick").get("runCount", 0) > runs)


def requests(operator: OperatorProcess) -> dict[str, float]:
    return {name: value for name, value in operator.metrics().items() if name.startswith("disttest_api_requests_total")}
