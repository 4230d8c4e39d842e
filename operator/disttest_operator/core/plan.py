"""The next step for a run, from the evidence: it is carried out, then the run is observed and planned again."""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from disttest_contract.gang.quarantine import NOTHING
from disttest_contract.outcomes import Verdict
from disttest_operator.core import actions
from disttest_operator.core.actions import Done, Step
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import Spec
from disttest_operator.core.observed import attempts, decoding
from disttest_operator.core.observed.evidence import Evidence, LogUnreadable, Reference, ReportFound
from disttest_operator.core.series import ledger, run_results
from disttest_operator.core.status import attempt_record, progress, status
from disttest_operator.core.verdict import capacity, classify, refuse
from disttest_operator.core.verdict.rule import Ending, Retry
from disttest_operator.core.workload.job import build_service

LOG_RETRY_SECONDS = 1.0
SOON_SECONDS = 0.05  # after a deadline, so that it has certainly passed
MAX_AVOIDED_IF_POSSIBLE = 64
UNWATCHED_SECONDS = 5.0  # between reads of a pod for which no events arrive
MAX_REQUEUE_SECONDS = 3600.0  # clocks may jump
MAX_START_CHECK_SECONDS = 60.0  # between checks of a gang that does not start
VOLUME_CLAIM = "spec.template.spec.volumes[].persistentVolumeClaim.claimName"


def next_step(evidence: Evidence) -> Step:
    """A finished run stays finished, and nothing is created for a run that is being deleted."""
    test, seen = evidence.test, evidence.seen
    if test.is_deleting:
        return Done()
    if seen.entry and not test.is_finished:
        return _conclude(status.terminal(seen.entry), is_report_kept=seen.is_report_kept)
    for job in seen.leftovers:
        if not job.is_deleting:
            return actions.DeleteJob(name=job.name, uid=job.uid)
    if test.is_finished:
        return _after_the_end(evidence)
    if seen.job is None and not seen.is_job_gone and not evidence.has_leader_ended:
        return _start(evidence)
    return _observe_gang(evidence) or _judge(evidence)


def _conclude(last: Mapping[str, Any], *, is_report_kept: bool) -> Step:
    """Users may delete the run as soon as it has a verdict, so the series owns the report before that."""
    if last.get("report") and not is_report_kept:
        return actions.KeepReport()
    return actions.WriteStatus(status=last)


def _start(evidence: Evidence) -> Step:
    """Find errors before a gang occupies nodes."""
    test, seen = evidence.test, evidence.seen
    if ending := refuse(evidence):
        return _end(evidence, ending)
    if test.has_begun:
        return actions.ReadJob(name=naming.job(test, test.attempt))
    if test.spec.suspend or seen.older_run or _delayed_until(evidence):
        return _judge(evidence)
    return _observe_before_creation(evidence) or _create(evidence)


def _observe_before_creation(evidence: Evidence) -> Step | None:
    """Read what decides whether and where a gang is created."""
    test, seen = evidence.test, evidence.seen
    references = _references(test.spec)
    if references and seen.missing is None:
        return actions.ReadReferences(references=references)
    if test.spec.quarantine.config_map and seen.quarantine is None:
        return actions.ReadQuarantine()
    needs_nodes = (evidence.policy.fixed_nodes and test.spec.gpus_per_node) or attempts.suspects(test)
    if needs_nodes and seen.nodes is None:
        return actions.ReadNodes()
    return None


def _create(evidence: Evidence) -> Step:
    test, seen, suspects = evidence.test, evidence.seen, attempts.suspects(evidence.test)
    if not seen.has_service:
        return actions.CreateService(manifest=build_service(test, test.attempt))
    # If too few nodes are left, the next attempt uses the same ones.
    can_avoid = bool(seen.nodes) and capacity.suffices_without(test, seen.nodes or (), frozenset(suspects))
    avoid = suspects if can_avoid else ()
    avoid_if_possible = tuple(node for node in (*suspects, *attempts.nodes_used(test)) if node not in avoid)
    return actions.CreateJob(
        attempt=test.attempt,
        quarantine=seen.quarantine.lists if seen.quarantine else NOTHING,
        avoid=avoid,
        avoid_if_possible=tuple(dict.fromkeys(avoid_if_possible))[:MAX_AVOIDED_IF_POSSIBLE],
    )


