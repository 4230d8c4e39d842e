"""`disttest`, also as `kubectl disttest`: the command line."""

import difflib
import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from disttest_cli.errors import INTERRUPTED, PIPE_CLOSED, CommandError, NotInstalledError, UsageError, warn

PLUGIN = "kubectl-disttest"  # the program's name by which kubectl finds it


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """Its module is imported only when it is asked for: not every installation has what each of them needs."""

    module: str
    extra: str  # of the distribution, that brings what it needs
    help: str


COMMANDS = {
    "run": Command(
        module="run", extra="runner", help="Run suites, test files or DistTests on this machine, without a cluster."
    ),
    "apply": Command(
        module="apply", extra="cli", help="Create the DistTest of a file on a cluster, and follow it to its verdict."
    ),
    "list": Command(module="list", extra="cli", help="List the DistTests of a namespace, newest first."),
    "describe": Command(
        module="describe", extra="cli", help="Show on one screen what a DistTest came to: why, where, and what to do."
    ),
    "logs": Command(
        module="logs", extra="cli", help="Print what the pods of a DistTest wrote, by rank, node or blame."
    ),
    "report": Command(module="report", extra="cli", help="Show the report of a run, as text, HTML, JUnit and more."),
    "plan": Command(
        module="plan", extra="cli", help="Print the Service and Job that would be made of a file, without a cluster."
    ),
    "doctor": Command(module="doctor", extra="cli", help="Check whether a cluster is ready for DistTests."),
    "compare": Command(
        module="compare", extra="cli", help="Say what changed from one run to another, or from the last good night."
    ),
    "history": Command(
        module="history", extra="cli", help="Show the nights of a series, and which cases fail or flip."
    ),
}


class Commands(click.Group):
    """Knows what each command is for without importing it."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # type: ignore[explicit-override]  # noqa: ARG002
        return list(COMMANDS)

    def get_command(  # type: ignore[explicit-override]
        self, ctx: click.Context, cmd_name: str
    ) -> click.Command:
        if cmd_name in COMMANDS:
            return _load(cmd_name, COMMANDS[cmd_name])
        similar = difflib.get_close_matches(cmd_name, COMMANDS)
        hint = f"; did you mean {similar[0]!r}?" if similar else "."
        raise click.UsageError(f"No such command {cmd_name!r}{hint}", ctx)

    def invoke(self, ctx: click.Context) -> object:  # type: ignore[explicit-override]
        """Click would end the program itself when who reads the output has gone, with the code of a failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more at its end
            raise click.exceptions.Exit(PIPE_CLOSED) from error

    def format_commands(  # type: ignore[explicit-override]
        self,
        ctx: click.Context,  # noqa: ARG002
        formatter: click.HelpFormatter,
    ) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, command.help) for name, command in COMMANDS.items()])


@click.command(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="disttest", prog_name="disttest", message="%(prog)s %(version)s")
def commands() -> None:
    """Run torch's distributed test suites on a GPU cluster, and say whether it was the code, the node or the queue."""


def main(arguments: list[str] | None = None) -> int:
    """Exit codes: those of an agent, and those of `exits` for what is no verdict."""
    try:
        return _execute(sys.argv[1:] if arguments is None else arguments)
    except CommandError as error:
        warn(str(error))
        return error.code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED


def _execute(arguments: list[str]) -> int:
    try:
        return int(commands.main(arguments or ["--help"], prog_name=_program(), standalone_mode=False) or 0)
    except click.UsageError as error:
        where = error.ctx.command_path if error.ctx else _program()
        raise UsageError(f"{' '.join(error.format_message().split())} See `{where} --help`.") from error
    except click.ClickException as error:
        raise UsageError(error.format_message()) from error
    except click.exceptions.Exit as end:
        return end.exit_code


def _program() -> str:
    return "kubectl disttest" if Path(sys.argv[0]).name == PLUGIN else "disttest"


def _load(name: str, command: Command) -> click.Command:
    try:
        module = importlib.import_module(f"disttest_cli.commands.{command.module}")
    except ModuleNotFoundError as error:
        raise NotInstalledError(name, str(error.name).partition(".")[0], command.extra) from error
    loaded: click.Command = module.command
    return loaded


if __name__ == "__main__":
    sys.exit(main())
