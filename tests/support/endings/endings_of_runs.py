"""Endings that the run, its report or its Job tell."""

from disttest_contract.outcomes import Outcome, Reason, Verdict
from disttest_operator.core.api.model import Quarantine, Suite
from disttest_operator.core.api.template import Template
from disttest_operator.core.observed.evidence import (
    Evidence,
    Match,
    Observed,
    Policy,
    QuarantineRead,
    Reference,
    Search,
)
from disttest_operator.core.verdict.rule import Retry
from tests.support.builders.measured import a_threshold
from tests.support.builders.runs import (
    a_bad_report,
    a_disrupted_pod,
    a_job,
    a_pod,
    a_report,
    a_spec,
    a_test,
    an_ended_pod,
    at,
    condition,
    evidence,
    found,
)
from tests.support.endings.ending_row import ENDED, GANG_LOST, GPUS, SMALL_NODES, TERMINATED, EndingRow

QUARANTINED = a_test(spec=a_spec(quarantine=Quarantine(config_map="known")))


def a_missing(kind: str, name: str, path: str) -> Evidence:
    return evidence(missing=(Reference(kind=kind, name=name, path=path),))


OF_RUNS = {
    "invalid spec": EndingRow(
        evidence=evidence(problems=("spec.nodes: write 1 to 512",)),
        verdict=Verdict.ERRORED, reason=Reason.INVALID_SPEC, words="spec.nodes: write",
    ),
    "plan too large": EndingRow(
        evidence=Evidence(
            test=a_test(spec=a_spec(suites=(Suite(name="s", builtin="collectives", env=(("A", "$" * 30000),)),))),
            seen=Observed(), now=at(1),
        ),
        verdict=Verdict.ERRORED, reason=Reason.INVALID_SPEC, words="but at most 122880 are allowed. Use globs",
    ),
    "plan too large for its quarantine": EndingRow(
        evidence=Evidence(
            test=QUARANTINED, now=at(1),
            seen=Observed(quarantine=QuarantineRead(lists={"collectives": ("t.py::test_x[" + "$" * 30000 + "]",)})),
        ),
        verdict=Verdict.ERRORED, reason=Reason.INVALID_SPEC, words="files, select, env and quarantine of all suites",
    ),
    "quarantine of no use": EndingRow(
        evidence=Evidence(
            test=QUARANTINED, now=at(1),
            seen=Observed(quarantine=QuarantineRead(problem="key 'x' is not a suite of this run")),
        ),
        verdict=Verdict.ERRORED, reason=Reason.INVALID_SPEC,
        words="spec.quarantine: ConfigMap 'known': key 'x' is not a suite of this run. Correct it, then create",
    ),
    "quarantine missing": EndingRow(
        evidence=a_missing("ConfigMap", "known", "spec.quarantine.configMap.name"),
        verdict=Verdict.ERRORED, reason=Reason.REFERENCE_NOT_FOUND,
        words="spec.quarantine.configMap.name: ConfigMap 'known' does not exist in namespace 'gpu-ci'",
    ),
    "not allowed": EndingRow(
        evidence=Evidence(
            test=a_test(spec=a_spec(template=Template(host_network=True, service_account_name="me"))),
            seen=Observed(), now=at(1),
        ),
        verdict=Verdict.ERRORED, reason=Reason.INVALID_SPEC,
        words="--allow=gpu-ci/host-network (docs/operating/security.md); "
        "spec.template.spec.serviceAccountName: ",
    ),
    "suite unknown": EndingRow(
        evidence=Evidence(
            test=a_test(spec=a_spec(suites=(Suite(name="s", builtin="colectives"),))),
            seen=Observed(), now=at(1),
        ),
        verdict=Verdict.ERRORED, reason=Reason.UNKNOWN_SUITE, words="this version has no suite 'colectives'",
    ),
    "name taken": EndingRow(
        evidence=evidence(taken="Job 'nightly-a1'"),
        verdict=Verdict.ERRORED, reason=Reason.NAME_CONFLICT, words="Job 'nightly-a1' exists and does not belong",
    ),
    "creation refused": EndingRow(
        evidence=evidence(refused="Job 'nightly-a1' was rejected: 403 no"),
        verdict=Verdict.ERRORED, reason=Reason.PODS_FORBIDDEN, words="403 no. Change the quota or policy",
    ),
    "ConfigMap missing": EndingRow(
        evidence=a_missing("ConfigMap", "mine", "spec.suites[].configMap.name"),
        verdict=Verdict.ERRORED, reason=Reason.REFERENCE_NOT_FOUND,
        words="ConfigMap 'mine' does not exist in namespace 'gpu-ci'",
    ),
    "ServiceAccount missing": EndingRow(
        evidence=a_missing("ServiceAccount", "me", "spec.template.spec.serviceAccountName"),
        verdict=Verdict.ERRORED, reason=Reason.REFERENCE_NOT_FOUND, words="ServiceAccount 'me'",
    ),
    "claim missing": EndingRow(
        evidence=a_missing("PersistentVolumeClaim", "dumps", "spec.artifacts.persistentVolumeClaim"),
        verdict=Verdict.ERRORED, reason=Reason.REFERENCE_NOT_FOUND,
        words="spec.artifacts.persistentVolumeClaim: PersistentVolumeClaim 'dumps' does not exist in namespace",
    ),
    "never enough GPUs": EndingRow(
        evidence=evidence(test=GPUS, nodes=SMALL_NODES, policy=Policy(fixed_nodes=True)),
        verdict=Verdict.ERRORED, reason=Reason.INSUFFICIENT_GPUS, words="maximum on one node: 4",
    ),
    "report passed": EndingRow(
        evidence=evidence(*ENDED, report=found(a_report())),
        verdict=Verdict.PASSED, reason=Reason.ALL_CASES_PASSED, words="2 cases passed",
    ),
    "report passed, but not the thresholds": EndingRow(
        evidence=evidence(
            *ENDED, report=found(a_report()), test=a_test(spec=a_spec(thresholds=(a_threshold(),))),
        ),
        verdict=Verdict.TESTS_FAILED, reason=Reason.CASES_FAILED,
        words="The cases passed, but a threshold was missed: all_reduce of 1 GiB was not measured",
    ),
    "report failed, though a pod was disrupted afterwards": EndingRow(
        evidence=evidence(
            an_ended_pod(0, 10), a_disrupted_pod(1, "EvictionByEvictionAPI"),
            report=found(a_report({"test_a": Outcome.FAILED})),
        ),
        verdict=Verdict.TESTS_FAILED, reason=Reason.CASES_FAILED, words="0 cases passed",
    ),
    "a known sign of broken hardware in a red run": EndingRow(
        evidence=evidence(
            *ENDED, report=found(a_report({"test_a": Outcome.FAILED})), search=Search(match=Match(
                verdict=Verdict.INFRA_FAILED, reason=Reason.GPU_UNHEALTHY, message="a GPU is lost: pod 1 said so",
                retry=True, nodes=("node1", "elsewhere"),
            )),
        ),
        verdict=Verdict.INFRA_FAILED, reason=Reason.GPU_UNHEALTHY, words="a GPU is lost",
        retry=Retry.CHARGED, blamed=("node1",),
    ),
    "report hung": EndingRow(
        evidence=evidence(*ENDED, report=found(a_report({"test_a": Outcome.HUNG}))),
        verdict=Verdict.HUNG, reason=Reason.CASES_HUNG, words="0 cases passed",
    ),
    "report timed out": EndingRow(
        evidence=evidence(*ENDED, report=found(a_bad_report(Verdict.TIMED_OUT, Reason.RUN_TIMEOUT))),
        verdict=Verdict.TIMED_OUT, reason=Reason.RUN_TIMEOUT, words="as the leader says",
    ),
    "report errored": EndingRow(
        evidence=evidence(*ENDED, report=found(a_bad_report(Verdict.ERRORED, Reason.COLLECTION_FAILED))),
        verdict=Verdict.ERRORED, reason=Reason.COLLECTION_FAILED, words="as the leader says",
    ),
    "Job gone": EndingRow(
        evidence=evidence(a_pod(0), a_pod(1), is_job_gone=True),
        verdict=Verdict.INFRA_FAILED, reason=Reason.JOB_DELETED, words="deleted, not by the operator",
    ),
    "Job going": EndingRow(
        evidence=evidence(a_pod(0), a_pod(1), job=a_job(is_deleting=True)),
        verdict=Verdict.INFRA_FAILED, reason=Reason.JOB_DELETED, words="deleted, not by the operator",
    ),
    "node lost": EndingRow(
        evidence=evidence(
            an_ended_pod(0, 20), a_disrupted_pod(1, "DeletionByTaintManager"), report=found(GANG_LOST), seconds=24
        ),
        verdict=Verdict.INFRA_FAILED, reason=Reason.NODE_LOST, words="on node node1 was lost",
        retry=Retry.CHARGED, blamed=("node1",),
    ),
    "disrupted": EndingRow(
        evidence=evidence(
            an_ended_pod(0, 20), a_disrupted_pod(1, "PreemptionByScheduler"), report=found(TERMINATED), seconds=24
        ),
        verdict=Verdict.INFRA_FAILED, reason=Reason.DISRUPTED, words="PreemptionByScheduler: said so",
        retry=Retry.CHARGED,
    ),
    "disrupted, and the leader never says anything": EndingRow(
        evidence=evidence(a_pod(0), a_disrupted_pod(1, "TerminationByKubelet"), seconds=36),
        verdict=Verdict.INFRA_FAILED, reason=Reason.DISRUPTED, words="TerminationByKubelet",
        retry=Retry.CHARGED,
    ),
    "disrupted, and only the Job still knows": EndingRow(
        evidence=evidence(
            an_ended_pod(0, 20), report=found(GANG_LOST),
            job=a_job(conditions={"FailureTarget": condition(
                reason="PodFailurePolicy", message="Pod gpu-ci/nightly-a1-1-abcde has condition DisruptionTarget",
            )}),
        ),
        verdict=Verdict.INFRA_FAILED, reason=Reason.DISRUPTED, words="nightly-a1-1-abcde has condition",
        retry=Retry.CHARGED,
    ),
    "disrupted, and all pods went before anybody looked": EndingRow(
        evidence=evidence(
            job=a_job(conditions={"Failed": condition(
                reason="PodFailurePolicy", message="Pod gpu-ci/nightly-a1-1-abcde has condition DisruptionTarget",
            )}),
        ),
        verdict=Verdict.INFRA_FAILED, reason=Reason.DISRUPTED, words="nightly-a1-1-abcde has condition",
        retry=Retry.CHARGED,
    ),
    "suspended in mid-run": EndingRow(
        evidence=evidence(a_pod(0, is_gone=True, ending_since=at(20)), job=a_job(is_suspended=True)),
        verdict=Verdict.INFRA_FAILED, reason=Reason.SUSPENDED, words="suspended while it was running",
        retry=Retry.FREE,
    ),
    "suspended by its user": EndingRow(
        evidence=evidence(a_pod(0), a_pod(1), test=a_test(spec=a_spec(suspend=True))),
        verdict=Verdict.INFRA_FAILED, reason=Reason.SUSPENDED, words="spec.suspend ended the attempt",
        retry=Retry.FREE,
    ),
    "cancelled": EndingRow(
        evidence=evidence(a_pod(0), a_pod(1), test=a_test(spec=a_spec(cancel=True))),
        verdict=Verdict.CANCELLED, reason=Reason.CANCELLED, words="spec.cancel ended the run",
    ),
    "cancelled when the result was in": EndingRow(
        evidence=evidence(*ENDED, report=found(a_report()), test=a_test(spec=a_spec(cancel=True))),
        verdict=Verdict.PASSED, reason=Reason.ALL_CASES_PASSED, words="2 cases passed",
    ),
    "Job's deadline": EndingRow(
        evidence=evidence(
            *(an_ended_pod(index, 20) for index in (0, 1)), report=found(TERMINATED),
            job=a_job(conditions={"Failed": condition(reason="DeadlineExceeded")}),
        ),
        verdict=Verdict.TIMED_OUT, reason=Reason.RUN_TIMEOUT, words="no operator was running",
    ),
}  # fmt: skip  # a row reads as a sentence
