"""Bytes and speeds for people: sizes in powers of 1024, speeds in powers of 1000, as nccl-tests has them."""

BYTES = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
BYTES_PER_SECOND = ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"))
DIGITS = (1, 3, 6)  # behind the point


def show_bytes(count: int) -> str:
    """1 GiB, 512 KiB, 1000 B: in the largest unit that is exact."""
    for size, unit in BYTES:
        if count and count % size == 0:
            return f"{count // size} {unit}"
    return f"{count} B"


def show_speeds(one: float, other: float) -> tuple[str, str]:
    """380.0 GB/s and 400.0 GB/s: with as many digits as it takes to tell them apart, if six do."""
    for digits in DIGITS:
        shown = _speed(one, digits), _speed(other, digits)
        if shown[0] != shown[1]:
            break
    return shown


def show_speed(bytes_per_second: float) -> str:
    """400.0 GB/s."""
    return _speed(bytes_per_second, DIGITS[0])


def _speed(bytes_per_second: float, digits: int) -> str:
    size, unit = next(((size, unit) for size, unit in BYTES_PER_SECOND if bytes_per_second >= size), (1.0, "B/s"))
    return f"{bytes_per_second / size:.{digits}f} {unit}"
