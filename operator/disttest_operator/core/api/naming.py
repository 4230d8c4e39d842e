"""Names, labels and addresses of a run's objects: computed from run and attempt, so that a restart finds them."""

from disttest_contract.gang import environment
from disttest_operator.core.api.model import ADHOC_SERIES, GROUP, DistTest

LABEL_NAME = f"{GROUP}/name"  # of the DistTest
LABEL_UID = f"{GROUP}/uid"  # of the DistTest: pods of a deleted run with the same name may still exist
LABEL_ATTEMPT = f"{GROUP}/attempt"
LABEL_SERIES = f"{GROUP}/series"
LABEL_SUSPECT = f"{GROUP}/suspect"  # of nodes, with the reason; only with --label-suspect-nodes
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
ANNOTATION_REPORT_SHA256 = f"{GROUP}/report-sha256"  # of the unpacked JSON

MANAGED_BY = "disttest-operator"
SELECTOR = f"{LABEL_MANAGED_BY}={MANAGED_BY},{LABEL_NAME}"  # Jobs and pods of DistTests
FIELD_MANAGER = MANAGED_BY

CONTAINER = "test"
INJECT_CONTAINER = "inject"  # copies the runner into an image without one
REPORT_KEY = "report.json.gz"  # in the report's ConfigMap
OWN_DIRECTORY = "/opt/disttest"
SUITES_DIRECTORY = f"{OWN_DIRECTORY}/suites"
RUNNER_DIRECTORY = f"{OWN_DIRECTORY}/runner"  # not below the suites: nothing can be mounted inside a read-only volume
ARTIFACTS_DIRECTORY = "/artifacts"


def job(test: DistTest, attempt: int) -> str:
    return f"{test.name}-a{attempt}"  # 52 + 3 characters: pods are <job>-<index>, and host names are DNS labels


def service(test: DistTest, attempt: int) -> str:
    """The headless Service of an attempt, the subdomain of its pods."""
    return job(test, attempt)


def leader_address(test: DistTest, attempt: int) -> str:
    """host:port of node index 0, without the cluster's domain, which need not be `cluster.local`."""
    host = f"{job(test, attempt)}-0.{service(test, attempt)}.{test.namespace}.svc"
    return f"{host}:{environment.LEADER_PORT}"


def report_config_map(test: DistTest) -> str:
    return f"{test.name}-report"


def spare_report_config_map(test: DistTest, name: str) -> str:
    """The name to use if `name` is taken, for example by the report of a deleted run with the same name."""
    return f"{name}-{test.uid[:8]}"


def attempt_report_config_map(test: DistTest) -> str:
    """The report of the current attempt, if another one follows."""
    return f"{test.name}-report-a{test.attempt}"


def series(test: DistTest) -> str:
    """The DistTestSeries of this run; runs without a series share one."""
    return test.spec.series or ADHOC_SERIES


def suite_directory(suite_name: str) -> str:
    """Mount path of the ConfigMap of a suite."""
    return f"{SUITES_DIRECTORY}/{suite_name}"


def labels(test: DistTest, attempt: int) -> dict[str, str]:
    """Labels of the objects of an attempt."""
    return run_labels(test) | {LABEL_ATTEMPT: str(attempt)}


def run_labels(test: DistTest) -> dict[str, str]:
    """Labels of the objects of the whole run."""
    return {
        LABEL_NAME: test.name,
        LABEL_UID: test.uid,
        LABEL_SERIES: series(test),
        LABEL_MANAGED_BY: MANAGED_BY,
    }
