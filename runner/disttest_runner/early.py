"""Signals before there is an agent. A pod may be told to end in its first second, and process 1 ignores the unheard."""

import signal

STOPS = (signal.SIGTERM, signal.SIGINT)
heard: list[int] = []  # since `listen`, until somebody else handles them


def listen() -> None:
    for number in STOPS:
        signal.signal(number, _hear)


def _hear(number: int, _frame: object) -> None:
    heard.append(number)
