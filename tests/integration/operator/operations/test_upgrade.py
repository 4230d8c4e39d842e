"""Upgrades from the previous version, with runs in every state, and the way back."""

import base64
import functools
import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from disttest_contract.results.report import Report
from tests.support import patience
from tests.support.clusters import audit
from tests.support.clusters.cluster import Manifest, SessionCluster, fresh_cluster, say_aloud
from tests.support.operators import nightly, previous
from tests.support.operators.operator import (
    Status,
    config_map,
    disttest,
    finished,
    ledger,
    patch_spec,
    reaches_phase,
    run_counts,
)
from tests.support.operators.upgrades import BEFORE, OURS, Site
from tests.support.shell import Shell

SERIES = "nightly-1x8"
SECONDS = 120  # for a run during a rollout
TIMEOUTS = {"queueSeconds": 600, "rendezvousSeconds": 120, "caseSeconds": 300, "runSeconds": 600}
KEPT_WAITING = {"suspend": True, "ttlSecondsAfterFinished": 3600}
OPEN = frozenset({"running", "queued", "paused", "cancelled"})
KINDS = "disttests,disttestseries,configmaps,cronjobs"
QUICK = "def test_quick(): pass\n"
RED = "def test_red(): raise AssertionError('as it should')\n"
# The image's directory is the one place that every pod and this test see.
HELD = """
import pathlib, time
import disttest_runner

def test_the_runner_is_of_the_version_before():
    assert pathlib.Path(disttest_runner.__file__).is_relative_to("{source}")

def test_held():
    while not pathlib.Path("{release}").exists():
        time.sleep(0.05)
"""


@dataclass(frozen=True, slots=True)
class UpgradePath:
    """How one comes from the previous version to another state, and which operator acts then."""

    id: str
    go: Callable[[Site], None]
    acts: str = OURS


def by_rollout(site: Site) -> None:
    site.apply("base")


def by_a_kill(site: Site) -> None:
    """The one before does not hand its Lease over, and comes back for as long as the rollout lets it."""
    site.apply("base")
    site.kill()


def by_image_alone(site: Site) -> None:
    site.apply("operator", version=BEFORE, tag=OURS)


def by_all_but_the_operator(site: Site) -> None:
    site.apply("crd", "rbac", "policies")


def back_again(site: Site) -> None:
    site.apply("base")
    site.is_led_by(OURS)
    site.roll_back()


