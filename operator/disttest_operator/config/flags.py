"""The table of flags: name, default, meaning, and how a value is parsed."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from disttest_operator.core.api import allowances, schema, spec_schema
from disttest_operator.core.api.allowances import Allowance
from disttest_operator.core.api.model import Timeouts
from disttest_operator.core.hardware import user_rules
from disttest_operator.core.hardware.user_rules import UserRule
from disttest_operator.core.series import report_retention

PREFIX = "DISTTEST_OPERATOR_"
DEFAULT_RUNNER_IMAGE = "disttest-runner:latest"
DEFAULT_LEASE_NAMESPACE = "disttest-system"
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
BOOLEANS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
NAMESPACES = 64  # each has five watches
ADDRESS = re.compile(r"(?:[^\s:]*|\[[^\s\]]+\]):(\d{1,5})")

Read = Callable[[str, str], object]  # of a text and the name of its flag or variable; raises ValueError for users


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """One row of the table. `default` is parsed like a user's value."""

    name: str
    default: str
    meaning: str
    read: Read
    value: str = "TEXT"  # the placeholder in --help
    default_words: str = ""  # if it depends on the environment

    @property
    def variable(self) -> str:
        return PREFIX + self.name.upper().replace("-", "_")

    @property
    def field(self) -> str:
        return self.name.replace("-", "_")


def _by_rule(rule: schema.Text | schema.Whole) -> Read:
    """Checks with the rules and messages of a DistTest."""

    def read(text: str, source: str) -> object:
        value = int(text) if isinstance(rule, schema.Whole) and re.fullmatch(r"[0-9]{1,9}", text) else text
        for problem in schema.check(rule, value, source):
            raise ValueError(problem)
        return value

    return read


def _boolean(text: str, source: str) -> bool:
    if text.lower() not in BOOLEANS:
        raise ValueError(f"{source}: write true or false, not {text!r}")
    return BOOLEANS[text.lower()]


def _address(text: str, source: str) -> str:
    found = ADDRESS.fullmatch(text)
    if not found or not 0 < int(found[1]) < 1 << 16:
        raise ValueError(f"{source}: write host:port or :port, not {text!r}")
    return text


