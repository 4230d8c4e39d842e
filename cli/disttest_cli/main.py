"""`disttest`: the command line."""

import argparse
import sys

from disttest_cli import run_command
from disttest_cli.errors import UsageError

USAGE = 2  # as argparse has it


def main(arguments: list[str] | None = None) -> int:
    """Exit codes: those of an agent, and 2 for a command that makes no sense."""
    parser = argparse.ArgumentParser(prog="disttest", description="Run torch's distributed test suites and judge them.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    run_command.add_to(commands)
    options = parser.parse_args(arguments)
    try:
        return int(options.execute(options))
    except UsageError as error:
        print(f"disttest: {error}", file=sys.stderr)
        return USAGE
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        return 141


if __name__ == "__main__":
    sys.exit(main())
