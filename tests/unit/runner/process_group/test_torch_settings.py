"""The settings of NCCL and torch that ranks use."""

import pytest

from disttest_contract.gang.plan import SuitePlan
from disttest_runner.process_group import torch_settings


def test_torchs_watchdog_waits_longer_than_a_case() -> None:
    def heartbeat(case_seconds: int) -> int:
        settings = torch_settings.wanted(case_seconds, records_gloo=True, nccl_log="")
        return int(settings["TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC"])

    assert heartbeat(5) == 480
    assert heartbeat(7000) > 7000


def test_what_is_not_set_is_set() -> None:
    settings = torch_settings.wanted(5, records_gloo=True, nccl_log="")
    environ: dict[str, str] = {}
    assert torch_settings.apply(environ, settings) == []
    assert environ == settings


def test_a_value_of_the_user_wins_and_is_named() -> None:
    environ = {"TORCH_NCCL_RETHROW_CUDA_ERRORS": "1", "NCCL_DEBUG": "WARN"}
    sentences = torch_settings.apply(environ, torch_settings.wanted(5, records_gloo=True, nccl_log=""))
    assert sentences == ["TORCH_NCCL_RETHROW_CUDA_ERRORS=1 is set. DistTest's value is 0."]
    assert environ["TORCH_NCCL_RETHROW_CUDA_ERRORS"] == "1"


@pytest.mark.parametrize("name", torch_settings.RECORDER_SIZES)
def test_the_size_of_the_recorder_has_two_names_of_which_the_user_may_set_either(name: str) -> None:
    for records_gloo in (True, False):
        environ = {name: "7"}
        sentences = torch_settings.apply(environ, torch_settings.wanted(5, records_gloo=records_gloo, nccl_log=""))
        assert sentences == [f"{name}=7 is set. DistTest's value is 2000."]
        assert [one for one in torch_settings.RECORDER_SIZES if one in environ] == [name]


def test_what_differs_is_for_the_report_with_the_suite_that_sets_it() -> None:
    settings = torch_settings.wanted(5, records_gloo=True, nccl_log="")
    environ = {"NCCL_DEBUG": "TRACE", "TORCH_NCCL_TRACE_BUFFER_SIZE": "7", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1"}
    torch_settings.apply(environ, settings)
    found = torch_settings.different(environ, settings)
    assert found == {
        "NCCL_DEBUG": "TRACE",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "7",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1",
    }
    suite = SuitePlan(name="mine", env=(("NCCL_DEBUG", "TRACE"),))
    assert torch_settings.of_suite(found, suite) == {
        "NCCL_DEBUG (mine)": "TRACE",
        "TORCH_NCCL_TRACE_BUFFER_SIZE": "7",
        "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE": "1",
    }


def test_where_nothing_differs_there_is_nothing_to_report() -> None:
    settings, environ = torch_settings.wanted(5, records_gloo=False, nccl_log=""), dict[str, str]()
    torch_settings.apply(environ, settings)
    assert torch_settings.different(environ, settings) == {}


FILES = "/nccl/3.%p.log"


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV", "NCCL_DEBUG_FILE": FILES}),
        ({"NCCL_DEBUG": "INFO"}, {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_FILE": FILES}),
        ({"NCCL_DEBUG": "WARN"}, {"NCCL_DEBUG": "WARN", "NCCL_DEBUG_FILE": FILES}),
        (
            {"NCCL_DEBUG_SUBSYS": "ALL"},
            {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "ALL", "NCCL_DEBUG_FILE": FILES},
        ),
        (
            {"NCCL_DEBUG_FILE": "/mine"},
            {"NCCL_DEBUG": "INFO", "NCCL_DEBUG_SUBSYS": "INIT,ENV", "NCCL_DEBUG_FILE": "/mine"},
        ),
    ],
    ids=["nothing", "a level", "warnings only", "subsystems", "a file"],
)
def test_nccl_logs_to_a_file_unless_the_user_wants_another(environ: dict[str, str], expected: dict[str, str]) -> None:
    torch_settings.apply(environ, torch_settings.wanted(5, records_gloo=True, nccl_log=FILES))
    assert {name: value for name, value in environ.items() if name.startswith("NCCL_")} == expected


def test_without_a_file_nccl_prints_warnings_only() -> None:
    settings = torch_settings.wanted(5, records_gloo=True, nccl_log="")
    assert {name: value for name, value in settings.items() if name.startswith("NCCL_")} == {"NCCL_DEBUG": "WARN"}
