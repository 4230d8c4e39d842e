"""A good night and one after it in which much has changed, for what is made of their comparison. Made up."""

import dataclasses
from collections.abc import Iterator

from disttest_contract.outcomes import Outcome
from disttest_contract.results.case_result import CaseResult
from disttest_contract.results.preflight import NodeFacts
from disttest_contract.results.report import Report
from tests.support.builders.compared import a_case, a_night
from tests.support.builders.measured import GB, GIB, a_measured_case, a_measurement, a_threshold
from tests.support.builders.runs import a_flaky_case

FACTS = NodeFacts(gpus=("NVIDIA H100 80GB HBM3",) * 8, driver="550.54.15", kernel="6.8.0-79", cpus=192)
STEERING = "\x1b[31mred\x1b[0m | `ticks` ``two`` <b>@everybody</b>\r\nsecond line \u202e"


def before() -> Report:
    suites = {
        "collectives": [*_steady(1.0), _slow(2.0), *_measured(400, 380)],
        "mine": [
            a_case("m.py::test_breaks"),
            a_case("m.py::test_mended", Outcome.FAILED, message="was 3", ranks=(1,), nodes=("node0",)),
            a_case("m.py::test_still", Outcome.HUNG, message="for ever"),
            a_case("m.py::test_flips"),
            a_case("m.py::test_not_reached"),
            a_case("m.py::test_renamed"),
        ],
    }
    return a_night(0, suites, versions={"torch": "2.9.0", "nccl": "2.27.3"}, preflight=(FACTS, FACTS))


def after() -> Report:
    breaks = a_case(
        "m.py::test_breaks", Outcome.CRASHED, message="killed by SIGSEGV", ranks=(8, 9, 10), nodes=("node1",)
    )
    suites = {
        "collectives": [*_steady(1.3), _slow(9.0), *_measured(340, 385)],
        "mine": [
            breaks,
            a_case(f"m.py::test_hostile[{STEERING}]", Outcome.FAILED, message=STEERING, nodes=(STEERING,)),
            a_case("m.py::test_mended"),
            a_case("m.py::test_still", Outcome.HUNG, message="for ever"),
            dataclasses.replace(a_flaky_case(), id="m.py::test_flips"),
            a_case("m.py::test_not_reached", Outcome.NOT_RUN),
            a_case("m.py::test_new_name"),
        ],
    }
    return a_night(
        1,
        suites,
        versions={"torch": "2.9.1", "nccl": "2.27.3"},
        preflight=(FACTS, dataclasses.replace(FACTS, driver="560.28.03", node_name="node7")),
        node_names=("node0", "node7"),
        thresholds=(a_threshold(360 * GB),),
    )


def _steady(factor: float) -> Iterator[CaseResult]:
    return (a_case(f"c.py::test_steady[{number}]", seconds=factor * (1 + number / 10)) for number in range(30))


def _slow(seconds: float) -> CaseResult:
    return a_case("c.py::test_slow", seconds=seconds)


def _measured(all_reduce: float, all_gather: float) -> Iterator[CaseResult]:
    yield a_measured_case(a_measurement(all_reduce * GB), name="test_all_reduce")
    yield a_measured_case(
        a_measurement(all_gather * GB, collective="all_gather", size_bytes=GIB), name="test_all_gather"
    )
