import re
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from disttest_cli import errors, fields, lazy
from disttest_cli.commands import options
from disttest_cli.commands.options import ClusterOptions
from disttest_cli.errors import CommandError, ExitStatus, UsageError, warn
from disttest_cli.input import applying, manifests
from disttest_cli.kube import error_advice, run_wait, runs, stored
from disttest_cli.kube.client import Body, KubeClient
from disttest_cli.kube.run_wait import PATIENCE_SECONDS, PAUSE_SECONDS, SignalReceived, WaitClock, WaitedRun
from disttest_cli.views import status_lines, terminal
from disttest_operator.core.api.api_errors import (
    AlreadyExistsError,
    ApiServerError,
    ForbiddenError,
    NotFoundError,
    RequestRefusedError,
    ResponseLostError,
    ServerBusyError,
)
from disttest_operator.core.api.resources import Kind

if TYPE_CHECKING:
    from disttest_cli.views import live
else:
    live = lazy.module("disttest_cli.views.live")

DENIED = re.compile(r"ValidatingAdmissionPolicy '([^']+)'(?: with binding '[^']+')? denied request: (.*)")


@click.command("apply")
@options.filename("YAML file with one DistTest; - is standard input.")
@click.option("--wait", is_flag=True, help="Wait for the verdict.")
@click.option("--name", default=None, metavar="NAME", help="Name of the DistTest, instead of the name in the file.")
@options.on_cluster
@click.option(
    "--timeout",
    type=options.SECONDS,
    metavar="SECONDS",
    help="Seconds to wait with --wait. Default: (1 + retries.infrastructure) x (queueSeconds + rendezvousSeconds + "
    "180) + runSeconds + 60 per retry.",
)
def command(
    *,
    filename: str,
    wait: bool,
    name: str | None,
    cluster: ClusterOptions,
    timeout: int | None,
) -> int:
    """Create the DistTest of a file and print its name.

    If a DistTest with this name exists and was created from the same spec, it is used. --wait shows progress and
    failures until the verdict.

    Exit codes: 0 passed (without --wait: created), 10 tests failed, 20 infrastructure failure or cancelled, 30
    configuration error, 2 usage error or rejected, 40 deleted, 41 timeout, 42 API server busy. After SIGINT (130) and
    SIGTERM (143), the run continues.
    """
    if timeout and not wait:
        raise UsageError("--timeout requires --wait. Add --wait, or remove --timeout.")
    manifest = applying.read(manifests.load(filename), filename)
    manifests.parse_test(manifest, f"{filename}, document 1")  # same messages as `plan` and `run`
    server = cluster.server
    order = applying.order(manifest, name=name, namespace=cluster.given_namespace, default_namespace=server.namespace)
    found = None
    try:
        with run_wait.raise_on_signals():
            found = create(server, order, WaitClock())
            if wait:
                return _follow(server, found, timeout, WaitClock())
            terminal.say(found.run.name)
            return 0
    except SignalReceived as error:
        what = _continues(found.run) if found else "the DistTest may exist"
        raise CommandError(
            f"interrupted by {signal.Signals(error.number).name}; {what}", errors.SIGNALLED + error.number
        ) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedRun:
    """A run that this command created, or an earlier one with the same spec."""

    body: Body
    is_new: bool

    @property
    def run(self) -> WaitedRun:
        metadata = self.body["metadata"]
        return WaitedRun(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])


def create(server: KubeClient, order: applying.Order, clock: WaitClock) -> CreatedRun:
    """Create the run; retry only if that cannot create a second one. Raises CommandError."""
    deadline = clock.now() + PATIENCE_SECONDS
    reported = ""
    while True:
        try:
            return _create_or_join(server, order)
        except ServerBusyError as error:
            last: ApiServerError = error
        except ResponseLostError as error:
            if not order.name:
                raise UsageError(
                    f"{error}. The DistTest may exist; check with `kubectl get dt -n {order.namespace}`."
                ) from error
            last = error
        except RequestRefusedError as error:
            raise UsageError(f"{_refusal(str(error))}{_hint(error)}") from error
        if clock.now() + PAUSE_SECONDS > deadline:
            raise CommandError(str(last), ExitStatus.UNREACHABLE) from last
        if str(last) != reported:
            warn(f"{last}; retrying for {PATIENCE_SECONDS} s")
        reported = str(last)
        clock.sleep(PAUSE_SECONDS)


