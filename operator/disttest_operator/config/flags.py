"""The operator's options: each is a field, with the default, meaning and parser of its flag."""

import ipaddress
import re
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from disttest_operator.core.api import allowances, schema, spec_schema
from disttest_operator.core.api.allowances import Allowance
from disttest_operator.core.api.model import GPU_RESOURCE, Timeouts
from disttest_operator.core.hardware import user_rules
from disttest_operator.core.hardware.user_rules import UserRule
from disttest_operator.core.series import ledger

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
    """`field` is that of Options. `default` is parsed like a value of the user."""

    field: str
    meaning: str
    read: Read
    default: str = ""
    value: str = "TEXT"  # the placeholder in --help
    default_words: str = ""  # if it depends on the environment

    @property
    def name(self) -> str:
        return self.field.replace("_", "-")

    @property
    def variable(self) -> str:
        return PREFIX + self.field.upper()


def _by_rule(rule: schema.Rule) -> Read:
    """Checks with the rules and messages of a DistTest."""

    def read(text: str, source: str) -> object:
        value = int(text) if isinstance(rule, schema.Whole) and re.fullmatch(r"[0-9]{1,9}", text) else text
        for problem in schema.check(rule, value, source):
            raise ValueError(problem)
        return value

    return read


def _boolean(text: str, source: str) -> bool:
    if text.lower() not in BOOLEANS:
        raise ValueError(f"{source}: must be true or false, not {text!r}")
    return BOOLEANS[text.lower()]


def _address(text: str, source: str) -> str:
    found = ADDRESS.fullmatch(text)
    if not found or not 0 < int(found[1]) < 1 << 16:
        raise ValueError(f"{source}: write host:port or :port, not {text!r}")
    return text


