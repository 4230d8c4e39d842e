"""What /metrics exposes, and that docs/metrics.md lists exactly that."""

import re
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_operator.caches import Caches
from disttest_operator.metrics import COMMON, Metrics
from disttest_operator.ports import Kind
from disttest_operator.requests import Request
from tests.support.runs import at
from tests.support.world import World, live, run_body

DOCUMENT = Path(__file__).parents[3] / "docs" / "metrics.md"
FORBIDDEN = {"run", "uid", "pod", "rank", "case", "job", "instance", "message"}


@pytest.fixture
def caches() -> Caches:
    """After one passed run, and with another that waits."""
    world = World()
    live(world)
    waiting = run_body(series="nightly-2x8")
    waiting["metadata"] |= {"name": "waiting", "uid": "w"}
    world.cluster.put(Kind.RUN, waiting)
    for (kind, _, _), body in world.cluster.objects.items():
        if kind in {Kind.RUN, Kind.SERIES}:
            world.caches.put(kind, body, at(99))
    return world.caches


def samples(metrics: Metrics) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    text = metrics.render("")[0].decode()
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def exercised(caches: Caches) -> Metrics:
    metrics = Metrics(caches, version="1", speaks=lambda: True)
    metrics.count_request(Request(verb="get", resource="jobs"), "200")
    metrics.count_reconcile(Kind.RUN, result="success", seconds=0.1)
    metrics.count_healed(Kind.RUN, 1)
    metrics.note_event(Kind.RUN)
    metrics.count_scrape(200)
    return metrics


def test_runs_are_told_from_ledgers_and_caches(caches: Caches) -> None:
    seen = samples(exercised(caches))
    series = (("namespace", "gpu-ci"), ("series", "adhoc"))

    def value(name: str, **labels: str) -> float:
        return seen[name, tuple(sorted((*series, *labels.items())))]

    assert value("disttest_runs_total", verdict="Passed", reason="AllCasesPassed") == 1
    assert value("disttest_cases_total", suite="collectives", outcome="passed") == 2
    assert value("disttest_cases_total", suite="collectives", outcome="failed") == 0
    assert value("disttest_run_duration_seconds_count") == 1
    assert value("disttest_run_duration_seconds_bucket", le="30.0") == 1
    assert value("disttest_last_run_verdict", verdict="Passed") == 1
    assert value("disttest_last_run_verdict", verdict="Hung") == 0
    assert value("disttest_last_success_timestamp_seconds") == at(20).timestamp()
    waiting = ("disttest_active_runs", (("namespace", "gpu-ci"), ("phase", "Queued"), ("series", "nightly-2x8")))
    assert seen[waiting] == 1


def test_outcomes_add_up_to_all_cases_since_a_flaky_one_is_a_passed_one(caches: Caches) -> None:
    outcomes = {
        dict(labels)["outcome"] for name, labels in samples(exercised(caches)) if name == "disttest_cases_total"
    }
    assert outcomes == {outcome.value for outcome in Outcome}


def test_counters_are_born_at_zero(caches: Caches) -> None:
    seen = samples(exercised(caches))
    for verdict, reason in COMMON:
        labels = {"namespace": "gpu-ci", "series": "adhoc", "verdict": verdict.value, "reason": reason.value}
        assert ("disttest_runs_total", tuple(sorted(labels.items()))) in seen


def test_who_does_not_act_says_nothing_of_runs(caches: Caches) -> None:
    silent = Metrics(caches, version="1", speaks=lambda: False)
    names = {name for name, _ in samples(silent)}
    assert "disttest_leader" in names
    assert not {name for name in names if "run" in name or "cases" in name}


def test_no_label_names_a_single_run(caches: Caches) -> None:
    labels = {label for _, pairs in samples(exercised(caches)) for label, _ in pairs}
    assert labels & FORBIDDEN == set()


def test_the_document_lists_exactly_what_is_exposed(caches: Caches) -> None:
    text = exercised(caches).render("")[0].decode()
    exposed = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE disttest_")}
    documented = set(re.findall(r"^\| `(disttest_\w+)` \|", DOCUMENT.read_text(), re.MULTILINE))
    assert documented == exposed


def test_reasons_fit_the_bound_of_a_label() -> None:
    assert len(Reason) <= 40
    assert len(Verdict) == 7
