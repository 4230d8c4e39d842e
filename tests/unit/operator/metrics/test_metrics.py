"""What /metrics exposes: exact through restarts, bounded, and just what the table of families says."""

import re
from collections.abc import Callable, Iterable

import pytest
from prometheus_client import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as read_open_metrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from disttest_contract.outcomes import Outcome
from disttest_contract.results.network_transport import GangTransport, NetworkTransport, TransportFacts
from disttest_operator.cache.cache import Cache
from disttest_operator.core.api.model import Defaults
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.schedule import expected_runs
from disttest_operator.kubernetes.api_session import ApiRequest
from disttest_operator.kubernetes.ports import LedgerWrite, Transport
from disttest_operator.metrics import Metrics, families
from disttest_operator.metrics.families import FAMILIES, FamilyType
from disttest_operator.metrics.series_collectors import COMMON
from tests.support.builders.cron_jobs import cron_job_body
from tests.support.builders.measured import a_measurement, a_threshold
from tests.support.builders.nights import a_case, a_night, ledger_body
from tests.support.builders.runs import a_report_of, a_spec, at
from tests.support.builders.series import Nights
from tests.support.fakes.world import OperatorWorld, live, run_body

OPEN_METRICS = "application/openmetrics-text; version=1.0.0"
FORBIDDEN = {"run", "uid", "pod", "rank", "job", "instance", "message"}
RDMA = GangTransport(used=TransportFacts(transport=NetworkTransport.RDMA, network="IB"))
SERIES = {"namespace": "gpu-ci", "series": "adhoc"}

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


@pytest.fixture
def caches() -> Cache:
    """After one passed run, with another that waits, and a CronJob."""
    world = OperatorWorld()
    live(world)
    waiting = run_body(series="nightly-2x8")
    waiting["metadata"] |= {"name": "waiting", "uid": "w"}
    world.cluster.put(Kind.RUN, waiting)
    for (kind, _, _), body in world.cluster.objects.items():
        if kind in {Kind.RUN, Kind.SERIES}:
            world.caches.put(kind, body, at(99))
    world.caches.put(Kind.CRON_JOB, cron_job_body(), at(0))
    return world.caches


def with_ledgers(*ledgers: Nights) -> Cache:
    """Series s0, s1 … of the namespace gpu-ci."""
    caches = Cache(Defaults(image="runner:1"))
    for number, series in enumerate(ledgers):
        caches.put(Kind.SERIES, ledger_body(f"s{number}", series.ledger, version=series.count), at(0))
    return caches


def metrics_of(caches: Cache, *, speaks: Callable[[], bool] = lambda: True) -> Metrics:
    return Metrics(caches, version="1", speaks=speaks, clock=lambda: at(99))


def exercised(caches: Cache) -> Metrics:
    metrics = metrics_of(caches)
    metrics.count_request(ApiRequest(verb="get", resource="jobs"), "200", 0.01)
    metrics.count_reconcile(Kind.RUN, result="success", seconds=0.1)
    metrics.count_healed(Kind.RUN, 1)
    metrics.count_scrape(200)
    metrics.count_refused_certificate()
    metrics.note_certificate("own", at(0))
    metrics.count_ledger_write(LedgerWrite.SUCCESS)
    metrics.count_report(Transport.LOG, "found")
    metrics.note_event(Kind.RUN)
    metrics.note_wait(0.01)
    metrics.note_state(is_active=True, queue_depth=3, watches_begun={"disttests": 1000.0})
    return metrics


def families_of(metrics: Metrics) -> list[Metric]:
    return list(read_text(metrics.render("")[0].decode()))


def samples(metrics: Metrics) -> Samples:
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families_of(metrics)
        for sample in family.samples
    }


def reader(seen: Samples, **common: str) -> Callable[..., float | None]:
    """Of a sample by its name and further labels; None: there is none."""

    def value(name: str, **labels: str) -> float | None:
        return seen.get((name, tuple(sorted({**common, **labels}.items()))))

    return value


