"""From an event to one reconcile of one run: handlers, work queue, snapshot, status writer."""
