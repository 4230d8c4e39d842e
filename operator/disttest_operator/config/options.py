"""Reads the options from flags, or from environment variables DISTTEST_OPERATOR_* of the same names."""

import argparse
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from disttest_operator.config.flags import DEFAULT_LEASE_NAMESPACE, FLAGS, PREFIX, Flag, Options, is_loopback
from disttest_operator.core.api.model import Timeouts

LINE_CHARACTERS = 100  # of prose in the documentation


def read(arguments: Sequence[str], environ: Mapping[str, str]) -> Options:
    """Read the options; a flag overrides its variable. An invalid value ends the program with a message."""
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


def markdown() -> str:
    """All flags with their defaults as a list, wrapped like prose."""
    items = (f"- `--{flag.name}` ({_default(flag)}): {flag.meaning}" for flag in FLAGS)
    lines = (
        textwrap.fill(one, LINE_CHARACTERS, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
        for one in items
    )
    return "\n".join(lines) + "\n"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="disttest_operator",
        description="Run the DistTests of a cluster.",
        epilog=f"Each flag has an environment variable, such as {PREFIX}RUNNER_IMAGE for --runner-image.",
        allow_abbrev=False,  # an abbreviation may become ambiguous with a new flag
    )
    for flag in FLAGS:
        words = f"{flag.meaning.replace('`', '')} (default: {_default(flag).replace('`', '')})"
        switch: dict[str, Any] = {"nargs": "?", "const": "true"} if flag.default in {"true", "false"} else {}
        parser.add_argument(f"--{flag.name}", metavar=flag.value, help=words, **switch)
    return parser


def _find(flag: Flag, argument: str | None, environ: Mapping[str, str]) -> tuple[str, str, bool]:
    """The text, its flag or variable, and whether it is set. An empty variable is unset, which manifests need."""
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
        raise ValueError(
            f"{source}: metrics and health have the same address {chosen.health_address}; change the port of one"
        )
    if chosen.metrics_insecure:
        _check_insecure(chosen, sources)
    given = {name: getattr(chosen, name) for name in ("case_seconds", "run_seconds") if name in sources}
    timeouts = Timeouts().override(given)
    if not timeouts.is_consistent:
        raise ValueError(
            f"{sources['case_seconds']}: must not exceed {sources['run_seconds']} ({chosen.run_seconds}), "
            f"but is {chosen.case_seconds}"
        )
    return replace(chosen, case_seconds=timeouts.case_seconds, run_seconds=timeouts.run_seconds)


def _check_insecure(chosen: Options, sources: Mapping[str, str]) -> None:
    source = sources["metrics_insecure"]
    if not is_loopback(chosen.metrics_address):
        raise ValueError(
            f"{source}: requires a loopback address, because scrapers are not authenticated; "
            f"write --metrics-address=127.0.0.1:8080, not {chosen.metrics_address!r}"
        )
    if chosen.metrics_certificates:
        raise ValueError(
            f"{sources['metrics_certificates']}: has no effect with {source}, because plain HTTP has no certificate; "
            "remove one of the two"
        )
