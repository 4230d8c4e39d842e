"""What the CronJobs of manifests/nightly say against what their runs may take, and how their pods end."""

from typing import Any

import pytest
import yaml

from disttest_cli import errors
from disttest_cli.errors import ExitStatus
from disttest_cli.input import applying
from disttest_contract.outcomes import EXIT_CODES
from disttest_operator.core.api import naming, parse
from tests.support.paths import ROOT

MANIFESTS = ROOT / "manifests"
CRON_JOBS = list(yaml.safe_load_all((MANIFESTS / "nightly/cron-jobs.yaml").read_text()))
NAMES = [body["metadata"]["name"] for body in CRON_JOBS]
START_SECONDS = range(600, 1201)  # for a pod to be scheduled, to pull its image and to find the API server
SCHEDULED_TIME = "-29735640"  # what the CronJob controller appends to its name: minutes since 1970


def disttest(name: str) -> dict[str, Any]:
    body: dict[str, Any] = yaml.safe_load((MANIFESTS / f"nightly/{name.removeprefix('nightly-')}.yaml").read_text())
    return body


def patched_disttest() -> dict[str, Any]:
    """The DistTest of the example overlay, which replaces that of the component."""
    body = yaml.safe_load((MANIFESTS / "overlays/nightly/nightly-2x8.yaml").read_text())
    replaced: dict[str, Any] = yaml.safe_load(body["data"]["disttest.yaml"])
    return replaced


@pytest.mark.parametrize("body", CRON_JOBS, ids=NAMES)
def test_its_deadline_is_what_a_run_may_take_and_a_little_for_the_pod_to_start(body: dict[str, Any]) -> None:
    name, deadline = body["metadata"]["name"], body["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"]
    assert deadline - applying.budget_seconds(disttest(name)["spec"]) in START_SECONDS


def test_the_example_of_a_replaced_file_keeps_to_the_deadline() -> None:
    [body] = [body for body in CRON_JOBS if body["metadata"]["name"] == "nightly-2x8"]
    deadline = body["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"]
    assert deadline - applying.budget_seconds(patched_disttest()["spec"]) in START_SECONDS


@pytest.mark.parametrize("body", CRON_JOBS, ids=NAMES)
def test_the_clocks_are_written_out_because_the_operator_may_have_other_defaults(body: dict[str, Any]) -> None:
    spec = disttest(body["metadata"]["name"])["spec"]
    assert set(spec["timeouts"]) == {"queueSeconds", "rendezvousSeconds", "caseSeconds", "runSeconds"}
    assert "infrastructure" in spec["retries"]


@pytest.mark.parametrize("body", CRON_JOBS, ids=NAMES)
def test_the_series_is_the_same_in_the_cronjob_its_pods_and_its_run(body: dict[str, Any]) -> None:
    template = body["spec"]["jobTemplate"]
    labels = [body["metadata"]["labels"], template["metadata"]["labels"]]
    labels.append(template["spec"]["template"]["metadata"]["labels"])
    series = {each[naming.LABEL_SERIES] for each in labels} | {disttest(body["metadata"]["name"])["spec"]["series"]}
    assert series == {body["metadata"]["name"]}


@pytest.mark.parametrize("body", CRON_JOBS, ids=NAMES)
def test_its_jobs_have_names_that_runs_can_have(body: dict[str, Any]) -> None:
    assert len(body["metadata"]["name"] + SCHEDULED_TIME) <= parse.NAME_LENGTH


@pytest.mark.parametrize("body", CRON_JOBS, ids=NAMES)
def test_every_ending_that_another_pod_would_not_change_fails_the_job(body: dict[str, Any]) -> None:
    [rule] = [
        rule for rule in body["spec"]["jobTemplate"]["spec"]["podFailurePolicy"]["rules"] if "onExitCodes" in rule
    ]
    final = {*EXIT_CODES.values(), *ExitStatus} - {0, ExitStatus.UNREACHABLE}
    assert rule["action"] == "FailJob"
    assert set(rule["onExitCodes"]["values"]) == final
    assert not final & {errors.SIGNALLED + 2, errors.SIGNALLED + 15}, "a pod that was terminated is replaced"
    [container] = body["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    assert rule["onExitCodes"]["containerName"] == container["name"]


def test_no_two_series_begin_at_the_same_time() -> None:
    assert len({body["spec"]["schedule"] for body in CRON_JOBS}) == len(CRON_JOBS) == 3


def test_the_operator_waits_for_a_night_less_than_half_a_day() -> None:
    allowances = [
        body["spec"]["startingDeadlineSeconds"] + body["spec"]["jobTemplate"]["spec"]["activeDeadlineSeconds"]
        for body in CRON_JOBS
    ]
    assert max(allowances) < 12 * 3600
