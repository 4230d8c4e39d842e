"""The operator's options: flags, or environment variables DISTTEST_OPERATOR_* of the same names.

`python -m disttest_operator.config.options` prints the table of docs/configuration.md.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from disttest_operator.config.flags import DEFAULT_LEASE_NAMESPACE, FLAGS, PREFIX, Flag, is_loopback
from disttest_operator.core.api.allowances import Allowance
from disttest_operator.core.api.model import Timeouts
from disttest_operator.core.hardware.user_rules import UserRule


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    runner_image: str
    namespaces: tuple[str, ...]
    rules: tuple[UserRule, ...]
    allow: tuple[Allowance, ...]
    queue_seconds: int
    join_seconds: int
    case_seconds: int
    run_seconds: int
    gpu_resource: str
    fixed_nodes: bool
    image_patience_seconds: int
    gang_patience_seconds: int
    label_suspect_nodes: bool
    series_idle_days: int
    kept_reports: int
    workers: int
    metrics_address: str
    metrics_certificates: str
    metrics_insecure: bool
    health_address: str
    lease_namespace: str
    kubeconfig: str
    log_level: str
    log_format: str

    @property
    def timeouts(self) -> Timeouts:
        return Timeouts(
            queue_seconds=self.queue_seconds,
            join_seconds=self.join_seconds,
            case_seconds=self.case_seconds,
            run_seconds=self.run_seconds,
        )


def read(arguments: Sequence[str], environ: Mapping[str, str]) -> Options:
    """Read options; a flag overrides its variable. An invalid value ends the program with a message."""
    parser = _parser()
    given = vars(parser.parse_args(arguments))
    values: dict[str, Any] = {}
    sources = {}  # of values that are not defaults
    for flag in FLAGS:
        text, source, is_given = _find(flag, given[flag.field], environ)
        if is_given:
            sources[flag.field] = source
        try:
            values[flag.field] = flag.read(text, source)
        except ValueError as error:
            parser.error(str(error))
    values["lease_namespace"] = values["lease_namespace"] or environ.get("POD_NAMESPACE") or DEFAULT_LEASE_NAMESPACE
    try:
        return _resolve(Options(**values), sources)
    except ValueError as error:
        parser.error(str(error))


def table() -> str:
    """All flags as a Markdown table."""
    rows = ["| flag | variable | default | meaning |", "|---|---|---|---|"]
    rows += [f"| `--{flag.name}` | `{flag.variable}` | {_default(flag)} | {flag.meaning} |" for flag in FLAGS]
    return "\n".join(rows) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="disttest_operator",
        description="Runs DistTests of a cluster.",
        epilog=f"Each flag has a variable: --runner-image is {PREFIX}RUNNER_IMAGE.",
        allow_abbrev=False,  # an abbreviation may become ambiguous with a new flag
    )
    for flag in FLAGS:
        words = f"{flag.meaning.replace('`', '')} (default: {_default(flag).replace('`', '')})"
        switch: dict[str, Any] = {"nargs": "?", "const": "true"} if flag.default in {"true", "false"} else {}
        parser.add_argument(f"--{flag.name}", metavar=flag.value, help=words, **switch)
    return parser


def _find(flag: Flag, argument: str | None, environ: Mapping[str, str]) -> tuple[str, str, bool]:
    """The text, its flag or variable, and whether it is given. An empty variable counts as unset, for manifests."""
    if argument is not None:
        return argument, f"--{flag.name}", True
    if text := environ.get(flag.variable):
        return text, flag.variable, True
    return flag.default, f"--{flag.name}", False


def _default(flag: Flag) -> str:
    return flag.default_words or (f"`{flag.default}`" if flag.default else "none")


def _resolve(chosen: Options, sources: Mapping[str, str]) -> Options:
    """Resolve contradictions by changing a default. Raises ValueError if both values are given."""
    if chosen.metrics_address == chosen.health_address:
        source = sources.get("health_address") or sources["metrics_address"]
        raise ValueError(f"{source}: {chosen.health_address} serves metrics and health, write another port for one")
    if chosen.metrics_insecure:
        _check_insecure(chosen, sources)
    given = {name: getattr(chosen, name) for name in ("case_seconds", "run_seconds") if name in sources}
    timeouts = Timeouts().override(given)
    if not timeouts.is_consistent:
        raise ValueError(
            f"{sources['case_seconds']}: a case cannot last longer than the run; "
            f"write at most the {chosen.run_seconds} of {sources['run_seconds']}, not {chosen.case_seconds}"
        )
    return replace(chosen, case_seconds=timeouts.case_seconds, run_seconds=timeouts.run_seconds)


def _check_insecure(chosen: Options, sources: Mapping[str, str]) -> None:
    source = sources["metrics_insecure"]
    if not is_loopback(chosen.metrics_address):
        raise ValueError(
            f"{source}: nobody would be asked who scrapes; write a loopback address like 127.0.0.1:8080 "
            f"for --metrics-address, not {chosen.metrics_address!r}"
        )
    if chosen.metrics_certificates:
        raise ValueError(
            f"{sources['metrics_certificates']}: plain HTTP shows no certificate, write one of it and {source}"
        )


if __name__ == "__main__":
    sys.stdout.write(table())
