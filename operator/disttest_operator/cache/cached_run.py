"""What caches hold: runs, series, and whose business each object is."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from disttest_operator.core.api.model import Defaults, DistTest, Spec
from disttest_operator.core.api.parse import InvalidSpecError, parse
from disttest_operator.core.observed import decoding
from disttest_operator.core.observed.objects import Body, JobView, PodView
from disttest_operator.core.schedule.expected_runs import CronJobView
from disttest_operator.kubernetes.ports import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """What is reconciled: a run or a series."""

    kind: Kind
    namespace: str
    name: str

    @property
    def words(self) -> str:
        """For logs."""
        return f"{self.namespace}/{self.name}" if self.kind is Kind.RUN else f"series {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedRun:
    """A DistTest; with problems its spec is only a stand-in."""

    test: DistTest
    problems: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class CachedSeries:
    namespace: str
    name: str
    uid: str
    resource_version: int
    status: Mapping[str, Any]


Item = CachedRun | CachedSeries | JobView | PodView | CronJobView


def read_run(body: Body, defaults: Defaults) -> CachedRun:
    """A DistTest that slipped past admission is kept too: it must get its verdict."""
    try:
        return CachedRun(test=parse(body, defaults))
    except InvalidSpecError as error:
        meta = body["metadata"]
        created = decoding.time(meta["creationTimestamp"])
        if created is None:
            raise
        test = DistTest(
            namespace=meta["namespace"],
            name=meta["name"],
            uid=meta["uid"],
            generation=meta.get("generation", 1),
            resource_version=meta["resourceVersion"],
            created=created,
            is_deleting="deletionTimestamp" in meta,
            spec=Spec(suites=(), image=defaults.image, gpus_per_node=0),
            runner_image=defaults.image,
            status=body.get("status") or {},
        )
        return CachedRun(test=test, problems=error.problems)


def read_series(body: Body) -> CachedSeries:
    meta = body["metadata"]
    return CachedSeries(
        namespace=meta["namespace"],
        name=meta["name"],
        uid=meta["uid"],
        resource_version=int(meta["resourceVersion"]),
        status=body.get("status") or {},
    )


def key(item: Item) -> Key:
    match item:
        case CachedRun():
            return Key(kind=Kind.RUN, namespace=item.test.namespace, name=item.test.name)
        case CachedSeries():
            return Key(kind=Kind.SERIES, namespace=item.namespace, name=item.name)
        case JobView() | PodView():
            return Key(kind=Kind.RUN, namespace=item.namespace, name=item.run)
        case CronJobView():
            return Key(kind=Kind.SERIES, namespace=item.namespace, name=item.series)
