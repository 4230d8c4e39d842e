"""The pods of an attempt and their logs, as the API server has them."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from disttest_cli.errors import UsageError
from disttest_cli.kube import fields, resources, runs
from disttest_cli.kube.client import Body, BusyError, Cluster, LostError, RefusedError
from disttest_cli.kube.log_lines import Keep, LogOutput, chosen
from disttest_cli.kube.run_wait import PAUSE_SECONDS, Say, WaitClock
from disttest_operator.core.api import naming

OPTIONS = {"container": naming.CONTAINER}
STARTING = "waiting to start"  # in the API server's words about a container without a log
OVER = frozenset({"Succeeded", "Failed"})


@dataclass(frozen=True, slots=True, kw_only=True)
class PodGang:
    """Pods of one attempt, by node index."""

    run: str
    attempt: int
    pods: tuple[Body, ...]

    def pod(self, node: int) -> Body:
        """The newest of that index."""
        found = [pod for pod in self.pods if runs.node_index(pod) == node]
        if not found:
            there = ", ".join(str(runs.node_index(pod)) for pod in self.pods[:16])
            raise UsageError(
                f"attempt {self.attempt} of {self.run} has no pod of node index {node} any more; there: {there}"
            )
        return max(found, key=lambda pod: fields.text(fields.metadata(pod).get("creationTimestamp")))


def find(server: Cluster, body: Body, attempt: int | None) -> PodGang:
    """Of the attempt that is named; else of the newest that has pods, else of the one that the status speaks of."""
    status = fields.status(body)
    newest = fields.count(status.get("attempt"))
    if attempt and newest and attempt > newest:
        raise UsageError(f"{fields.name(body)} has no attempt {attempt}: {newest} is the newest")
    wanted = attempt or newest
    pods = runs.pods(server, body, wanted or None)
    number = wanted or max(map(runs.attempt_of, pods), default=1)
    gang = tuple(pod for pod in pods if runs.attempt_of(pod) == number)
    return PodGang(run=fields.name(body), attempt=number, pods=gang)


def wait_for(server: Cluster, body: Body, attempt: int | None, clock: WaitClock, say: Say) -> PodGang:
    """Until there are pods; a run that ends without any has none to follow."""
    is_told = False
    while True:
        gang = find(server, body, attempt)
        if gang.pods or fields.status(body).get("verdict"):
            return gang
        if not is_told:
            say(f"{gang.run} has no pods yet; waiting for them")
        is_told = True
        clock.sleep(PAUSE_SECONDS)
        namespace = fields.text(fields.metadata(body).get("namespace"))
        body = server.get(resources.RUNS, namespace, gang.run) or _deleted(gang.run)


def follow(server: Cluster, pod: Body, keep: Keep, tail: int | None, clock: WaitClock, output: LogOutput) -> None:
    """What is in the log, the last lines of it if `tail` says so, and what comes until the pod ends.

    A log only grows, so whoever has counted its lines can go on where a connection broke.
    """
    seen = 0
    if tail is not None:
        before = list(_log(server, pod, clock))
        seen = len(before)
        for line in chosen(before, keep, tail):
            output.line(line)
    while True:
        try:
            for number, line in enumerate(_log(server, pod, clock, follow=True)):
                if number >= seen:
                    seen += 1
                    if keep(line):
                        output.line(line)
        except (BusyError, LostError):
            pass
        if _is_over(server, pod):
            return
        clock.sleep(PAUSE_SECONDS)


@dataclass(slots=True)
class PodLogs:
    """Each log is asked for once, however many of its ranks are looked at."""

    server: Cluster
    _read: dict[str, list[bytes]] = field(default_factory=dict)

    def lines(self, pod: Body, keep: Keep, tail: int | None) -> Iterable[bytes]:
        name = fields.name(pod)
        if name not in self._read:
            self._read[name] = list(self.server.log(_namespace(pod), name, OPTIONS))
        return chosen(self._read[name], keep, tail)


def _log(server: Cluster, pod: Body, clock: WaitClock, *, follow: bool = False) -> Iterable[bytes]:
    """Waits for a container that is being made."""
    while True:
        try:
            yield from server.log(_namespace(pod), fields.name(pod), OPTIONS, follow=follow)
        except RefusedError as error:
            if STARTING not in str(error) or _is_over(server, pod):
                raise
        else:
            return
        clock.sleep(PAUSE_SECONDS)


def _is_over(server: Cluster, pod: Body) -> bool:
    """Also when it cannot be asked for: there is nothing to follow then."""
    there = server.get(resources.PODS, _namespace(pod), fields.name(pod))
    return there is None or fields.status(there).get("phase") in OVER


def _namespace(pod: Body) -> str:
    return fields.text(fields.metadata(pod).get("namespace"))


def _deleted(name: str) -> Body:
    raise UsageError(f"{name} was deleted before it had pods")