def is_loopback(address: str) -> bool:
    """Whether only this machine or pod can connect to it."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _directory(text: str, source: str) -> str:
    if text and not Path(text).is_dir():
        raise ValueError(
            f"{source}: {text!r} is not a directory; write the path of a directory with tls.crt and tls.key"
        )
    return text


def _namespace(text: str, source: str) -> str:
    if not text:
        return text
    if len(text) > 63 or not schema.matches(schema.DNS_LABEL, text):
        raise ValueError(f"{source}: must be the name of a namespace: lower-case letters, digits and '-', not {text!r}")
    return text


def _namespaces(text: str, source: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text.strip() else ()
    if not all(_namespace(name, source) for name in names):
        raise ValueError(f"{source}: write names of namespaces, separated by commas, not {text!r}")
    if len(set(names)) < len(names) or len(names) > NAMESPACES:
        raise ValueError(
            f"{source}: write each namespace once, at most {NAMESPACES}; to watch all namespaces, omit the flag"
        )
    return names


def _allowances(text: str, source: str) -> tuple[Allowance, ...]:
    return tuple(allowances.parse(item.strip(), source) for item in text.split(",")) if text.strip() else ()


def _rules(text: str, source: str) -> tuple[UserRule, ...]:
    if not text:
        return ()
    try:
        return user_rules.parse(Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{source}: {text!r} cannot be read ({error.strerror}); write the path of a file") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{source}: {text!r} is not UTF-8 text; write the path of a YAML file") from error
    except user_rules.InvalidRulesError as error:
        raise ValueError(f"{source}: {text!r}: {error}") from error


def _one_of(*choices: str) -> Read:
    return _by_rule(schema.Text(max_length=max(map(len, choices)), choices=choices))


def _flag(meaning: str, **more: Any) -> Any:
    """An option with this flag."""
    return field(metadata={"meaning": meaning, **more})


def _number(meaning: str, default: int, *, minimum: int, maximum: int) -> Any:
    read = _by_rule(schema.Whole(minimum=minimum, maximum=maximum))
    return _flag(meaning, read=read, default=str(default), value="N")


def _switch(meaning: str) -> Any:
    return _flag(meaning, read=_boolean, default="false")


def _timeout(name: str, default: int) -> Any:
    rule = _by_rule(spec_schema.TIMEOUTS.fields[name])
    return _flag(f"Default of `timeouts.{name}`", read=rule, default=str(default), value="N")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    runner_image: str = _flag(
        "Default of `spec.image`, and the image from which the runner is copied if `spec.image` is set",
        read=_by_rule(spec_schema.SPEC.fields["image"]),
        default=DEFAULT_RUNNER_IMAGE,
        value="IMAGE",
    )
    namespaces: tuple[str, ...] = _flag("Namespaces to watch", read=_namespaces, value="A,B", default_words="all")
    rules: tuple[UserRule, ...] = _flag(
        "YAML file with failure rules, read once at start: docs/reference/rules.md", read=_rules, value="FILE"
    )
    allow: tuple[Allowance, ...] = _flag(
        "Privileges that DistTests can request beyond PodSecurity `restricted`, as `[NAMESPACE/]WHAT`: "
        "docs/operating/security.md",
        read=_allowances,
        value="ITEM,ITEM",
    )
    queue_seconds: int = _timeout("queueSeconds", Timeouts().queue_seconds)
    rendezvous_seconds: int = _timeout("rendezvousSeconds", Timeouts().rendezvous_seconds)
    case_seconds: int = _timeout("caseSeconds", Timeouts().case_seconds)
    run_seconds: int = _timeout("runSeconds", Timeouts().run_seconds)
    gpu_resource: str = _flag(
        "Default of `spec.gpuResource`",
        read=_by_rule(spec_schema.SPEC.fields["gpuResource"]),
        default=GPU_RESOURCE,
        value="NAME",
    )
    fixed_nodes: bool = _switch(
        "The cluster does not add nodes: with too few GPUs, a run ends at once instead of after `queueSeconds`"
    )
    image_pull_timeout_seconds: int = _number(
        "Time in seconds to retry a failed image pull", 30, minimum=0, maximum=86400
    )
    partial_gang_timeout_seconds: int = _number(
        "Time in seconds that a gang keeps its nodes while some of its pods have none. "
        "A twentieth of it while an older run waits in the same way",
        600,
        minimum=1,
        maximum=86400,
    )
    label_suspect_nodes: bool = _switch(
        "Label suspect nodes with `disttest.dev/suspect` until a run passes there. Requires `manifests/rbac/suspects`"
    )
    series_idle_days: int = _number(
        "Number of days after its last run until a DistTestSeries without runs and CronJob is deleted. 0: never",
        90,
        minimum=0,
        maximum=3650,
    )
    retained_reports: int = _number(
        "Number of reports of a series, the newest, to retain after their runs are deleted. 0: none",
        10,
        minimum=0,
        maximum=ledger.RUNS,
    )
    workers: int = _number("Maximum number of runs to reconcile at the same time", 16, minimum=1, maximum=256)
    metrics_address: str = _flag(
        "Address of `/metrics`, served over HTTPS to authorized scrapers: docs/operating/monitoring.md",
        read=_address,
        default=":8443",
        value="HOST:PORT",
    )
    metrics_certificates: str = _flag(
        "Directory with `tls.crt` and `tls.key`, reloaded when they change",
        read=_directory,
        value="DIR",
        default_words="self-signed",
    )
    metrics_insecure: bool = _switch(
        "Serve `/metrics` over plain HTTP and without authentication. Only on a loopback address"
    )
    health_address: str = _flag(
        "Address of `/healthz` and `/readyz`", read=_address, default=":8081", value="HOST:PORT"
    )
    lease_namespace: str = _flag(
        "Namespace of the Lease for leader election",
        read=_namespace,
        value="NAME",
        default_words=f"`POD_NAMESPACE`, else `{DEFAULT_LEASE_NAMESPACE}`",
    )
    kubeconfig: str = _flag(
        "Kubeconfig for an operator outside of the cluster",
        read=lambda text, _: text,
        value="FILE",
        default_words="the pod's ServiceAccount",
    )
    log_level: str = _flag(
        f"Minimum level of log messages: {', '.join(LEVELS)}", read=_one_of(*LEVELS), default="info", value="LEVEL"
    )
    log_format: str = _flag(
        "Format of the log: `text`, or `json` with one object per line",
        read=_one_of(*FORMATS),
        default="text",
        value="FORMAT",
    )

    @property
    def timeouts(self) -> Timeouts:
        return Timeouts(
            queue_seconds=self.queue_seconds,
            rendezvous_seconds=self.rendezvous_seconds,
            case_seconds=self.case_seconds,
            run_seconds=self.run_seconds,
        )


FLAGS = tuple(Flag(field=option.name, **option.metadata) for option in fields(Options))