def test_metrics_of_runs_come_from_ledgers_and_the_cache(caches: Cache) -> None:
    seen = samples(exercised(caches))
    value = reader(seen, **SERIES)
    assert value("disttest_runs_total", verdict="Passed", reason="AllCasesPassed") == 1
    assert value("disttest_cases_total", suite="collectives", outcome="passed") == 2
    assert value("disttest_cases_total", suite="collectives", outcome="failed") == 0
    assert value("disttest_hangs_total", suite="collectives") == 0
    assert value("disttest_run_duration_seconds_count", verdict="Passed") == 1
    assert value("disttest_run_duration_seconds_bucket", verdict="Passed", le="30.0") == 1
    assert value("disttest_run_duration_seconds_count", verdict="TestsFailed") == 0, "born at 0"
    assert value("disttest_step_duration_seconds_count", step="collected") == 1
    assert value("disttest_last_run_verdict", verdict="Passed") == 1
    assert value("disttest_last_run_verdict", verdict="Hung") == 0
    assert value("disttest_last_success_timestamp_seconds") == at(20).timestamp()
    assert value("disttest_run_streak") == 1
    assert value("disttest_pass_ratio") == 1
    assert value("disttest_flip_ratio") is None, "one run cannot flip"
    assert value("disttest_node_last_tested_timestamp_seconds", node="node1") == at(20).timestamp()


def test_runs_without_a_verdict_are_exposed_with_start_and_deadline(caches: Cache) -> None:
    value = reader(samples(exercised(caches)), namespace="gpu-ci", series="nightly-2x8")
    assert value("disttest_active_runs", phase="Queued") == 1
    assert value("disttest_active_run_start_timestamp_seconds") == at(0).timestamp()
    assert value("disttest_active_run_deadline_timestamp_seconds") == at(1800).timestamp()
    value = reader(samples(exercised(caches)), **SERIES)
    assert value("disttest_active_runs", phase="Queued") == 0
    assert value("disttest_active_run_start_timestamp_seconds") is None


def test_schedules_are_exposed_for_the_time_of_the_scrape(caches: Cache) -> None:
    """The CronJob's night begins at one and may take six hours; it is two o'clock."""
    now = at(99)
    metrics = Metrics(caches, version="1", speaks=lambda: True, clock=lambda: now)
    value = reader(samples(metrics), namespace="gpu-ci", series="nightly")
    today = at(-3600).timestamp()
    assert value("disttest_schedule_due_timestamp_seconds") == today - 86400
    assert value("disttest_schedule_next_timestamp_seconds") == today + 86400
    now = at(5 * 3600)
    value = reader(samples(metrics), namespace="gpu-ci", series="nightly")
    assert value("disttest_schedule_due_timestamp_seconds") == today


def test_series_beyond_the_bound_of_schedules_are_counted_as_dropped(caches: Cache) -> None:
    for number in range(expected_runs.MAX_SERIES):
        caches.put(Kind.CRON_JOB, cron_job_body(f"c{number}", series=f"a{number:03}"), at(0))
    seen = samples(metrics_of(caches))
    shown = [labels for name, labels in seen if name == "disttest_schedule_suspended"]
    assert len(shown) == expected_runs.MAX_SERIES
    value = reader(seen)
    assert value("disttest_dropped_series", family="disttest_schedule_suspended") == 1


def test_outcomes_add_up_to_all_cases_since_a_flaky_one_is_a_passed_one(caches: Cache) -> None:
    seen = samples(exercised(caches))
    for name in ("disttest_cases_total", "disttest_last_run_cases"):
        assert {dict(labels)["outcome"] for found, labels in seen if found == name} == set(Outcome)


