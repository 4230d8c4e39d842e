"""Names, labels and addresses: functions of run and attempt, so that whoever comes later finds the same objects."""

from disttest_contract.gang import environment
from disttest_operator.core.api.model import GROUP, DistTest
from disttest_operator.core.api.spec_schema import ADHOC_SERIES

LABEL_NAME = f"{GROUP}/name"  # of the DistTest
LABEL_UID = f"{GROUP}/uid"  # of the DistTest: a run of the same name that was deleted may have left pods
LABEL_ATTEMPT = f"{GROUP}/attempt"
LABEL_SERIES = f"{GROUP}/series"
LABEL_SUSPECT = f"{GROUP}/suspect"  # of nodes, with the reason; only where the operator is told to
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
LABEL_QUEUE = "kueue.x-k8s.io/queue-name"
ANNOTATION_REPORT_SHA256 = f"{GROUP}/report-sha256"  # of the unpacked JSON

MANAGED_BY = "disttest-operator"
SELECTOR = f"{LABEL_MANAGED_BY}={MANAGED_BY},{LABEL_NAME}"  # Jobs and pods that are ours
FIELD_MANAGER = MANAGED_BY

CONTAINER = "test"
INJECT_CONTAINER = "inject"  # copies the runner, where the test's image need not have it
REPORT_KEY = "report.json.gz"  # in the report's ConfigMap
OWN_DIRECTORY = "/opt/disttest"
SUITES_DIRECTORY = f"{OWN_DIRECTORY}/suites"
RUNNER_DIRECTORY = f"{OWN_DIRECTORY}/runner"  # beside the suites: nothing can be mounted inside a read-only volume
ARTIFACTS_DIRECTORY = "/artifacts"


def job(test: DistTest, attempt: int) -> str:
    return f"{test.name}-a{attempt}"  # 52 + 3 characters: pods are <job>-<index>, and host names are DNS labels


def service(test: DistTest, attempt: int) -> str:
    """The headless Service of an attempt: what the names of its pods hang below."""
    return job(test, attempt)


def leader_pod_prefix(test: DistTest, attempt: int) -> str:
    """The leader's pod name begins so; the Job controller appends five characters."""
    return f"{job(test, attempt)}-0-"


def leader_address(test: DistTest, attempt: int) -> str:
    """host:port of node index 0. Short of the cluster's domain, which is not `cluster.local` everywhere."""
    host = f"{job(test, attempt)}-0.{service(test, attempt)}.{test.namespace}.svc"
    return f"{host}:{environment.LEADER_PORT}"


def report_config_map(test: DistTest) -> str:
    return f"{test.name}-report"


def spare_report_config_map(test: DistTest, name: str) -> str:
    """Where `name` is taken, as by the report that a run of the same name has left to its series."""
    return f"{name}-{test.uid[:8]}"


def attempt_report_config_map(test: DistTest) -> str:
    """Of an attempt that is not the last."""
    return f"{test.name}-report-a{test.attempt}"


def series(test: DistTest) -> str:
    """The DistTestSeries that counts this run; runs without a series share one."""
    return test.spec.series or ADHOC_SERIES


def suite_directory(suite_name: str) -> str:
    """Where the files of a suite from a ConfigMap are in the pod."""
    return f"{SUITES_DIRECTORY}/{suite_name}"


def labels(test: DistTest, attempt: int) -> dict[str, str]:
    """A new dict each call."""
    return run_labels(test) | {LABEL_ATTEMPT: str(attempt)}


def run_labels(test: DistTest) -> dict[str, str]:
    """Of objects that belong to the run, not to one attempt. A new dict each call."""
    return {
        LABEL_NAME: test.name,
        LABEL_UID: test.uid,
        LABEL_SERIES: series(test),
        LABEL_MANAGED_BY: MANAGED_BY,
    }
