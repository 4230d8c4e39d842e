"""The text of a scrape, put together from parts that are made anew only when what they tell has changed.

Thousands of lines say the same as a minute ago, and the client library takes 15 µs for each. So each part, a ledger
say, is encoded by the library once for each state of it, and kept by family.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

Encode = Callable[[Collector], bytes]
Lines = dict[str, tuple[str, str]]  # family's name -> its header, its samples

END = "# EOF\n"  # of OpenMetrics
FORMATS = 4  # that are kept: a scraper may ask for any version
HEADER = ("# HELP ", "# TYPE ", "# UNIT ")


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """`make` gives the same families again as long as `state` is the same."""

    key: Hashable
    state: Hashable
    make: Callable[[], Iterable[Metric]]


class Exposition:
    """Keeps what was encoded, for each format that scrapers ask for."""

    def __init__(self) -> None:
        self._kept: dict[str, dict[Hashable, tuple[Hashable, Lines]]] = {}

    def render(self, encode: Encode, content_type: str, parts: Sequence[Part]) -> str:
        """Families one after the other, each with its header once, and without an end mark."""
        before = self._kept.pop(content_type, {})
        kept = {part.key: _encoded(encode, part, before.get(part.key)) for part in parts}
        self._kept[content_type] = kept
        while len(self._kept) > FORMATS:
            del self._kept[next(iter(self._kept))]
        pieces = [lines for _, lines in kept.values()]
        names = dict.fromkeys(name for lines in pieces for name in lines)
        return "".join(_family(name, pieces) for name in names)


def _encoded(encode: Encode, part: Part, before: tuple[Hashable, Lines] | None) -> tuple[Hashable, Lines]:
    if before and before[0] == part.state:
        return before
    return part.state, _split(encode(_Given(list(part.make()))).decode())


class _Given(Collector):
    """As if a registry had collected them."""

    def __init__(self, metrics: list[Metric]) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:  # type: ignore[explicit-override]  # typing.override came with 3.12
        return iter(self._metrics)


def _split(text: str) -> Lines:
    """By family; families without samples too, so that their header is seen."""
    lines: Lines = {}
    name, header, samples = "", "", ""
    for line in text.removesuffix(END).removesuffix("\n").split("\n"):
        if line.startswith("# HELP "):
            lines[name] = (header, samples)
            name, header, samples = line.split(" ", 3)[2], f"{line}\n", ""
        elif line.startswith(HEADER):
            header += f"{line}\n"
        elif line:
            samples += f"{line}\n"
    lines[name] = (header, samples)
    del lines[""]
    return lines


def _family(name: str, pieces: Sequence[Lines]) -> str:
    found = [lines[name] for lines in pieces if name in lines]
    return found[0][0] + "".join(samples for _, samples in found)
