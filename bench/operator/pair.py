"""Two operators behind the proxy, and what Prometheus would see of them."""

from collections import Counter
from dataclasses import dataclass, field

from bench.operator import subject
from bench.operator.place import Place
from bench.operator.proxy import Proxy
from tests.support.operator import OperatorProcess


@dataclass(slots=True)
class Watcher:
    """Scrapes the active operator as Prometheus would: no counter may ever fall, over all operators."""

    highest: Counter[str] = field(default_factory=Counter)
    fallen: list[str] = field(default_factory=list)

    def look(self, metrics: dict[str, float]) -> None:
        for name, value in metrics.items():
            if name.startswith("disttest_runs_total{"):
                if value < self.highest[name]:
                    self.fallen.append(f"{name} fell from {self.highest[name]} to {value:g}")
                self.highest[name] = max(self.highest[name], int(value))


class Pair:
    """Two operators behind the proxy; one that ends is started anew, as a Deployment would."""

    def __init__(self, where: Place, proxy: Proxy) -> None:
        self._log = where.directory / "operator.log"
        self._proxy = proxy
        self._operators = [self._start(), self._start()]
        self.ended_by_themselves: Counter[int] = Counter()

    def _start(self) -> OperatorProcess:
        return OperatorProcess(self._proxy.kubeconfig, self._log, subject.FLAGS)

    def scrape(self) -> tuple[OperatorProcess | None, dict[str, float]]:
        """The one that acts, and what it says."""
        for number, operator in enumerate(self._operators):
            if (code := operator.process.poll()) is not None:
                self.ended_by_themselves[code] += 1
                self._operators[number] = self._start()
            elif (metrics := operator.metrics()).get("disttest_leader") == 1.0:
                return operator, metrics
        return None, {}

    def kill(self, operator: OperatorProcess) -> None:
        operator.kill()
        self._operators[self._operators.index(operator)] = self._start()

    def end(self) -> None:
        for operator in self._operators:
            operator.kill()
