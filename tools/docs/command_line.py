"""docs/reference/cli.md: every command with its options, from the parser. Pure, except that it imports the commands."""

import inspect
from collections.abc import Collection, Iterator

import click

from disttest_cli import errors
from disttest_cli.main import COMMANDS, commands
from tools.docs import bullets, wrapped

HEAD = """# Command line

`disttest` runs, watches and evaluates DistTests. It is also a kubectl plugin: `kubectl disttest
list` is the same as `disttest list`. `disttest run` needs the extra `disttest[runner]`, the other
commands need `disttest[cli]`.

`NO_COLOR=1` disables colors. To enable completion in bash, run
`eval "$(_DISTTEST_COMPLETE=bash_source disttest)"`; for zsh use `zsh_source`, for fish
`fish_source` and `| source`.

<!-- generated -->
"""
EXIT_CODES = """## Exit codes

The help of each command (`--help`) lists its exit codes."""
ON_CLUSTER = """## Cluster options

All commands except {} have these options."""
SHARED = frozenset({"namespace", "context", "kubeconfig"})  # options of all commands that use a cluster

VERBATIM = "\b"  # click's mark of a paragraph
ONLY_IN_HELP = ("Exit codes: ", "\b\nSuites:")  # first words of paragraphs that other parts of the docs contain


def page() -> str:
    context = click.Context(commands, info_name="disttest", help_option_names=["-h", "--help"])
    loaded = {name: commands.get_command(context, name) for name in COMMANDS}
    local = [f"`{name}`" for name, command in loaded.items() if not _names(command) >= SHARED]
    blocks = [
        HEAD.rstrip(),
        "## Commands",
        bullets((f"[`{name}`](#disttest-{name})", command.help) for name, command in COMMANDS.items()),
        EXIT_CODES,
        bullets((f"{int(code)}", meaning) for code, meaning in errors.MEANINGS.items()),
        ON_CLUSTER.format(f"{', '.join(local[:-1])} and {local[-1]}"),
        _options(loaded["list"], context, SHARED),
        *(block for name, command in loaded.items() for block in _command(name, command, context)),
    ]
    return "\n\n".join(blocks) + "\n"


def _command(name: str, command: click.Command, parent: click.Context) -> Iterator[str]:
    context = click.Context(command, info_name=name, parent=parent)
    yield f"## disttest {name}"
    if arguments := [one.make_metavar(context) for one in command.params if isinstance(one, click.Argument)]:
        yield f"```\n{context.command_path} [OPTIONS] {' '.join(arguments)}\n```"
    for text in (command.help, command.epilog):
        yield from _paragraphs(inspect.cleandoc(text or ""))
    names = _names(command)
    own = names - SHARED if names >= SHARED else names
    if any(isinstance(one, click.Option) for one in command.params if one.name in own):
        yield _options(command, context, own)


def _names(command: click.Command) -> set[str]:
    return {parameter.name or "" for parameter in command.params}


def _options(command: click.Command, context: click.Context, names: Collection[str]) -> str:
    chosen = (parameter for parameter in command.params if parameter.name in names)
    records = (parameter.get_help_record(context) or ("", "") for parameter in chosen)
    return bullets((f"`{option}`", " ".join(meaning.split())) for option, meaning in records if meaning)


def _paragraphs(text: str) -> Iterator[str]:
    """Paragraphs of a help text; those that click does not wrap are examples."""
    for paragraph in text.split("\n\n"):
        if paragraph.startswith(ONLY_IN_HELP):
            continue
        if paragraph.startswith(VERBATIM):
            example = paragraph.removeprefix(VERBATIM).strip("\n")
            yield f"```\n{example}\n```"
        elif paragraph:
            yield wrapped(paragraph)
