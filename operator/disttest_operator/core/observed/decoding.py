"""Decoding of objects as the API server sends them into the views that the operator keeps."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from disttest_contract.gang import environment
from disttest_contract.gang.plan import InvalidPlanError, RunPlan
from disttest_contract.gang.quarantine import NOTHING, Lists
from disttest_contract.transport.termination_message import Summary
from disttest_operator.core.api import naming, scheduler
from disttest_operator.core.observed.objects import (
    Body,
    Condition,
    ConditionStatus,
    ContainerExit,
    EventView,
    JobView,
    NodeView,
    PodView,
)

YEARS = (1970, 9000)  # the upper end leaves room to add a deadline
EPOCH = datetime.fromtimestamp(0, UTC)
SKEW = timedelta(seconds=60)  # between a node's clock and the operator's; the grace of a run's deadline is as long
UNKNOWN_CODE = -1  # of a container without an exit code: it must not count as 0, which is success
INDEX_ANNOTATION = "batch.kubernetes.io/job-completion-index"
KNOWN: Mapping[str, ConditionStatus] = {"True": ConditionStatus.TRUE, "False": ConditionStatus.FALSE}


def job(body: Body) -> JobView:
    meta, spec, status = body["metadata"], body["spec"], body.get("status") or {}
    return JobView(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        resource_version=int(meta["resourceVersion"]),
        owner_uid=owner_uid(body),
        run=_owner(body).get("name", ""),
        created=_need_time(meta["creationTimestamp"]),
        started=time(status.get("startTime")),
        is_deleting="deletionTimestamp" in meta,
        is_suspended=scheduler.is_waiting(body),
        nonce=_variable(spec, environment.NONCE),
        quarantine=_quarantine(_variable(spec, environment.PLAN)),
        conditions=_conditions(status),
    )


def pod(body: Body, *, now: datetime, before: PodView | None = None, is_gone: bool = False) -> PodView | None:
    """None for a pod outside of gangs. `before` is the previous view: its run, attempt and index never change."""
    meta, spec, status = body["metadata"], body["spec"], body.get("status") or {}
    labels = meta.get("labels") or {}
    index = (meta.get("annotations") or {}).get(INDEX_ANNOTATION, labels.get(INDEX_ANNOTATION, ""))
    attempt = labels.get(naming.LABEL_ATTEMPT, "")
    if before is None and not (_is_number(index) and _is_number(attempt)):
        return None
    inject = _container(status, "initContainerStatuses", naming.INJECT_CONTAINER)
    container = _container(status, "containerStatuses", naming.CONTAINER)
    waiter = inject if _waiting(inject) else container
    waiting = _waiting(waiter)
    view = PodView(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        resource_version=int(meta["resourceVersion"]),
        run=before.run if before else labels.get(naming.LABEL_NAME, ""),
        run_uid=before.run_uid if before else labels.get(naming.LABEL_UID, ""),
        attempt=before.attempt if before else int(attempt),
        index=before.index if before else int(index),
        created=_need_time(meta["creationTimestamp"]),
        node=spec.get("nodeName") or "",
        phase=status.get("phase") or "Pending",
        reason=status.get("reason") or "",
        message=status.get("message") or "",
        is_deleting="deletionTimestamp" in meta,
        is_gone=is_gone,
        conditions=_conditions(status),
        started=_started(container),
        exit=_exit(container),
        injected=_exit(inject),
        waiting_image=waiter.get("image") or "",
        waiting_reason=waiting.get("reason") or "",
        waiting_message=waiting.get("message") or "",
    )
    return _with_memory(view, before, now)


def node(body: Body) -> NodeView:
    meta, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    return NodeView(
        name=meta["name"],
        labels=dict(meta.get("labels") or {}),
        allocatable=dict(status.get("allocatable") or {}),
        conditions={entry["type"]: _condition(entry) for entry in status.get("conditions") or ()},
        is_schedulable=not spec.get("unschedulable"),
    )


def event(body: Body) -> EventView:
    about = body.get("involvedObject") or {}
    return EventView(
        reason=body.get("reason") or "",
        message=body.get("message") or "",
        about=f"{about.get('kind', '')} {about.get('name', '')}".strip(),
    )


def owner_uid(body: Body) -> str:
    return str(_owner(body).get("uid", ""))


def _owner(body: Body) -> Body:
    owners: list[Body] = body["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), {})


def _with_memory(view: PodView, before: PodView | None, now: datetime) -> PodView:
    """Keep since when a pod waits or ends, and states of its containers that the newest event no longer has."""
    view = replace(view, started=_likely_start(view, now))
    waiting_since = now if view.waiting_reason else None
    ending_since = now if view.is_ending else None
    if before is None:
        return replace(view, waiting_since=waiting_since, ending_since=ending_since)
    if waiting_since and view.waits_as(before):
        waiting_since = before.waiting_since  # ErrImagePull and ImagePullBackOff alternate: one wait
    return replace(
        view,
        waiting_since=waiting_since,
        ending_since=before.ending_since or ending_since,
        exit=view.exit or before.exit,
        injected=view.injected or before.injected,
        started=before.started or view.started,
    )


def _likely_start(view: PodView, now: datetime) -> datetime | None:
    """The start of the container, from which deadlines count, or `now` if the node's clock is clearly wrong."""
    if view.started is None:
        return None
    scheduled = view.conditions.get("PodScheduled")
    earliest = max(view.created, (scheduled.since if scheduled else None) or view.created)
    is_likely = earliest - SKEW <= view.started <= now + SKEW
    return view.started if is_likely else max(now, view.created)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal()


