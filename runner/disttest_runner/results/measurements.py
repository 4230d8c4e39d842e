"""Merge the samples of all ranks into measurements for the report. No I/O, no clock, no torch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from disttest_contract import limits
from disttest_contract.results.measurement import Measurement

DIGITS = 6  # significant ones, of what is computed here
NAME_CHARACTERS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One rank's measurement of one collective: `seconds` is the median of its iterations.

    `bus_factor` is that of nccl-tests: 2(n-1)/n for an all-reduce over n ranks, for example.
    """

    collective: str
    dtype: str
    size_bytes: int
    iterations: int
    bus_factor: float
    seconds: float
    wrong_elements: int

    def to_wire(self) -> list[Any]:
        """Serialize without field names: a node sends a list for each of its ranks."""
        return [getattr(self, name) for name in self.__slots__]

    @classmethod
    def from_wire(cls, words: Sequence[Any]) -> Self:
        """Parse a foreign list: test code runs in the process that sends it. Raises ValueError."""
        if not isinstance(words, list) or len(words) != len(cls.__slots__):
            raise ValueError(f"a measurement has {len(cls.__slots__)} values, not {words!r:.200}")
        sample = cls(**dict(zip(cls.__slots__, words, strict=True)))
        names, counts = (sample.collective, sample.dtype), (sample.size_bytes, sample.iterations, sample.wrong_elements)
        if not all(isinstance(name, str) and 0 < len(name) <= NAME_CHARACTERS for name in names):
            raise ValueError(f"a measurement of {names!r:.200}: names have 1 to {NAME_CHARACTERS} characters")
        if not all(type(count) is int and 0 <= count <= limits.NUMBER for count in counts):
            raise ValueError(f"a measurement of {names} has the counts {counts!r:.200}")
        amounts = (sample.seconds, sample.bus_factor)
        if not all(isinstance(amount, (int, float)) and 0 <= amount <= limits.NUMBER for amount in amounts):
            raise ValueError(f"a measurement of {names} has seconds and factor {amounts!r:.200}")
        if not sample.seconds:
            raise ValueError(f"a measurement of {names} took no time")
        return sample


def read(lists: object) -> list[Sample]:
    if not isinstance(lists, list) or len(lists) > limits.MEASUREMENTS:
        raise ValueError(f"measurements are a list of at most {limits.MEASUREMENTS}")
    return [Sample.from_wire(words) for words in lists]


def gather(answers: Iterable[Mapping[str, Any]]) -> dict[int, list[Sample]]:
    """Return rank -> samples from the answers of all nodes; empty for most cases."""
    return {int(rank): read(lists) for answer in answers for rank, lists in answer.get("measured", {}).items()}


def merge(by_rank: Mapping[int, Sequence[Sample]]) -> tuple[Measurement, ...]:
    """Merge by collective, type and size, in the order of the lowest rank, over the ranks that have a sample."""
    groups: dict[tuple[str, str, int], dict[int, Sample]] = {}
    for rank in sorted(by_rank):
        for sample in by_rank[rank]:
            groups.setdefault((sample.collective, sample.dtype, sample.size_bytes), {})[rank] = sample
    return tuple(_merge_one(samples) for samples in groups.values())[: limits.MEASUREMENTS]


def _merge_one(samples: Mapping[int, Sample]) -> Measurement:
    first = next(iter(samples.values()))
    seconds = median([sample.seconds for sample in samples.values()])
    slowest = max(samples, key=lambda rank: samples[rank].seconds)
    speed = first.size_bytes / seconds
    return Measurement(
        collective=first.collective,
        dtype=first.dtype,
        size_bytes=first.size_bytes,
        ranks=len(samples),
        iterations=min(sample.iterations for sample in samples.values()),
        seconds=_rounded(seconds),
        fastest_rank_seconds=_rounded(min(sample.seconds for sample in samples.values())),
        slowest_rank_seconds=_rounded(samples[slowest].seconds),
        slowest_rank=slowest,
        alg_bytes_per_second=_rounded(speed),
        bus_bandwidth_bytes_per_second=_rounded(speed * first.bus_factor),
        wrong_elements=sum(sample.wrong_elements for sample in samples.values()),
    )


def median(values: Sequence[float]) -> float:
    """Like `statistics.median`, whose import takes 2 MB and 10 ms in every agent."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
