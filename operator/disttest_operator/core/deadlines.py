"""By when a run that goes on must have moved on."""

from datetime import datetime, timedelta

from disttest_operator.core import attempts, bodies
from disttest_operator.core.model import DistTest


def of(test: DistTest, now: datetime, *, grace_seconds: float) -> datetime | None:
    """The end of its queue or of its run, whichever it is in; None while `spec.suspend` holds it."""
    timeouts = test.spec.timeouts
    if test.spec.suspend:
        return None
    if started := bodies.time(test.status.get("startTime")):
        seconds = timeouts.join_seconds + attempts.run_seconds_left(test) + grace_seconds
        return started + timedelta(seconds=seconds)
    return attempts.queued_since(test, now) + timedelta(seconds=timeouts.queue_seconds)