def test_counters_start_at_zero(caches: Cache) -> None:
    value = reader(samples(exercised(caches)), **SERIES)
    for verdict, reason in COMMON:
        assert value("disttest_runs_total", verdict=verdict.value, reason=reason.value) is not None
    assert value("disttest_retries_total", reason="NodeLost") == 0


def test_cases_are_counted_by_suite_and_those_that_fail_are_named() -> None:
    series = Nights()
    for night in range(6):
        series.run(a_case("t::steady"), a_case("t::broken", good=night < 2), a_case("t::flips", good=night % 2 == 0))
    seen = samples(metrics_of(with_ledgers(series)))
    value = reader(seen, namespace="gpu-ci", series="s0")
    assert value("disttest_failing_cases", suite="collectives") == 2
    assert value("disttest_newly_failing_cases", suite="collectives") == 1
    assert value("disttest_flaky_cases", suite="collectives") == 1
    assert value("disttest_case_flips", suite="collectives") == 5
    assert value("disttest_failing_case_streak", suite="collectives", case="t::broken") == 4
    assert value("disttest_failing_case_streak", suite="collectives", case="t::flips") == 1
    assert value("disttest_failing_case_streak", suite="collectives", case="t::steady") is None
    assert value("disttest_run_streak") == -5, "the first one passed"
    assert value("disttest_flip_ratio") == pytest.approx(1 / 5)


def test_a_case_that_is_good_again_is_no_longer_listed() -> None:
    series = Nights()
    series.run(a_case("t::broken", good=False))
    caches = with_ledgers(series)
    metrics = metrics_of(caches)
    assert "t::broken" in metrics.render("")[0].decode()
    series.run(a_case("t::broken"))
    caches.put(Kind.SERIES, ledger_body("s0", series.ledger, version=series.count), at(1))
    assert "t::broken" not in metrics.render("")[0].decode()


def test_a_ledger_of_an_older_operator_is_exposed_and_continued() -> None:
    series = Nights()
    series.run(a_case("t::a"))
    new = {"nodes", "nodesOmitted", "environment", "bandwidth"}
    totals = {name: series.ledger["totals"][name] for name in ("runs", "cases", "retries")}
    runs = [{name: run[name] for name in ("name", "uid", "time", "verdict", "reason")} for run in series.ledger["runs"]]
    kept = {name: value for name, value in series.ledger.items() if name not in new}
    series.ledger = {**kept, "totals": totals, "runs": runs}
    value = reader(samples(metrics_of(with_ledgers(series))), namespace="gpu-ci", series="s0")
    assert value("disttest_runs_total", verdict="Passed", reason="AllCasesPassed") == 1
    assert value("disttest_run_duration_seconds_count", verdict="Passed") == 0
    series.run(a_case("t::a"))
    value = reader(samples(metrics_of(with_ledgers(series))), namespace="gpu-ci", series="s0")
    assert value("disttest_runs_total", verdict="Passed", reason="AllCasesPassed") == 2
    assert value("disttest_run_duration_seconds_count", verdict="Passed") == 1


def test_the_network_of_the_last_run_with_results_is_a_label() -> None:
    series = Nights()
    series.report(a_report_of(a_case("t::a"), transport=RDMA))
    value = reader(samples(metrics_of(with_ledgers(series))), namespace="gpu-ci", series="s0")
    assert value("disttest_transport_info", transport="rdma", network="IB") == 1
    series.report(a_report_of(a_case("t::a")))
    value = reader(samples(metrics_of(with_ledgers(series))), namespace="gpu-ci", series="s0")
    assert value("disttest_transport_info", transport="unknown", network="") == 1


def test_more_failing_cases_than_may_be_named_are_counted_as_dropped() -> None:
    series = Nights()
    series.run(*(a_case(f"t::case{number:03}", good=False) for number in range(70)))
    seen = samples(metrics_of(with_ledgers(series)))
    assert sum(name == "disttest_failing_case_streak" for name, _ in seen) == 50
    assert reader(seen)("disttest_dropped_series", family="disttest_failing_case_streak") == 20