def _delayed_until(evidence: Evidence) -> datetime | None:
    """Wait while pods of the previous attempt are ending, or after the nodes of half a gang were released."""
    test, policy = evidence.test, evidence.policy
    moments = [attempts.not_before(test)]
    if evidence.departing and test.records:
        ended = decoding.time(test.records[-1].get("completionTime"))
        moments.append(_after(ended, policy.parting_seconds))
    return max((moment for moment in moments if moment and moment > evidence.now), default=None)


def _references(spec: Spec) -> tuple[Reference, ...]:
    """Objects without which pods would wait forever, without an event."""
    files = sorted({suite.config_map for suite in spec.suites})
    named = (
        *(("ConfigMap", name, "spec.suites[].configMap.name") for name in files),
        ("ConfigMap", spec.quarantine.config_map, "spec.quarantine.configMap.name"),
        ("ServiceAccount", spec.template.service_account_name, "spec.template.spec.serviceAccountName"),
        ("PersistentVolumeClaim", spec.artifacts.persistent_volume_claim, "spec.artifacts.persistentVolumeClaim"),
        *(("PersistentVolumeClaim", claim["claimName"], VOLUME_CLAIM) for claim in spec.template.claims),
    )
    return tuple(Reference(kind=kind, name=name, path=path) for kind, name, path in named if name)


def _observe_gang(evidence: Evidence) -> Step | None:
    """Read what the rules need and the caches do not have."""
    seen, leader = evidence.seen, evidence.leader
    if evidence.has_strays and not seen.has_listed_pods and seen.job:
        return actions.ReadPods(job_uid=seen.job.uid)
    if leader and leader.has_ended and seen.report is None:
        nonce, quarantine = (seen.job.nonce, seen.job.quarantine) if seen.job else ("", NOTHING)
        return actions.ReadReport(leader=leader, nonce=nonce, quarantine=quarantine)
    if evidence.has_whole_gang or evidence.has_leader_ended or seen.job is None or seen.job.is_suspended:
        return None
    is_waiting = not all(pod.is_scheduled for pod in evidence.pods) or not evidence.pods
    if evidence.test.spec.gpus_per_node and is_waiting and seen.nodes is None:
        return actions.ReadNodes()
    is_stuck = evidence.has_passed(seen.job.started or seen.job.created, evidence.policy.stuck_seconds)
    if is_stuck and seen.events is None:
        stuck = tuple(pod.uid for pod in evidence.pods if not pod.has_started)[:1]
        return actions.ReadEvents(uids=(seen.job.uid, *stuck))
    return None


def _judge(evidence: Evidence) -> Step:
    ending = classify(evidence)
    if ending and evidence.seen.search is None and _may_be_hardware(evidence, ending):
        return actions.SearchHardware(pods=evidence.pods)
    if ending:
        return _end(evidence, attempt_record.reconsider(evidence, ending))
    wanted = status.unfinished(evidence)
    if any(evidence.test.status.get(key) != value for key, value in wanted.items()):
        return actions.WriteStatus(status=wanted)
    if new_progress := progress.due(evidence):
        return actions.WriteProgress(progress=new_progress)
    return Done(requeue_seconds=_requeue_seconds(evidence))


def _may_be_hardware(evidence: Evidence, ending: Ending) -> bool:
    """Only a failure of a gang that ran: suspended or released gangs did not fail, and a pass stays a pass."""
    is_failure = ending.verdict not in {Verdict.PASSED, Verdict.CANCELLED} and ending.retry is not Retry.FREE
    return is_failure and any(pod.has_started for pod in evidence.pods)