def _need_time(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def _conditions(status: Body) -> dict[str, Condition]:
    """Without those whose status is Unknown."""
    entries: list[Body] = status.get("conditions") or []
    return {entry["type"]: _condition(entry) for entry in entries if entry["status"] in KNOWN}


def _condition(entry: Body) -> Condition:
    return Condition(
        reason=entry.get("reason") or "",
        message=entry.get("message") or "",
        status=KNOWN.get(entry["status"], ConditionStatus.UNKNOWN),
        since=time(entry.get("lastTransitionTime")),
    )


def _variable(spec: Body, name: str) -> str:
    """The value of an environment variable of the test container; empty if it is unset."""
    containers: list[Body] = spec["template"]["spec"]["containers"]
    env: list[Body] = next((c.get("env") or [] for c in containers if c["name"] == naming.CONTAINER), [])
    return next((str(entry.get("value", "")) for entry in env if entry["name"] == name), "")


def _quarantine(plan: str) -> Lists:
    """Empty if the plan is invalid. Plans without a quarantine are not parsed, since each event of a Job needs this."""
    if '"quarantine":[' not in plan:
        return NOTHING
    try:
        suites = RunPlan.from_json(plan).suites
    except InvalidPlanError:
        return NOTHING
    return {suite.name: suite.quarantine for suite in suites if suite.quarantine}


def _container(status: Body, kind: str, name: str) -> Body:
    statuses: list[Body] = status.get(kind) or []
    return next((entry for entry in statuses if entry["name"] == name), {})


def _waiting(container: Body) -> Body:
    waiting: Body = (container.get("state") or {}).get("waiting") or {}
    return waiting


def _started(container: Body) -> datetime | None:
    """None if it never started: containerd reports 1970 for a command that cannot be executed."""
    state = container.get("state") or {}
    if "running" in state:
        return time((state["running"] or {}).get("startedAt")) or EPOCH
    started = time((state.get("terminated") or {}).get("startedAt"))
    return started if started and started > EPOCH else None


def _exit(container: Body) -> ContainerExit | None:
    entry = (container.get("state") or {}).get("terminated")
    if not entry:
        return None
    message = entry.get("message") or ""
    summary = Summary.read(message)
    return ContainerExit(
        code=entry.get("exitCode", UNKNOWN_CODE),
        signal=entry.get("signal") or 0,
        reason=entry.get("reason") or "",
        message="" if summary else message,  # up to 4 KiB for each of thousands of pods
        at=time(entry.get("finishedAt")),
        summary=summary,
    )


def time(text: str | None) -> datetime | None:
    """Parse a time; None if it is missing, invalid or outside of YEARS: the API server accepts the years 0 and 9999."""
    try:
        moment = datetime.fromisoformat(text.upper()).astimezone(UTC) if text else None
    except (ValueError, OverflowError):
        return None
    return moment if moment and YEARS[0] <= moment.year < YEARS[1] else None
