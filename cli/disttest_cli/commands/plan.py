"""`disttest plan`: what the operator would create for the DistTests of a file, without a cluster."""

import sys
from collections.abc import Callable
from typing import Any

import click

from disttest_cli.commands import options
from disttest_cli.errors import UsageError
from disttest_cli.input import manifests
from disttest_cli.local import planning
from disttest_operator.config.flags import FLAGS
from disttest_operator.core.api.model import Defaults, Timeouts

TIMEOUTS = ("queue-seconds", "join-seconds", "case-seconds", "run-seconds")
OF_THE_OPERATOR = {flag.name: flag for flag in FLAGS if flag.name in {"runner-image", "gpu-resource", *TIMEOUTS}}


def as_the_operator(command: Callable[..., Any]) -> Callable[..., Any]:
    """The operator's flags for defaults of DistTests, as arguments of these names; None if unset."""
    for flag in reversed(OF_THE_OPERATOR.values()):
        words = f"As the operator has it: {flag.meaning.replace('`', '')}; default: {flag.default}."
        command = click.option(f"--{flag.name}", flag.field, metavar=flag.value, help=words)(command)
    return command


@click.command("plan")
@options.filename("YAML with DistTests, and ConfigMaps that they name; - for standard input.")
@click.option("-n", "--namespace", default="", metavar="NAMESPACE", help="Of documents that name none; else: default.")
@options.output("yaml", "json", default="yaml")
@as_the_operator
def command(*, filename: str, namespace: str, output: str, **flags: str | None) -> int:
    """Print the Service and the Job that the operator would create for each DistTest of a file.

    Nothing is asked of a cluster: what a DistTest leaves out is what the flags below say, which are the operator's.
    Names that the API server makes up end in `local`, the uid is all zeros and the nonce a placeholder, so the
    output is to be read, and can be checked with `kubectl apply --dry-run=server -f -`. A wrong DistTest is answered
    in the API server's words. A quarantine is taken from a ConfigMap in the same file.

    Exit code: 0; 2 wrong command, or a DistTest that would be refused.
    """
    documents = manifests.read(filename, defaults=_defaults(flags), namespace=namespace)
    plans = [planning.make(test, documents.config_maps) for test in documents.tests]
    sys.stdout.write(planning.as_json(plans) if output == "json" else planning.as_yaml(plans))
    return 0


def _defaults(given: dict[str, str | None]) -> Defaults:
    read: dict[str, Any] = {}
    for flag in OF_THE_OPERATOR.values():
        text = given.get(flag.field)
        try:
            read[flag.field] = flag.read(flag.default if text is None else text, f"--{flag.name}")
        except ValueError as error:
            raise UsageError(str(error)) from error
    names = [name.replace("-", "_") for name in TIMEOUTS]
    timeouts = Timeouts().override({name: read[name] for name in names if given.get(name) is not None})
    if not timeouts.is_consistent:
        raise UsageError(
            f"--case-seconds: a case cannot last longer than the run; write at most {timeouts.run_seconds}"
        )
    return Defaults(image=read["runner_image"], gpu_resource=read["gpu_resource"], timeouts=timeouts)
