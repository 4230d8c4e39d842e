"""`disttest`: the command line."""

import argparse
import importlib
import sys
from dataclasses import dataclass
from types import ModuleType

from disttest_cli.errors import CommandError, UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Its module is imported only when it is asked for: not every installation has what each of them needs."""

    module: str
    extra: str  # of the distribution, that brings what it needs
    help: str


COMMANDS = {
    "run": Command(
        module="disttest_cli.run_command", extra="runner", help="run DistTests on this machine, without a cluster"
    ),
    "apply": Command(
        module="disttest_cli.apply_command",
        extra="cli",
        help="create the DistTest of a file on a cluster, and wait for its verdict",
    ),
}


def main(arguments: list[str] | None = None) -> int:
    """Exit codes: those of an agent, and those of `exits` for what is no verdict."""
    arguments = sys.argv[1:] if arguments is None else arguments
    try:
        options = _parser(arguments[:1]).parse_args(arguments)
        return int(options.execute(options))
    except CommandError as error:
        print(f"disttest: {error}", file=sys.stderr)
        return error.code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141


def _parser(asked_for: list[str]) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="disttest", description="Run torch's distributed test suites and judge them.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, command in COMMANDS.items():
        subparser = commands.add_parser(name, help=command.help)
        if name in asked_for:
            _module(name, command).configure(subparser)
    return parser


def _module(name: str, command: Command) -> ModuleType:
    try:
        return importlib.import_module(command.module)
    except ModuleNotFoundError as error:
        raise UsageError(
            f"`disttest {name}` needs the Python package {error.name!r}, which is not here: "
            f"install disttest[{command.extra}], or use the image that has it"
        ) from error


if __name__ == "__main__":
    sys.exit(main())