def is_loopback(address: str) -> bool:
    """Whether only this machine or pod can reach it."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _directory(text: str, source: str) -> str:
    if text and not Path(text).is_dir():
        raise ValueError(f"{source}: {text!r} is no directory, write the path of one that holds tls.crt and tls.key")
    return text


def _namespace(text: str, source: str) -> str:
    if not text:
        return text
    if len(text) > 63 or not schema.matches(schema.DNS_LABEL, text):
        raise ValueError(f"{source}: write the name of a namespace: lower-case letters, digits and '-', not {text!r}")
    return text


def _namespaces(text: str, source: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text.strip() else ()
    if not all(_namespace(name, source) for name in names):
        raise ValueError(f"{source}: write names of namespaces with single commas between, not {text!r}")
    if len(set(names)) < len(names) or len(names) > NAMESPACES:
        raise ValueError(f"{source}: write each namespace once, at most {NAMESPACES}; for more leave it out: all")
    return names


def _allowances(text: str, source: str) -> tuple[Allowance, ...]:
    return tuple(allowances.parse(item.strip(), source) for item in text.split(",")) if text.strip() else ()


def _rules(text: str, source: str) -> tuple[UserRule, ...]:
    if not text:
        return ()
    try:
        return user_rules.parse(Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{source}: {text!r} cannot be read ({error.strerror}), write the path of a file") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{source}: {text!r} is not UTF-8 text, write the path of a YAML file") from error
    except user_rules.InvalidRulesError as error:
        raise ValueError(f"{source}: {text!r}: {error}") from error


def _one_of(*choices: str) -> Read:
    return _by_rule(schema.Text(max_length=max(map(len, choices)), choices=choices))


def _of_spec(field: str) -> Read:
    rule = spec_schema.SPEC.fields[field]
    if not isinstance(rule, schema.Text):
        raise TypeError(field)
    return _by_rule(rule)


def _number(name: str, default: int, *, minimum: int, maximum: int, meaning: str) -> Flag:
    read = _by_rule(schema.Whole(minimum=minimum, maximum=maximum))
    return Flag(name=name, default=str(default), read=read, value="N", meaning=meaning)


def _switch(name: str, meaning: str) -> Flag:
    return Flag(name=name, default="false", read=_boolean, meaning=meaning)


def _seconds(name: str, field: str, meaning: str) -> Flag:
    rule = spec_schema.TIMEOUTS.fields[field]
    if not isinstance(rule, schema.Whole):
        raise TypeError(field)
    default = getattr(Timeouts(), name.replace("-", "_"))
    return Flag(name=name, default=str(default), read=_by_rule(rule), value="N", meaning=f"{meaning}, in seconds")


FLAGS = (
    Flag(
        name="runner-image",
        default=DEFAULT_RUNNER_IMAGE,
        read=_of_spec("image"),
        value="IMAGE",
        meaning="image of runs that name none; in runs with an image of their own it brings the runner",
    ),
    Flag(
        name="namespaces",
        default="",
        read=_namespaces,
        value="A,B",
        default_words="all",
        meaning="the only namespaces that are looked at",
    ),
    Flag(
        name="rules",
        default="",
        read=_rules,
        value="FILE",
        meaning="YAML file of rules of your own, read once at start",
    ),
    Flag(
        name="allow",
        default="",
        read=_allowances,
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
        read=_of_spec("gpuResource"),
        value="NAME",
        meaning="resource of GPUs in runs that name none",
    ),
    _switch("fixed-nodes", "no nodes will be added: too few GPUs end a run at once, not after its queueSeconds"),
    _number("image-patience-seconds", 30, minimum=0, maximum=86400, meaning="how long an image may fail to be pulled"),
    _number(
        "gang-patience-seconds",
        600,
        minimum=1,
        maximum=86400,
        meaning="how long a gang keeps half of its nodes while there are none for the rest; "
        "a twentieth of it while an older run waits in the same way",
    ),
    _switch(
        "label-suspect-nodes",
        "nodes that runs blame get the label `disttest.dev/suspect`, until a run passes there; "
        "needs `manifests/rbac/suspects`",
    ),
    _number(
        "series-idle-days",
        90,
        minimum=0,
        maximum=3650,
        meaning="a DistTestSeries without runs and CronJob is deleted so many days after its last run; 0: never",
    ),
    _number(
        "kept-reports",
        10,
        minimum=0,
        maximum=report_retention.RUNS,
        meaning="so many reports of a series stay when their runs go, the newest; 0: reports go with their runs",
    ),
    _number("workers", 16, minimum=1, maximum=256, meaning="how many runs are looked at at the same time"),
    Flag(
        name="metrics-address",
        default=":8443",
        read=_address,
        value="HOST:PORT",
        meaning="where `/metrics` is served over HTTPS, to those who may read it: docs/monitoring.md",
    ),
    Flag(
        name="metrics-certificates",
        default="",
        read=_directory,
        value="DIR",
        default_words="self-signed",
        meaning="directory of `tls.crt` and `tls.key`, taken anew when they change; while there are none a self-signed "
        "certificate is shown",
    ),
    _switch(
        "metrics-insecure", "`/metrics` over plain HTTP, and nobody is asked who it is: on a loopback address only"
    ),
    Flag(
        name="health-address",
        default=":8081",
        read=_address,
        value="HOST:PORT",
        meaning="where `/healthz` and `/readyz` are served",
    ),
    Flag(
        name="lease-namespace",
        default="",
        read=_namespace,
        value="NAME",
        default_words=f"`POD_NAMESPACE`, else `{DEFAULT_LEASE_NAMESPACE}`",
        meaning="where the operators' Lease is",
    ),
    Flag(
        name="kubeconfig",
        default="",
        read=lambda text, _: text,
        value="FILE",
        default_words="the pod's ServiceAccount",
        meaning="how to reach the cluster from outside",
    ),
    Flag(
        name="log-level",
        default="info",
        read=_one_of(*LEVELS),
        value="LEVEL",
        meaning=f"how much is logged: {', '.join(LEVELS)}",
    ),
    Flag(
        name="log-format",
        default="text",
        read=_one_of(*FORMATS),
        value="FORMAT",
        meaning="`text`, or `json`: one object a line with time, level, logger, message and exception",
    ),
)