def test_bandwidth_is_that_of_the_last_run_that_measured() -> None:
    series = Nights()
    series.run(a_case("t::a", measurements=(a_measurement(size_bytes=1 << 30, bus=4.8e11, wrong_elements=3),)))
    series.run(a_case("t::a"))
    seen = samples(metrics_of(with_ledgers(series)))
    place = {"collective": "all_reduce", "dtype": "float32", "size_bytes": str(1 << 30), "nodes": "2"}
    value = reader(seen, namespace="gpu-ci", series="s0", **place)
    assert value("disttest_collective_busbw_bytes_per_second") == 4.8e11
    assert value("disttest_collective_wrong_elements") == 3
    assert value("disttest_collective_time_seconds", stat="median") == 0.00451
    assert value("disttest_collective_busbw_threshold_bytes_per_second") is None, "no threshold, no reference"


def test_the_threshold_of_the_spec_is_exposed_with_the_measurement() -> None:
    series = Nights()
    series.spec = a_spec(thresholds=(a_threshold(), a_threshold(collective="gather")))
    series.run(a_case("t::a", measurements=(a_measurement(size_bytes=1 << 30), a_measurement(size_bytes=8))))
    seen = samples(metrics_of(with_ledgers(series)))
    references = {name[1]: value for name, value in seen.items() if "busbw_threshold" in name[0]}
    assert list(references.values()) == [4e11], "neither of what has none, nor of what was not measured"
    place = {"collective": "all_reduce", "dtype": "float32", "size_bytes": str(1 << 30), "nodes": "2"}
    value = reader(seen, namespace="gpu-ci", series="s0", **place)
    assert value("disttest_collective_busbw_threshold_bytes_per_second") == 4e11


def test_a_suspect_node_is_exposed_once_for_any_number_of_series() -> None:
    series = [Nights(), Nights()]
    for number, one in enumerate(series):
        suspect = {"name": "node1", "reason": "NodeLost", "evidence": "", "confirmed": number == 1}
        one.report(None, suspectNodes=[suspect])
    seen = samples(metrics_of(with_ledgers(*series)))
    assert [dict(labels) for name, labels in seen if name == "disttest_node_suspect"] == [
        {"node": "node1", "reason": "NodeLost", "confirmed": "true"}
    ]
    assert reader(seen)("disttest_node_failures_total", node="node1", reason="NodeLost") == 1


