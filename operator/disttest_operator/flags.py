"""The table of flags: name, default, meaning, and how what people write is read."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from disttest_operator.core import schema, spec_schema, user_rules
from disttest_operator.core.model import Timeouts
from disttest_operator.core.user_rules import UserRule

PREFIX = "DISTTEST_OPERATOR_"
DEFAULT_RUNNER_IMAGE = "disttest-runner:latest"
DEFAULT_LEASE_NAMESPACE = "disttest-system"
LEVELS = ("debug", "info", "warning", "error")
FORMATS = ("text", "json")
TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
NAMESPACES = 64  # each has four watches of its own
ADDRESS = re.compile(r"(?:[^\s:]*|\[[^\s\]]+\]):(\d{1,5})")

Read = Callable[[str, str], object]  # of a text, and who says so; raises ValueError with a sentence


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


def _by(rule: schema.Text | schema.Whole) -> Read:
    """By the same rules and sentences as a DistTest."""

    def read(text: str, source: str) -> object:
        value = int(text) if isinstance(rule, schema.Whole) and re.fullmatch(r"[0-9]{1,9}", text) else text
        for problem in schema.check(rule, value, source):
            raise ValueError(problem)
        return value

    return read


def _truth(text: str, source: str) -> bool:
    if text.lower() not in TRUTHS:
        raise ValueError(f"{source}: write true or false, not {text!r}")
    return TRUTHS[text.lower()]


def _address(text: str, source: str) -> str:
    found = ADDRESS.fullmatch(text)
    if not found or not 0 < int(found[1]) < 1 << 16:
        raise ValueError(f"{source}: write host:port or :port, not {text!r}")
    return text


def _namespace(text: str, source: str) -> str:
    if not text:
        return text
    if len(text) > 63 or not schema.matches(spec_schema.DNS_LABEL, text):
        raise ValueError(f"{source}: write the name of a namespace: lower-case letters, digits and '-', not {text!r}")
    return text


def _namespaces(text: str, source: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text.strip() else ()
    if not all(_namespace(name, source) for name in names):
        raise ValueError(f"{source}: write names of namespaces with single commas between, not {text!r}")
    if len(set(names)) < len(names) or len(names) > NAMESPACES:
        raise ValueError(f"{source}: write each namespace once, at most {NAMESPACES}; for more leave it out: all")
    return names


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


def _plain(text: str, _: str) -> str:
    return text


def _seconds(name: str, field: str, meaning: str) -> Flag:
    rule = spec_schema.TIMEOUTS.fields[field]
    if not isinstance(rule, schema.Whole):
        raise TypeError(field)
    default = getattr(Timeouts(), name.replace("-", "_"))
    return Flag(name=name, default=str(default), read=_by(rule), value="N", meaning=f"{meaning}, in seconds")


def _whole(minimum: int, maximum: int) -> Read:
    return _by(schema.Whole(minimum=minimum, maximum=maximum))


def _one_of(*choices: str) -> Read:
    return _by(schema.Text(max_length=max(map(len, choices)), choices=choices))


def _of_spec(field: str) -> Read:
    rule = spec_schema.SPEC.fields[field]
    if not isinstance(rule, schema.Text):
        raise TypeError(field)
    return _by(rule)


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
    Flag(
        name="fixed-nodes",
        default="false",
        read=_truth,
        meaning="no nodes will be added: too few GPUs end a run at once, not after its queueSeconds",
    ),
    Flag(
        name="image-patience-seconds",
        default="30",
        read=_whole(0, 86400),
        value="N",
        meaning="how long an image may fail to be pulled",
    ),
    Flag(
        name="gang-patience-seconds",
        default="600",
        read=_whole(1, 86400),
        value="N",
        meaning="how long a gang keeps half of its nodes while there are none for the rest; "
        "a twentieth of it while an older run waits in the same way",
    ),
    Flag(
        name="label-suspect-nodes",
        default="false",
        read=_truth,
        meaning="nodes that runs blame get the label `disttest.dev/suspect`, until a run passes there; "
        "needs `manifests/rbac/suspects`",
    ),
    Flag(
        name="workers",
        default="16",
        read=_whole(1, 256),
        value="N",
        meaning="how many runs are looked at at the same time",
    ),
    Flag(
        name="metrics-address",
        default=":8080",
        read=_address,
        value="HOST:PORT",
        meaning="where `/metrics` is served",
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
        read=_plain,
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
