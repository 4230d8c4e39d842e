"""A snapshot of one run: objects in the cache, and what this reconcile has read."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from disttest_operator.cache.cache import Cache
from disttest_operator.cache.cached_run import Key
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import Concurrency, DistTest
from disttest_operator.core.observed import attempts
from disttest_operator.core.observed.evidence import Evidence, Observed, Policy, ProgressSeen
from disttest_operator.core.series import ledger


@dataclass(slots=True, kw_only=True)
class SnapshotBuilder:
    """`newest` returns the last progress of a running run."""

    caches: Cache
    policy: Policy
    clock: Callable[[], datetime]
    newest: Callable[[Key], ProgressSeen | None]

    def build(self, key: Key, seen: Observed) -> Evidence | None:
        """None: the run does not exist."""
        run = self.caches.run(key.namespace, key.name)
        if run is None:
            return None
        test = run.test
        series = self.caches.find_series(test.namespace, naming.series(test))
        known = ledger.find_entry(series.status, test.uid) if series else None
        jobs = self.caches.jobs(test)
        test = attempts.with_lost_records(test, jobs.values())
        current = jobs.pop(naming.job(test, test.attempt), None)
        seen = replace(
            seen,
            problems=run.problems,
            job=current or seen.job,
            leftovers=tuple(jobs.values()),
            older_run=self._older_run(test),
            pods=self.caches.pods(test),
            entry=seen.entry or known,
            progress=self.newest(key),
        )
        evidence = Evidence(test=test, seen=seen, policy=self.policy, now=self.clock())
        return replace(evidence, seen=replace(seen, has_older_rival=self._has_older_rival(evidence)))

    def _older_run(self, test: DistTest) -> str:
        """The name of the oldest open run of the series, if the run has to wait for it."""
        if test.spec.concurrency_policy is not Concurrency.WAIT or test.is_finished or test.has_begun:
            return ""
        first = self.caches.open_runs_of(test.namespace, naming.series(test))[0].test
        return "" if first.uid == test.uid else first.name

    def _has_older_rival(self, evidence: Evidence) -> bool:
        """Whether an older run waits with half a gang too."""
        if evidence.half_since is None:
            return False
        created = (evidence.test.created, evidence.test.uid)
        return any(
            (other.test.created, other.test.uid) < created and self._has_half_a_gang(other.test)
            for other in self.caches.open_runs()
        )

    def _has_half_a_gang(self, test: DistTest) -> bool:
        """Whether some pods of the run's attempt have nodes while the scheduler finds none for others."""
        waiting = [pod for pod in self.caches.pods(test) if pod.attempt == test.attempt and not pod.has_ended]
        return any(pod.is_scheduled for pod in waiting) and any(pod.is_unschedulable for pod in waiting)
