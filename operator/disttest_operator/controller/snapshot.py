"""One look at a run: what caches hold of it now, together with what was asked for."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime

from disttest_operator.cache.cache import Cache, Key
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import Concurrency, DistTest
from disttest_operator.core.observed import attempts
from disttest_operator.core.observed.evidence import Evidence, Observed, Policy, ProgressSeen
from disttest_operator.core.series import ledger


class Snapshots:
    """`newest` gives what the log of a run that goes on said last."""

    def __init__(
        self,
        caches: Cache,
        policy: Policy,
        *,
        clock: Callable[[], datetime],
        newest: Callable[[Key], ProgressSeen | None],
    ) -> None:
        self._caches = caches
        self._policy = policy
        self._clock = clock
        self._newest = newest

    def at(self, key: Key, seen: Observed) -> Evidence | None:
        """None: there is no such run."""
        run = self._caches.run(key.namespace, key.name)
        if run is None:
            return None
        test = run.test
        series = self._caches.find_series(test.namespace, naming.series(test))
        known = ledger.find_entry(series.status, test.uid) if series else None
        jobs = self._caches.jobs(test)
        test = attempts.with_lost_records(test, jobs.values())
        mine = jobs.pop(naming.job(test, test.attempt), None)
        seen = replace(
            seen,
            problems=run.problems,
            job=mine or seen.job,
            leftovers=tuple(jobs.values()),
            older_run=self._older_run(test),
            pods=self._caches.pods(test),
            entry=seen.entry or known,
            progress=self._newest(key),
        )
        evidence = Evidence(test=test, seen=seen, policy=self._policy, now=self._clock())
        return replace(evidence, seen=replace(seen, has_older_rival=self._has_older_rival(evidence)))

    def _older_run(self, test: DistTest) -> str:
        """The first of its series, if the run is to wait for that, and may."""
        if test.spec.concurrency_policy is not Concurrency.WAIT or test.is_finished or test.has_begun:
            return ""
        first = self._caches.open_runs(test.namespace, naming.series(test))[0].test
        return "" if first.uid == test.uid else first.name

    def _has_older_rival(self, evidence: Evidence) -> bool:
        """Whether one of our runs that came first waits with half a gang as well."""
        if evidence.half_since is None:
            return False
        mine = (evidence.test.created, evidence.test.uid)
        return any(
            (other.created, other.uid) < mine and self._caches.has_half_a_gang(other)
            for other in self._caches.all_open()
        )
