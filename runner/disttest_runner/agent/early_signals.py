"""Signals that end an agent, kept until there is one.

A pod may be terminated in its first second, and process 1 ignores signals that it has no handler for.
"""

import signal

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
heard: list[int] = []  # since `listen`, until somebody else handles them


def listen() -> None:
    for number in STOPS:
        signal.signal(number, _hear)


def _hear(number: int, _frame: object) -> None:
    heard.append(number)
