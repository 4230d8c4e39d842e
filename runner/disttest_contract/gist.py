"""What of a case's message says most. It begins with who; pytest marks the lines on what was wrong with an E."""

PYTEST_MARK = "E  "


def marked(message: str) -> list[str]:
    """What was wrong, by those lines; empty where pytest has marked none."""
    lines = message.splitlines()
    found = [line.removeprefix(PYTEST_MARK).strip() for line in lines if line.startswith(PYTEST_MARK)]
    return [line for line in found if line]


def who_and_what(message: str) -> str:
    """One line: `rank 3 on node-b: AssertionError: 1 != 2`. Where nothing is marked the last line says most."""
    lines = [line.strip() for line in message.splitlines() if line.strip()] or [""]
    first, rest = lines[0], [*marked(message)[:1], *lines[1:][-1:]]
    return f"{first} {rest[0]}" if first.endswith(":") and rest else first


def short(message: str) -> str:
    """Who, and all that was wrong, without the source around it; the whole message where nothing is marked."""
    lines, found = message.strip().splitlines(), marked(message)
    return "\n".join([*lines[:1], *found]) if found and not lines[0].startswith(PYTEST_MARK) else message