def test_five_hundred_runs_of_ten_series_make_no_more_series_than_a_hundred() -> None:
    def number_of_samples(runs: int) -> int:
        series = [Nights("collectives", "c10d-spawn") for _ in range(10)]
        for night in range(runs // len(series)):
            for one in series:
                one.report(a_night(night, ("collectives", "c10d-spawn")))
        return len(samples(metrics_of(with_ledgers(*series))))

    few, many = number_of_samples(100), number_of_samples(500)
    assert many == few
    assert many < 10 * 350


def test_buckets_name_the_newest_of_their_runs_in_open_metrics_only() -> None:
    series = Nights()
    for seconds in (20.0, 25.0, 400.0):
        series.run(a_case("t::a"), durationSeconds=seconds)
    metrics = metrics_of(with_ledgers(series))
    text, content_type = metrics.render(OPEN_METRICS)
    assert content_type.startswith("application/openmetrics-text")
    exemplars = {
        sample.labels["le"]: (sample.exemplar.labels["run"], sample.exemplar.value)
        for family in read_open_metrics(text.decode())  # type: ignore[no-untyped-call]  # library without types
        for sample in family.samples
        if sample.exemplar
    }
    assert exemplars == {"30.0": ("night-1", 25.0), "600.0": ("night-2", 400.0)}
    assert "night-" not in metrics.render("")[0].decode()


@pytest.mark.parametrize(
    "accept", ["application/openmetrics-text; version=abc", "text/plain; version=x\r\nA: b", "\x00"]
)
def test_an_invalid_version_gets_plain_text(caches: Cache, accept: str) -> None:
    text, content_type = exercised(caches).render(accept)
    assert content_type.startswith("text/plain; version=0.0.4")
    assert b"disttest_runs_total" in text


def test_of_several_active_runs_the_first_that_must_move_on_gives_the_deadline() -> None:
    caches = Cache(Defaults(image="runner:1"))
    timeouts = {"queueSeconds": 600, "rendezvousSeconds": 60, "caseSeconds": 60, "runSeconds": 300}
    bodies = {
        "oldest, suspended": run_body(series="s", suspend=True),
        "queued": run_body(series="s", timeouts={**timeouts, "queueSeconds": 900}),
        "running": run_body(series="s", timeouts=timeouts),
        "waits for older ones": run_body(
            series="s", timeouts={**timeouts, "queueSeconds": 10}, concurrencyPolicy="Wait"
        ),
    }
    for number, (name, body) in enumerate(bodies.items()):
        stamp = f"2026-11-21T02:00:{number:02}Z"
        body["metadata"] |= {"name": f"r{number}", "uid": name, "resourceVersion": "1", "creationTimestamp": stamp}
        started = {"phase": "Running", "startTime": "2026-11-21T02:01:00Z"} if name == "running" else {}
        caches.put(Kind.RUN, body | {"status": started}, at(0))
    value = reader(samples(metrics_of(caches)), namespace="gpu-ci", series="s")
    assert value("disttest_active_run_start_timestamp_seconds") == at(0).timestamp()
    assert value("disttest_active_run_deadline_timestamp_seconds") == at(60 + 60 + 300 + 60).timestamp()


def test_text_and_open_metrics_have_the_same_samples(caches: Cache) -> None:
    metrics = exercised(caches)
    text = read_text(metrics.render("")[0].decode())
    other = read_open_metrics(metrics.render(OPEN_METRICS)[0].decode())  # type: ignore[no-untyped-call]  # same
    assert all_values(text) == all_values(other)


def all_values(read: Iterable[Metric]) -> dict[tuple[str, frozenset[tuple[str, str]]], float]:
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in read
        if family.name.startswith("disttest_")
        for sample in family.samples
    }


def test_a_standby_exposes_no_metrics_of_runs(caches: Cache) -> None:
    names = {name for name, _ in samples(metrics_of(caches, speaks=lambda: False))}
    assert "disttest_leader" in names
    assert not {name for name in names if "run" in name or "cases" in name}


def test_no_label_names_a_single_run(caches: Cache) -> None:
    found = samples(exercised(caches))
    labels = {label for _, pairs in found for label, _ in pairs}
    assert labels & FORBIDDEN == set()
    naming_cases = {family for family in FAMILIES if "case" in family.labels}
    assert naming_cases == {families.FAILING_STREAK}


def test_every_family_has_a_row_and_looks_like_it(caches: Cache) -> None:
    exposed = {family.name: family for family in families_of(exercised(caches)) if family.name.startswith("disttest_")}
    assert exposed.keys() == {family.full_name for family in FAMILIES}
    for row in FAMILIES:
        if family := exposed.get(row.full_name):
            assert family.type == row.type.value
            assert all(set(sample.labels) - {"le"} == set(row.labels) for sample in family.samples), row.name


def test_names_follow_the_conventions() -> None:
    assert len({family.name for family in FAMILIES}) == len(FAMILIES)
    for family in FAMILIES:
        assert re.fullmatch(r"[a-z][a-z0-9_]*", family.name)
        assert not family.name.endswith("_total"), "the client adds it"
        assert family.type is not FamilyType.HISTOGRAM or family.name.endswith("_seconds")
        assert family.meaning[0].islower() or family.meaning[0].isdigit() or family.meaning[0] == "`"
