"""`disttest apply`: the DistTest of a file, created on a cluster; with --wait until its verdict."""

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
from disttest_cli.kube import api_errors, run_wait, runs, stored
from disttest_cli.kube.api_errors import (
    AlreadyExistsError,
    ApiServerError,
    ForbiddenError,
    RequestRefusedError,
    ResponseLostError,
    ServerBusyError,
)
from disttest_cli.kube.client import Body, Cluster
from disttest_cli.kube.run_wait import PATIENCE_SECONDS, PAUSE_SECONDS, SignalReceived, WaitClock, WaitedRun
from disttest_cli.views import status_lines, terminal
from disttest_contract.text import escaping
from disttest_operator.core.api.resources import Kind

if TYPE_CHECKING:
    from disttest_cli.views import live
else:
    live = lazy.module("disttest_cli.views.live")

DENIED = re.compile(r"ValidatingAdmissionPolicy '([^']+)'(?: with binding '[^']+')? denied request: (.*)")


@click.command("apply")
@options.filename("YAML with one DistTest; - for standard input.")
@click.option("--wait", is_flag=True, help="Follow the run until it has a verdict.")
@click.option("--name", default=None, metavar="NAME", help="In place of the file's name or generateName.")
@options.on_cluster
@click.option(
    "--timeout",
    type=options.SECONDS,
    metavar="SECONDS",
    help="With --wait; default: what the run's own timeouts add up to, (1 + retries.infrastructure) x (queueSeconds + "
    "joinSeconds + 3 minutes) + runSeconds + a minute a retry.",
)
def command(
    *,
    filename: str,
    wait: bool,
    name: str | None,
    cluster: ClusterOptions,
    timeout: int | None,
) -> int:
    """Create the DistTest of a file and print its name; with --wait follow it to its verdict.

    At a terminal --wait shows the phase, who has joined, how far the run is and the case in flight at its foot, and
    failures above that as they come. Elsewhere it prints a line when the phase changes, one for each failure, and how
    far the run is every half a minute.

    In a pod this is done as the pod's ServiceAccount, elsewhere by a kubeconfig. A DistTest with a name that is there
    already, and was created from the same spec, is taken for this one.

    Exit code: 0 passed (without --wait: created), 10 tests failed, 20 infrastructure or cancelled, 30 configuration;
    2 wrong command or refused, 40 deleted before its verdict, 41 no verdict in time, 42 no API server; 130 and 143
    ended by SIGINT and SIGTERM, the run goes on.
    """
    if timeout and not wait:
        raise UsageError("--timeout is for --wait: add it, or leave --timeout away")
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
            _say(found.run.name)
            return 0
    except SignalReceived as error:
        what = _continues(found.run) if found else "before it was known whether the DistTest is there"
        raise CommandError(f"{signal.Signals(error.number).name}; {what}", errors.SIGNALLED + error.number) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatedRun:
    """A run that this command created, or an earlier one with the same spec."""

    run: WaitedRun
    body: Body
    is_new: bool


def create(server: Cluster, order: applying.Order, clock: WaitClock) -> CreatedRun:
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
                raise UsageError(f"{error}; the DistTest may exist: kubectl get dt -n {order.namespace}") from error
            last = error
        except RequestRefusedError as error:
            raise UsageError(f"{_refusal(str(error))}{_hint(error)}") from error
        if clock.now() + PAUSE_SECONDS > deadline:
            raise CommandError(str(last), ExitStatus.UNREACHABLE) from last
        if str(last) != reported:
            warn(f"{last}; trying again for {PATIENCE_SECONDS} s")
        reported = str(last)
        clock.sleep(PAUSE_SECONDS)


def _refusal(message: str) -> str:
    """The message of a ValidatingAdmissionPolicy, without the API server's words around it."""
    found = DENIED.search(message)
    return f"refused by the policy {found[1]}: {found[2]}" if found else message


