"""What agents find out about their nodes before the first case, and what comes of it."""

import sys
from pathlib import Path

from disttest_contract.outcomes import Reason, Verdict
from tests.support.gangs.gang import AgentGang, make_plan, suite_of

SOURCE = "def test_it(process_group): pass\n"


def test_the_report_tells_about_every_node(tmp_path: Path) -> None:
    report = AgentGang(make_plan(suite_of(tmp_path / "suite", SOURCE), ranks=1), tmp_path).run()
    assert report.verdict is Verdict.PASSED
    assert [facts.node_name for facts in report.preflight] == ["local-0", "local-1"]
    for facts in report.preflight:
        assert facts.versions["python"] == sys.version.split()[0]
        assert facts.versions["torch"]
        assert facts.cpus > 0
        assert facts.clock_offset_seconds is not None
        assert abs(facts.clock_offset_seconds) < 1  # one machine, one clock
        assert facts.round_trip_seconds is not None
        assert facts.round_trip_seconds >= 0


def test_a_node_with_another_torch_is_named_before_any_rank_starts(tmp_path: Path) -> None:
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    (hooks / "sitecustomize.py").write_text(
        "import sys\n"
        "if 'disttest_runner.zygote.zygote' in sys.orig_argv:\n"
        "    import torch\n"
        "    torch.__version__ = '1.13.0'\n"
    )
    plan = make_plan(suite_of(tmp_path / "suite", SOURCE), ranks=1)
    gang = AgentGang(plan, tmp_path, own={1: {"PYTHONPATH": str(hooks)}})
    report = gang.run()
    assert (report.verdict, report.reason) == (Verdict.INFRA_FAILED, Reason.NODES_DIFFER), gang.text
    assert "torch: local-1 (node index 1) has 1.13.0" in report.message
    assert report.generations == 0
    assert gang.wait() == {0: 20, 1: 20}