WAYS = (
    UpgradePath("rollout", by_rollout),
    UpgradePath("kill", by_a_kill),
    UpgradePath("only the image", by_image_alone),
    UpgradePath("only CRDs and rights", by_all_but_the_operator, acts=BEFORE),
    UpgradePath("and back", back_again, acts=BEFORE),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Upgraded:
    """What was seen. `before` the upgrade, `after` it while no run has ended, and at the `end` of all."""

    way: UpgradePath
    site: Site
    namespace: str
    edge: str
    """Namespace of what the API of the previous version just took."""
    before: dict[str, Manifest]
    after: dict[str, Manifest]
    end: dict[str, Manifest]
    counters_before: dict[str, float]
    counters_after: dict[str, float]
    pods: frozenset[str]
    """Of the run in mid-case."""


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> previous.Previous:
    return previous.make(tmp_path_factory.mktemp("versions") / "previous")


@pytest.fixture(
    scope="module",
    params=[pytest.param(way, id=way.id, marks=() if way is WAYS[0] else pytest.mark.soak) for way in WAYS],
)
def upgraded(
    request: pytest.FixtureRequest, before: previous.Previous, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Upgraded]:
    """On a separate cluster, because CRDs apply to all namespaces."""
    directory = tmp_path_factory.mktemp("upgrade")
    folder = directory / "overlay"
    folder.mkdir()
    with (
        fresh_cluster(directory, say_aloud(request.config), more_images=before.images) as cluster,
        cluster.namespace({"pod-security.kubernetes.io/enforce": "restricted"}) as namespace,
        cluster.namespace() as edge,
    ):
        site = Site(cluster, folder, before)
        site.apply("base", version=BEFORE)
        site.let_scrape()
        site.is_led_by(BEFORE)
        release = before.directory / "release"
        release.unlink(missing_ok=True)
        begin(site, namespace, directory, release)
        put_to_the_edge(site, edge)
        seen = everything(cluster, namespace)
        counted = counters(site.metrics(), namespace)
        pods = frozenset(pods_of(cluster, namespace, "running"))
        request.param.go(site)
        site.is_led_by(request.param.acts)
        cluster.wait_until(
            "the ledger is exposed", lambda: bool(counters(site.metrics(), namespace)), timeout_seconds=20
        )
        after, counted_after = everything(cluster, namespace), counters(site.metrics(), namespace)
        cluster.kubectl("label", "disttests,disttestseries", "--all", "-n", namespace, "seen=after")
        release.touch()
        go_through(cluster, namespace)
        yield Upgraded(
            way=request.param,
            site=site,
            namespace=namespace,
            edge=edge,
            before=seen,
            after=after,
            end=everything(cluster, namespace),
            counters_before=counted,
            counters_after=counted_after,
            pods=pods,
        )


def begin(site: Site, namespace: str, directory: Path, release: Path) -> None:
    """Runs that have ended, one in mid-case by a CronJob, one in a queue, one between attempts, one not started."""
    cluster = site.cluster
    held = HELD.format(source=site.before.source, release=release)
    for name, text in {"quick": QUICK, "red": RED, "held": held}.items():
        cluster.apply(config_map(namespace, name, text))
    night = nightly.disttest(SERIES, nodes=2, suites=[own("held")], timeouts=TIMEOUTS)
    overlay = directory / "nightly"
    overlay.mkdir()
    nightly.write_overlay(
        overlay,
        namespace,
        {SERIES: night},
        manifests=site.before.manifests,
        image=previous.OPERATOR_IMAGE,
        reads=("held",),
    )
    cluster.kubectl("apply", "-k", str(overlay))
    cluster.kubectl("create", "job", "running", f"--from=cronjob/{SERIES}", "-n", namespace)
    cluster.apply(
        [
            *(a_run(namespace, name, "quick") for name in ("passed", "gone")),
            a_run(namespace, "failed", "red", retries={"flaky": 0}),
            a_run(namespace, "queued", "quick", queueName="gpu"),
            a_run(namespace, "paused", "quick"),
            a_run(namespace, "cancelled", "quick", suspend=True),
        ]
    )
    cluster.wait_until("it has started", lambda: cluster.get("job", "paused-a1", namespace))
    patch_spec(cluster, namespace, "paused", suspend=True)
    verdicts = [finished(cluster, namespace, name, SECONDS)["verdict"] for name in ("passed", "failed", "gone")]
    assert verdicts == ["Passed", "TestsFailed", "Passed"]
    cluster.wait_until(
        "it is between attempts", functools.partial(is_between_attempts, cluster, namespace, "paused"), SECONDS
    )
    cluster.wait_until("it waits in its queue", lambda: cluster.get("job", "queued-a1", namespace))
    reaches_phase(cluster, namespace, "running", "Running", SECONDS)
    cluster.wait_until(
        "it is during the case", functools.partial(is_in_case, cluster, namespace, "running", "test_held"), SECONDS
    )
    cluster.wait_until("the ledger is settled", lambda: ledger(cluster, namespace, SERIES).get("pending") == [], 20)
    cluster.kubectl("delete", "disttest", "gone", "-n", namespace)
    cluster.wait_until("its report is its series' alone", lambda: owners(cluster, namespace, "gone-report") == [SERIES])


def put_to_the_edge(site: Site, namespace: str) -> None:
    """What the API of before just took, by its own tests: rules that are new must not make it impossible to edit."""
    manifests = []
    for number, manifest in enumerate(site.before.right_manifests().values()):
        name = manifest["metadata"]["name"]
        meta = {"name": name if len(name) > 50 else f"right-{number}", "namespace": namespace}
        manifests.append(manifest | {"metadata": meta, "spec": manifest["spec"] | KEPT_WAITING})
    site.cluster.kubectl(
        "create", "-f", "-", input=json.dumps({"apiVersion": "v1", "kind": "List", "items": manifests})
    )


def go_through(cluster: SessionCluster, namespace: str) -> None:
    """Finish all open runs."""
    patch_spec(cluster, namespace, "queued-a1", kind="job", suspend=False)
    patch_spec(cluster, namespace, "paused", suspend=False)
    patch_spec(cluster, namespace, "cancelled", cancel=True)
    for name in sorted(OPEN):
        finished(cluster, namespace, name, SECONDS)
    cluster.wait_until("the ledger is settled", lambda: ledger(cluster, namespace, SERIES).get("pending") == [], 20)
    cluster.kubectl(
        "wait", "-n", namespace, "job/running", "--for=condition=Complete", f"--timeout={patience.whole(30)}s"
    )


def test_what_has_ended_stays_word_for_word(upgraded: Upgraded) -> None:
    still = {name: body for name, body in upgraded.before.items() if name.rpartition("/")[2] not in OPEN}
    assert {"disttest/passed", "disttest/failed", f"disttestseries/{SERIES}", f"cronjob/{SERIES}"} <= set(still)
    assert {name: upgraded.after.get(name) for name in still} == still
    counted = {name for name in still if name.startswith(("disttestseries/", "cronjob/"))}
    assert {name: unlabelled(upgraded.end[name]) for name in still.keys() - counted} == {
        name: still[name] for name in still.keys() - counted
    }


def test_specs_of_open_runs_stay_as_they_were_written(upgraded: Upgraded) -> None:
    for name in OPEN:
        assert upgraded.after[f"disttest/{name}"]["spec"] == upgraded.before[f"disttest/{name}"]["spec"]


def test_a_run_in_mid_case_continues_in_the_same_pods_and_passes(upgraded: Upgraded) -> None:
    ended = upgraded.end["disttest/running"]["status"]
    assert (ended["verdict"], ended["attempt"], ended["cases"]["passed"]) == ("Passed", 1, 2), ended
    assert len(upgraded.pods) == 2
    assert frozenset(pods_of(upgraded.site.cluster, upgraded.namespace, "running")) <= upgraded.pods
    assert upgraded.before["disttest/running"]["status"]["startTime"] == ended["startTime"]


def test_what_waited_in_a_queue_or_between_attempts_begins_and_passes(upgraded: Upgraded) -> None:
    queued, paused = (upgraded.end[f"disttest/{name}"]["status"] for name in ("queued", "paused"))
    assert (queued["verdict"], queued["attempt"]) == ("Passed", 1), queued
    assert (paused["verdict"], paused["attempt"]) == ("Passed", 2), paused
    assert [one["reason"] for one in paused["attempts"]] == ["Suspended", "AllCasesPassed"]
    assert upgraded.end["disttest/cancelled"]["status"]["verdict"] == "Cancelled"
    jobs = {job["metadata"]["name"]: image(job) for job in upgraded.site.cluster.find("jobs", upgraded.namespace)}
    assert jobs["paused-a2"] == f"disttest-runner:{upgraded.way.acts}"


def test_each_run_is_counted_once(upgraded: Upgraded) -> None:
    totals = run_counts(upgraded.end[f"disttestseries/{SERIES}"]["status"])
    assert totals == {
        ("Passed", "AllCasesPassed"): 5,
        ("TestsFailed", "CasesFailed"): 1,
        ("Cancelled", "Cancelled"): 1,
    }


def test_counters_continue_under_the_same_labels(upgraded: Upgraded) -> None:
    """A label more would be a new series in Prometheus, and its first value would look like an increase."""
    before, after = upgraded.counters_before, upgraded.counters_after
    assert any(name.startswith("disttest_runs_total{") and value for name, value in before.items())
    known = {name.partition("{")[0] for name in before}
    assert {name: value for name, value in after.items() if name.partition("{")[0] in known} == before


def test_reports_of_before_are_read_also_of_a_run_that_is_gone(upgraded: Upgraded, tmp_path: Path) -> None:
    cluster = upgraded.site.cluster
    shell = Shell(kubeconfig=cluster.kubeconfig, namespace=upgraded.namespace, directory=tmp_path)
    for name, verdict in {"gone": "Passed", "passed": "Passed", "failed": "TestsFailed"}.items():
        raw = "\n".join(shell.lines("report", name, "-o", "json"))
        assert Report.loads(raw.encode()).verdict == verdict
        assert any(verdict in line for line in shell.lines("report", name))
    stored = upgraded.before["configmap/failed-report"]["binaryData"]["report.json.gz"]
    assert (
        Report.loads(gzip.decompress(base64.b64decode(stored))).counts.to_json()
        == (upgraded.end["disttest/failed"]["status"]["cases"])
    )
    assert any("TestsFailed" in line for line in shell.lines("history", SERIES))


def test_whatever_was_allowed_before_can_still_be_edited(upgraded: Upgraded) -> None:
    cluster = upgraded.site.cluster
    names = [body["metadata"]["name"] for body in cluster.find("disttests", upgraded.edge)]
    said = cluster.kubectl("label", "disttests", "--all", "-n", upgraded.edge, "seen=after")
    assert len(names) == len(upgraded.site.before.right_manifests()) == said.count(" labeled")
    waiting = next(name for name in names if not status(cluster, upgraded.edge, name).get("verdict"))
    patch_spec(cluster, upgraded.edge, waiting, cancel=True)
    assert finished(cluster, upgraded.edge, waiting)["verdict"] == "Cancelled"


def test_no_request_of_an_operator_is_refused(upgraded: Upgraded) -> None:
    """By rights or policies of the other version; what follows a namespace's deletion is not there yet."""
    dev = upgraded.site.cluster.dev
    assert dev is not None
    asked = [one for one in audit.requests(dev.state) if one.user.endswith(":disttest-operator")]
    assert asked
    assert audit.as_text(audit.refused(asked)) == ""
    assert "Traceback" not in upgraded.site.log()


def own(name: str) -> Manifest:
    return {"name": name, "configMap": {"name": name}}


def a_run(namespace: str, name: str, suite: str, **spec: Any) -> Manifest:
    """One rank."""
    usual = {"series": SERIES, "nodes": 1, "ranksPerNode": 1, "suites": [own(suite)], "timeouts": TIMEOUTS}
    return disttest(namespace, name, **usual | spec)


def status(cluster: SessionCluster, namespace: str, name: str) -> Status:
    return (cluster.get("disttest", name, namespace) or {}).get("status") or {}


def is_in_case(cluster: SessionCluster, namespace: str, name: str, case: str) -> bool:
    current = str((status(cluster, namespace, name).get("progress") or {}).get("currentCase", ""))
    return current.endswith(case)


def is_between_attempts(cluster: SessionCluster, namespace: str, name: str) -> bool:
    return bool(status(cluster, namespace, name).get("attempts")) and not pods_of(cluster, namespace, name)


def pods_of(cluster: SessionCluster, namespace: str, run: str) -> list[str]:
    """Their uids."""
    return [pod["metadata"]["uid"] for pod in cluster.find("pods", namespace, f"disttest.dev/name={run}")]


def owners(cluster: SessionCluster, namespace: str, report: str) -> list[str]:
    """Their names; the garbage collector takes out those that are gone."""
    body = cluster.get("configmap", report, namespace) or {"metadata": {}}
    return [owner["name"] for owner in body["metadata"].get("ownerReferences", ())]


def image(job: Manifest) -> str:
    return str(job["spec"]["template"]["spec"]["containers"][0]["image"])


def everything(cluster: SessionCluster, namespace: str) -> dict[str, Manifest]:
    """What must outlast an upgrade, but for what the API server notes of writes."""
    found = {}
    for body in cluster.find(KINDS, namespace):
        body["metadata"].pop("resourceVersion")
        found[f"{body['kind'].lower()}/{body['metadata']['name']}"] = body
    return found


def unlabelled(body: Manifest) -> Manifest:
    """Without the label that this test set."""
    meta = dict(body["metadata"])
    labels = {key: value for key, value in (meta.pop("labels", None) or {}).items() if key != "seen"}
    return body | {"metadata": meta | ({"labels": labels} if labels else {})}


def counters(samples: dict[str, float], namespace: str) -> dict[str, float]:
    """The ledgers of a namespace."""
    kinds = ("_total", "_bucket", "_sum", "_count")
    return {
        name: value
        for name, value in samples.items()
        if f'namespace="{namespace}"' in name and name.partition("{")[0].endswith(kinds)
    }