def _hint(error: RequestRefusedError) -> str:
    """What to do about a refusal, unless its message has that."""
    if api_errors.UNKNOWN_KIND in str(error):
        return f"; {api_errors.INSTALL}"
    if "ValidatingAdmissionPolicy" in str(error):
        return ""  # messages of our policies have advice
    if "exceeded quota" in str(error):
        return "; delete DistTests that are no longer needed, or ask an administrator for a larger ResourceQuota"
    is_forbidden = isinstance(error, ForbiddenError) and "forbidden" in str(error)
    return f"; {api_errors.advice(error)}" if is_forbidden else ""


def _create_or_join(server: Cluster, order: applying.Order) -> CreatedRun:
    try:
        return _found(server.create(Kind.RUN, order.namespace, order.manifest), is_new=True)
    except AlreadyExistsError as error:
        if not order.name:
            raise ServerBusyError(str(error)) from error  # the generated name was taken
        body = server.get(Kind.RUN, order.namespace, order.name)
        if body is None:
            raise ServerBusyError(f"{order.name} is being deleted") from error
        if not applying.is_of(order, body):
            raise UsageError(
                f"DistTest {order.name} exists in {order.namespace} and was not created from this spec by `disttest "
                "apply`: choose another name, or delete it"
            ) from error
        return _found(body, is_new=False)


def _found(body: Body, *, is_new: bool) -> CreatedRun:
    metadata = body["metadata"]
    run = WaitedRun(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])
    return CreatedRun(run=run, body=body, is_new=is_new)


def _follow(server: Cluster, found: CreatedRun, timeout_seconds: int | None, clock: WaitClock) -> int:
    run = found.run
    metadata, spec = found.body["metadata"], found.body["spec"]
    seconds = timeout_seconds or applying.budget_seconds(spec)
    how = "created" if found.is_new else f"is there since {metadata['creationTimestamp']}, from the same spec"
    _say(f"{run.name}: {how}, in namespace {run.namespace}; waiting for its verdict, {seconds} s at most")
    try:
        status = _watch(server, found, seconds, clock)
    except run_wait.DeletedError as error:
        raise CommandError(f"{run.name} was deleted before it had a verdict", ExitStatus.DELETED) from error
    except run_wait.OverdueError as error:
        raise CommandError(f"no verdict within {seconds} s; {_continues(run)}", ExitStatus.GOES_ON) from error
    except RequestRefusedError as error:
        raise UsageError(f"{error}; {_continues(run)}") from error
    code = errors.of_verdict(status["verdict"])
    *lines, verdict = status_lines.ending(status)
    see = [f"see: disttest describe {run.name} -n {run.namespace}"] if code else []
    for line in (*lines, *see, verdict):
        _say(f"{run.name}: {line}")
    return code


def _watch(server: Cluster, found: CreatedRun, seconds: int, clock: WaitClock) -> dict[str, Any]:
    """Wait for the verdict with a live view on a terminal, else with lines."""
    run, out = found.run, terminal.console()
    if not live.fits(out):
        lines = status_lines.ProgressLines(say=lambda line: _say(f"{run.name}: {line}"), now=clock.now)
        return run_wait.wait(server, run, seconds=seconds, see=lines.see, warn=warn, clock=clock)
    suites = len(fields.rows(fields.spec(found.body).get("suites")))
    gang = live.GangShape(nodes=runs.nodes(found.body), ranks_per_node=runs.ranks_per_node(found.body), suites=suites)
    with live.LiveView(out, gang) as view:
        shown = status_lines.LiveProgress(view=view)
        return run_wait.wait(server, run, seconds=seconds, see=shown.see, warn=view.say, clock=clock)


def _continues(run: WaitedRun) -> str:
    return f"{run.name} goes on; follow it with: {stored.follow_with(run.namespace, run.name)}"


def _say(line: str) -> None:
    print(escaping.exact_line(line), flush=True)