def _refusal(message: str) -> str:
    """The message of a ValidatingAdmissionPolicy, without the text that the API server adds to it."""
    found = DENIED.search(message)
    return f"rejected by the policy {found[1]}: {found[2]}" if found else message


def _hint(error: RequestRefusedError) -> str:
    """The next step after a refusal, unless its message contains it."""
    if isinstance(error, NotFoundError) and not error.name:
        return f". {error_advice.INSTALL}"
    if "ValidatingAdmissionPolicy" in str(error):
        return ""  # messages of our policies have advice
    if "exceeded quota" in str(error):
        return ". Delete DistTests that are no longer needed, or ask an administrator for a larger ResourceQuota."
    is_forbidden = isinstance(error, ForbiddenError) and "forbidden" in str(error)
    return f". {error_advice.of(error)}" if is_forbidden else ""


def _create_or_join(server: KubeClient, order: applying.Order) -> CreatedRun:
    try:
        return CreatedRun(body=server.create(Kind.RUN, order.namespace, order.manifest), is_new=True)
    except AlreadyExistsError as error:
        if not order.name:
            raise ServerBusyError(str(error)) from error  # the generated name was taken
        body = server.get(Kind.RUN, order.namespace, order.name)
        if body is None:
            raise ServerBusyError(f"{order.name} is being deleted") from error
        if not applying.is_of(order, body):
            raise UsageError(
                f"DistTest {order.name} exists in namespace {order.namespace} and was created from another spec. "
                "Use another name, or delete it."
            ) from error
        return CreatedRun(body=body, is_new=False)


def _follow(server: KubeClient, found: CreatedRun, timeout_seconds: int | None, clock: WaitClock) -> int:
    run = found.run
    metadata, spec = found.body["metadata"], found.body["spec"]
    seconds = timeout_seconds or applying.budget_seconds(spec)
    how = "created" if found.is_new else f"exists since {metadata['creationTimestamp']} with the same spec"
    terminal.say(f"{run.name}: {how} in namespace {run.namespace}; waiting up to {seconds} s for its verdict")
    try:
        status = _watch(server, found, seconds, clock)
    except run_wait.DeletedError as error:
        raise CommandError(f"{run.name} was deleted before its verdict", ExitStatus.DELETED) from error
    except run_wait.OverdueError as error:
        raise CommandError(f"no verdict within {seconds} s; {_continues(run)}", ExitStatus.CONTINUES) from error
    except RequestRefusedError as error:
        raise UsageError(f"{error}; {_continues(run)}") from error
    code = errors.of_verdict(status["verdict"])
    *lines, verdict = status_lines.ending(status)
    see = [f"for details, run: disttest describe {run.name} -n {run.namespace}"] if code else []
    for line in (*lines, *see, verdict):
        terminal.say(f"{run.name}: {line}")
    return code


def _watch(server: KubeClient, found: CreatedRun, seconds: int, clock: WaitClock) -> dict[str, Any]:
    """Wait for the verdict; show progress as a live view on a terminal, otherwise as lines."""
    run, out = found.run, terminal.console()
    if not live.fits(out):
        lines = status_lines.ProgressLines(say=lambda line: terminal.say(f"{run.name}: {line}"), now=clock.now)
        return run_wait.wait(server, run, seconds=seconds, see=lines.see, warn=warn, clock=clock)
    suites = len(fields.rows(fields.spec(found.body).get("suites")))
    gang = live.GangShape(nodes=runs.nodes(found.body), ranks_per_node=runs.ranks_per_node(found.body), suites=suites)
    with live.LiveView(out, gang) as view:
        shown = status_lines.LiveProgress(view=view)
        return run_wait.wait(server, run, seconds=seconds, see=shown.see, warn=view.say, clock=clock)


def _continues(run: WaitedRun) -> str:
    return f"{run.name} continues. To wait for it, run: {stored.follow_with(run.namespace, run.name)}"
