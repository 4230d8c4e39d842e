import pytest

from disttest_operator import options


def test_a_flag_wins_over_its_variable_and_that_over_the_default() -> None:
    environ = {
        "DISTTEST_OPERATOR_RUNNER_IMAGE": "from-environment",
        "DISTTEST_OPERATOR_FIXED_NODES": "true",
        "POD_NAMESPACE": "here",
    }
    chosen = options.read(["--namespace", "gpu-ci"], environ)
    assert (chosen.runner_image, chosen.namespace, chosen.fixed_nodes) == ("from-environment", "gpu-ci", True)
    assert (chosen.lease_namespace, chosen.metrics_address) == ("here", ":8080")
    assert options.read(["--runner-image", "flag"], environ).runner_image == "flag"


@pytest.mark.parametrize("arguments", [["--metrics-address", "8080x"], ["--log-level", "loud"], ["--no-such-flag"]])
def test_a_wrong_flag_ends_the_program_with_a_sentence(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        options.read(arguments, {})
    assert caught.value.code == 2
    assert arguments[0] in capsys.readouterr().err
