"""docs/cli.md: every command with its options, from the parser. Pure, but for importing the commands."""

import inspect
from collections.abc import Iterator

import click

from disttest_cli import errors
from disttest_cli.main import COMMANDS, commands

HEAD = """# The command line

Made from the parser by `python -m tools.docs`. `disttest` is also found by kubectl: `kubectl disttest list` is
`disttest list`. Install `disttest[cli]` for what talks to a cluster, `disttest[runner]` for `disttest run`.

`disttest --version` says which it is. Colours are for terminals only; `NO_COLOR=1` turns them off. What is wrong is
said in one line on standard error.
Completion: `eval "$(_DISTTEST_COMPLETE=bash_source disttest)"`, also with `zsh_source`; fish: `fish_source | source`.
"""

AS_IT_IS = "\b"  # click's mark of a paragraph


def page() -> str:
    context = click.Context(commands, info_name="disttest", help_option_names=["-h", "--help"])
    lines = [HEAD, *_exits(), *_contents()]
    for name in COMMANDS:
        command = commands.get_command(context, name)
        lines += _command(name, command, context)
    return "\n".join(lines).rstrip() + "\n"


def _exits() -> Iterator[str]:
    yield "## Exit codes"
    yield ""
    yield "| code | meaning |"
    yield "|---|---|"
    for code, meaning in errors.MEANINGS.items():
        yield f"| {int(code)} | {meaning} |"
    yield ""


def _contents() -> Iterator[str]:
    yield "## Commands"
    yield ""
    yield "| command | what it does | extra |"
    yield "|---|---|---|"
    for name, command in COMMANDS.items():
        yield f"| [`{name}`](#disttest-{name}) | {command.help} | `{command.extra}` |"
    yield ""


def _command(name: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield f"## disttest {name}"
    yield ""
    yield "```"
    yield f"{context.command_path} {' '.join(command.collect_usage_pieces(context))}"
    yield "```"
    yield ""
    for text in (command.help, command.epilog):
        yield from _paragraphs(inspect.cleandoc(text or ""))
    yield "| option | meaning |"
    yield "|---|---|"
    for parameter in command.get_params(context):
        option, meaning = parameter.get_help_record(context) or ("", "")
        if meaning:
            yield f"| `{_cell(option)}` | {_cell(meaning)} |"
    yield ""


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs of a help text; those that click does not wrap are examples."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(AS_IT_IS):
            yield from ("```", *paragraph.removeprefix(AS_IT_IS).strip("\n").splitlines(), "```", "")
        elif paragraph:
            yield from (" ".join(paragraph.split()), "")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