def _end(evidence: Evidence, ending: Ending) -> Step:
    """Store the report, then either start another attempt or add the run to the ledger.

    The terminal status is written from the ledger's entry.
    """
    test, is_retried = evidence.test, ending.retry is not Retry.NEVER
    if isinstance(evidence.report, ReportFound) and evidence.seen.stored is None:
        name = naming.attempt_report_config_map(test) if is_retried else naming.report_config_map(test)
        return actions.WriteReport(name=name)
    if is_retried:
        return actions.WriteStatus(status=status.between_attempts(evidence, ending), ends_attempt=True)
    last = status.finished(evidence, ending)
    entry = ledger.make_entry(uid=test.uid, name=test.name, status=last, before=test.status)
    return actions.Fold(series=naming.series(test), entry=entry, results=run_results.of(evidence, last))


def _after_the_end(evidence: Evidence) -> Step:
    """Release nodes, leave finished pods for `kubectl logs`, and delete the run when its time to live is over."""
    test, job = evidence.test, evidence.seen.job
    completed = decoding.time(test.status.get("completionTime")) or test.created
    waits = []
    still_there = any(not pod.has_ended for pod in evidence.all_pods) or len(evidence.pods) < test.spec.nodes
    if job is None and not evidence.seen.is_job_gone and any(not pod.has_ended for pod in evidence.all_pods):
        return actions.ReadJob(name=naming.job(test, test.attempt))
    if job and not evidence.seen.is_job_gone and not job.has_ended and not job.is_deleting and still_there:
        linger = evidence.policy.linger_seconds if evidence.has_leader_ended else 0
        if evidence.has_passed(completed, linger) or completed > evidence.now:  # a clock has jumped
            return actions.DeleteJob(name=job.name, uid=job.uid)
        waits.append(completed + timedelta(seconds=linger))
    if test.spec.ttl_seconds_after_finished is not None:
        expires = completed + timedelta(seconds=test.spec.ttl_seconds_after_finished)
        if evidence.now >= expires:
            return actions.DeleteRun()
        waits.append(expires)
    if not waits:
        return Done()
    return Done(requeue_seconds=(min(waits) - evidence.now).total_seconds() + SOON_SECONDS)


def _requeue_seconds(evidence: Evidence) -> float | None:
    """Seconds until the next moment at which the passing of time alone changes the next step."""
    seen, policy, now = evidence.seen, evidence.policy, evidence.now
    moments = [
        None if evidence.has_whole_gang or evidence.test.spec.suspend else evidence.queue_deadline,
        _delayed_until(evidence) if seen.job is None else None,
        _after(evidence.half_since, policy.rival_patience_seconds),
        _after(evidence.half_since, policy.partial_gang_timeout_seconds),
        evidence.run_deadline,
        _after(evidence.leader_end, policy.settle_seconds),
        _after(evidence.first_loss, policy.leader_patience_seconds),
        progress.due_at(evidence),
        *_moments_of_pods(evidence),
    ]
    if isinstance(seen.report, LogUnreadable):
        moments.append(now + timedelta(seconds=LOG_RETRY_SECONDS))
    if seen.job and not evidence.has_whole_gang and not seen.job.is_suspended:
        age_seconds = (now - (seen.job.started or seen.job.created)).total_seconds()
        pause_seconds = min(max(age_seconds, policy.stuck_seconds), MAX_START_CHECK_SECONDS)
        moments.append(now + timedelta(seconds=pause_seconds))
    ahead = [(moment - now).total_seconds() for moment in moments if moment and moment > now]
    return min(*ahead, MAX_REQUEUE_SECONDS) + SOON_SECONDS if ahead else None


def _moments_of_pods(evidence: Evidence) -> Iterator[datetime | None]:
    policy = evidence.policy
    for pod in evidence.pods:
        if not pod.has_started:
            yield _after(pod.waiting_since, policy.config_patience_seconds)
            yield _after(pod.waiting_since, policy.image_pull_timeout_seconds)
        if pod.is_unwatched:
            yield _after(evidence.now, UNWATCHED_SECONDS)


def _after(moment: datetime | None, seconds: float) -> datetime | None:
    return moment + timedelta(seconds=seconds) if moment else None
