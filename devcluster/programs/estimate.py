"""How long a step still takes, by what it has done so far. Standard library only: tools/bootstrap.py uses it too."""

LEAST_PART = 0.03  # earlier than this the rate says nothing


def left(done: float, total: float, seconds: float) -> str:
    """Return the end of a line, such as ", about 3 min left"; empty while there is too little progress."""
    if total <= 0 or not LEAST_PART * total <= done < total:
        return ""
    remaining = seconds * (total - done) / done
    if remaining < 100:
        return f", about {max(10, round(remaining, -1)):.0f} s left"
    return f", about {remaining / 60:.0f} min left"
