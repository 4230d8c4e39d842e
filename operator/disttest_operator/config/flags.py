"""The table of flags: name, default, meaning, and how what people write is read."""

from dataclasses import dataclass

from disttest_operator.config import flag_values
from disttest_operator.config.flag_values import Read
from disttest_operator.core.api import schema, spec_schema
from disttest_operator.core.api.model import Timeouts
from disttest_operator.core.series import report_retention

PREFIX = "DISTTEST_OPERATOR_"
DEFAULT_RUNNER_IMAGE = "disttest-runner:latest"
DEFAULT_LEASE_NAMESPACE = "disttest-system"
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One row of the table. `default` is read as what people write is."""

    name: str
    default: str
    meaning: str
    read: Read
    value: str = "TEXT"  # what stands for it in --help
    default_words: str = ""  # where it is not the same everywhere

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper().replace("-", "_")

    @property
    def field(self) -> str:
        return self.name.replace("-", "_")


def _seconds(name: str, field: str, meaning: str) -> Flag:
    rule = spec_schema.TIMEOUTS.fields[field]
    if not isinstance(rule, schema.Whole):
        raise TypeError(field)
    default = getattr(Timeouts(), name.replace("-", "_"))
    return Flag(name=name, default=str(default), read=flag_values.by(rule), value="N", meaning=f"{meaning}, in seconds")


FLAGS = (
    Flag(
        name="runner-image",
        default=DEFAULT_RUNNER_IMAGE,
        read=flag_values.of_spec("image"),
        value="IMAGE",
        meaning="image of runs that name none; in runs with an image of their own it brings the runner",
    ),
    Flag(
        name="namespaces",
        default="",
        read=flag_values.namespaces,
        value="A,B",
        default_words="all",
        meaning="the only namespaces that are looked at",
    ),
    Flag(
        name="rules",
        default="",
        read=flag_values.rules,
        value="FILE",
        meaning="YAML file of rules of your own, read once at start",
    ),
    Flag(
        name="allow",
        default="",
        read=flag_values.allow,
        value="ITEM,ITEM",
        meaning="what DistTests may ask for beyond PodSecurity `restricted`, as `[NAMESPACE/]WHAT`: docs/security.md",
    ),
    _seconds("queue-seconds", "queueSeconds", "`timeouts.queueSeconds` of runs that leave it out"),
    _seconds("join-seconds", "joinSeconds", "`timeouts.joinSeconds` of runs that leave it out"),
    _seconds("case-seconds", "caseSeconds", "`timeouts.caseSeconds` of runs that leave it out"),
    _seconds("run-seconds", "runSeconds", "`timeouts.runSeconds` of runs that leave it out"),
    Flag(
        name="gpu-resource",
        default="nvidia.com/gpu",
        read=flag_values.of_spec("gpuResource"),
        value="NAME",
        meaning="resource of GPUs in runs that name none",
    ),
    Flag(
        name="fixed-nodes",
        default="false",
        read=flag_values.truth,
        meaning="no nodes will be added: too few GPUs end a run at once, not after its queueSeconds",
    ),
    Flag(
        name="image-patience-seconds",
        default="30",
        read=flag_values.whole(0, 86400),
        value="N",
        meaning="how long an image may fail to be pulled",
    ),
    Flag(
        name="gang-patience-seconds",
        default="600",
        read=flag_values.whole(1, 86400),
        value="N",
        meaning="how long a gang keeps half of its nodes while there are none for the rest; "
        "a twentieth of it while an older run waits in the same way",
    ),
    Flag(
        name="label-suspect-nodes",
        default="false",
        read=flag_values.truth,
        meaning="nodes that runs blame get the label `disttest.dev/suspect`, until a run passes there; "
        "needs `manifests/rbac/suspects`",
    ),
    Flag(
        name="series-idle-days",
        default="90",
        read=flag_values.whole(0, 3650),
        value="N",
        meaning="a DistTestSeries without runs and CronJob is deleted so many days after its last run; 0: never",
    ),
    Flag(
        name="kept-reports",
        default="10",
        read=flag_values.whole(0, report_retention.RUNS),
        value="N",
        meaning="so many reports of a series stay when their runs go, the newest; 0: reports go with their runs",
    ),
    Flag(
        name="workers",
        default="16",
        read=flag_values.whole(1, 256),
        value="N",
        meaning="how many runs are looked at at the same time",
    ),
    Flag(
        name="metrics-address",
        default=":8443",
        read=flag_values.address,
        value="HOST:PORT",
        meaning="where `/metrics` is served over HTTPS, to those who may read it: docs/monitoring.md",
    ),
    Flag(
        name="metrics-certificates",
        default="",
        read=flag_values.directory,
        value="DIR",
        default_words="self-signed",
        meaning="directory of `tls.crt` and `tls.key`, taken anew when they change; while there are none a self-signed "
        "certificate is shown",
    ),
    Flag(
        name="metrics-insecure",
        default="false",
        read=flag_values.truth,
        meaning="`/metrics` over plain HTTP, and nobody is asked who it is: on a loopback address only",
    ),
    Flag(
        name="health-address",
        default=":8081",
        read=flag_values.address,
        value="HOST:PORT",
        meaning="where `/healthz` and `/readyz` are served",
    ),
    Flag(
        name="lease-namespace",
        default="",
        read=flag_values.namespace,
        value="NAME",
        default_words=f"`POD_NAMESPACE`, else `{DEFAULT_LEASE_NAMESPACE}`",
        meaning="where the operators' Lease is",
    ),
    Flag(
        name="kubeconfig",
        default="",
        read=flag_values.plain,
        value="FILE",
        default_words="the pod's ServiceAccount",
        meaning="how to reach the cluster from outside",
    ),
    Flag(
        name="log-level",
        default="info",
        read=flag_values.one_of(*LEVELS),
        value="LEVEL",
        meaning=f"how much is logged: {', '.join(LEVELS)}",
    ),
    Flag(
        name="log-format",
        default="text",
        read=flag_values.one_of(*FORMATS),
        value="FORMAT",
        meaning="`text`, or `json`: one object a line with time, level, logger, message and exception",
    ),
)
