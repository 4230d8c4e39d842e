"""Imported before all else: a pod may be told to end in its first second, and process 1 ignores what nobody handles."""

import signal

STOPS = (signal.SIGTERM, signal.SIGINT)
heard: list[int] = []  # signals that came before the agent could act on them


def _hear(number: int, _frame: object) -> None:
    heard.append(number)


for _number in STOPS:
    signal.signal(_number, _hear)
