"""Entry point of `disttest` and `kubectl disttest`: subcommands, exit codes and errors."""

import difflib
import importlib
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from disttest_cli.errors import INTERRUPTED, PIPE_CLOSED, CommandError, NotInstalledError, UsageError, warn

PLUGIN = "kubectl-disttest"  # name by which kubectl finds plugins


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A subcommand, imported when it is called, since packages of other commands may not be installed."""

    help: str
    extra: str = "cli"  # of the distribution


COMMANDS = {
    "run": Command(extra="runner", help="Run suites, test files or DistTests on this machine, without a cluster."),
    "apply": Command(help="Create a DistTest from a file, and optionally wait for its verdict."),
    "list": Command(help="List DistTests, newest first."),
    "describe": Command(help="Show details of a DistTest: verdict, reason, failures, nodes and next steps."),
    "logs": Command(help="Print the logs of the pods of a DistTest, by rank, node or failure."),
    "report": Command(help="Show the report of a run as text, or convert it to HTML, JUnit and other formats."),
    "plan": Command(help="Print the Service and Job of a DistTest in a file, without a cluster."),
    "doctor": Command(help="Check whether a cluster is ready for DistTests."),
    "compare": Command(help="Show what changed between two runs."),
    "history": Command(help="Show the last runs of a series, and which cases fail or are flaky."),
    "explain": Command(help="Explain a verdict, outcome, reason, phase or condition."),
}


class Commands(click.Group):
    """Lists commands and their help without importing them."""

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
        """Exit as after SIGPIPE when the output is closed; click would exit with code 1."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes again at exit
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
    """Run torch's distributed tests on a GPU cluster, and show whether the code, a node or the queue is at fault."""


def main(arguments: list[str] | None = None) -> int:
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
        module = importlib.import_module(f"disttest_cli.commands.{name}")
    except ModuleNotFoundError as error:
        raise NotInstalledError(name, str(error.name).partition(".")[0], command.extra) from error
    loaded: click.Command = module.command
    return loaded


if __name__ == "__main__":
    sys.exit(main())
