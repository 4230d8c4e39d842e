"""Records the signals that end an agent until the agent handles them.

A pod may be terminated in its first second, and process 1 ignores signals that it has no handler for.
"""

import signal

STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)
received: list[int] = []  # since `listen`


def listen() -> None:
    for number in STOPS:
        signal.signal(number, _record)


def _record(number: int, _frame: object) -> None:
    received.append(number)
