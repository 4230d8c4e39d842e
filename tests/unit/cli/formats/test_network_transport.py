"""The network that the ranks used is shown by every format for people, and by `disttest describe`."""

import dataclasses

import pytest

from disttest_cli.formats import markdown, table, values
from disttest_cli.formats.html import page
from disttest_cli.views import description
from disttest_contract.results.network_transport import (
    UNKNOWN,
    GangTransport,
    NetworkTransport,
    TransportFacts,
    TransportGroup,
)
from disttest_contract.results.report import Report
from tests.support.builders import bodies
from tests.support.reports import report_samples as samples
from tests.support.reports.reports import a_good_night

RDMA = TransportFacts(transport=NetworkTransport.RDMA, network="IB", gpu_direct_rdma=True)
TCP = TransportFacts(transport=NetworkTransport.TCP, network="Socket")
WORDS = "tcp (Socket) on ranks 8-15; rdma (IB, GPUDirect RDMA) on ranks 0-7"


def with_transport(transport: GangTransport) -> Report:
    return dataclasses.replace(a_good_night(), transport=transport)


def shown(report: Report) -> dict[str, str]:
    seen = description.DescribedRun(body=bodies.passed(), now=bodies.NOW, report=report)
    return {
        "table": table.render_report(report),
        "markdown": markdown.render(samples.subject(report)),
        "html": page.render(samples.subject(report)),
        "describe": "\n".join(line.plain for line in description.summary(seen)),
    }


@pytest.mark.parametrize("name", ["table", "markdown", "html", "describe"])
def test_it_is_shown_if_it_is_known(name: str) -> None:
    groups = (TransportGroup(ranks="8-15", used=TCP), TransportGroup(ranks="0-7", used=RDMA))
    assert WORDS in shown(with_transport(GangTransport(used=TCP, groups=groups)))[name]
    assert "ransport" not in shown(with_transport(UNKNOWN))[name]


def test_it_has_its_own_line_in_the_table() -> None:
    lines = table.render_report(with_transport(GangTransport(used=RDMA))).splitlines()
    assert [line for line in lines if "transport" in line] == ["transport: rdma (IB, GPUDirect RDMA)"]


def test_forged_words_are_escaped_and_short() -> None:
    forged = dataclasses.replace(TCP, network="\x1b[1m" + "x" * 10_000)
    words = values.transport(with_transport(GangTransport(used=forged)))
    assert "\x1b" not in words
    assert len(words) < 500
