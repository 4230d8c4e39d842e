"""The objects that the cache holds, and the key by which each is reconciled."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from disttest_operator.core.api.model import Defaults, DistTest, Spec
from disttest_operator.core.api.parse import InvalidSpecError, build, parse
from disttest_operator.core.api.resources import Kind
from disttest_operator.core.observed.objects import Body, JobView, PodView
from disttest_operator.core.schedule.expected_runs import CronJobView


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """The run or series that is reconciled when an object changes."""

    kind: Kind
    namespace: str
    name: str

    @classmethod
    def of_run(cls, test: DistTest) -> "Key":
        return cls(kind=Kind.RUN, namespace=test.namespace, name=test.name)

    @classmethod
    def of_series(cls, namespace: str, name: str) -> "Key":
        return cls(kind=Kind.SERIES, namespace=namespace, name=name)

    @property
    def words(self) -> str:
        return f"{self.namespace}/{self.name}" if self.kind is Kind.RUN else f"series {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedRun:
    """A DistTest. If it has problems, its spec is empty."""

    test: DistTest
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedSeries:
    namespace: str
    name: str
    uid: str
    resource_version: int
    status: Mapping[str, Any]


CachedItem = CachedRun | CachedSeries | JobView | PodView | CronJobView


def read_run(body: Body, defaults: Defaults) -> CachedRun:
    """An invalid DistTest that passed admission is cached too: it must get a verdict."""
    try:
        return CachedRun(test=parse(body, defaults))
    except InvalidSpecError as error:
        empty = Spec(suites=(), image=defaults.image, gpus_per_node=0)
        return CachedRun(test=build(body, empty, defaults), problems=error.problems)


def read_series(body: Body) -> CachedSeries:
    meta = body["metadata"]
    return CachedSeries(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        resource_version=int(meta["resourceVersion"]),
        status=body.get("status") or {},
    )


def blames(ledgers: Iterable[CachedSeries]) -> list[Mapping[str, Any]]:
    """The entries of `suspectNodes` of nodes that were not cleared, oldest first."""
    rows = (row for series in ledgers for row in series.status.get("suspectNodes") or () if "clearedTime" not in row)
    return sorted(rows, key=lambda row: row["lastTime"])


def key_of(item: CachedItem) -> Key:
    match item:
        case CachedRun():
            return Key.of_run(item.test)
        case CachedSeries():
            return Key.of_series(item.namespace, item.name)
        case JobView() | PodView():
            return Key(kind=Kind.RUN, namespace=item.namespace, name=item.run)
        case CronJobView():
            return Key.of_series(item.namespace, item.series)
