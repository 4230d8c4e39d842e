"""Flags and variables: who wins, what is refused, and that the documented list is the code's."""

from pathlib import Path

import pytest
import yaml

from disttest_contract.outcomes import Reason
from disttest_operator.config import options
from disttest_operator.config.flags import FLAGS
from disttest_operator.core.api.model import Timeouts
from tests.support.paths import ROOT

PAGE = ROOT / "docs/reference/configuration.md"
BEGIN, END = "<!-- flags: made by the code -->\n", "<!-- end of flags -->\n"

# Flag, a text that is refused, and what the sentence says.
WRONG = [
    (
        "runner-image",
        "two words",
        "must be an image name such as registry.example.com/disttest-runner:1.0, without spaces",
    ),
    ("namespaces", "a,,b", "write names of namespaces, separated by commas, not 'a,,b'"),
    ("namespaces", "gpu_ci", "lower-case letters, digits and '-', not 'gpu_ci'"),
    ("namespaces", "a,b,a", "write each namespace once, at most 64"),
    ("namespaces", ",".join(f"n{number}" for number in range(65)), "write each namespace once, at most 64"),
    ("rules", "/no/such/file", "'/no/such/file' cannot be read (No such file or directory); write the path of a file"),
    (
        "allow",
        "host-net",
        "must be [NAMESPACE/]WHAT, where WHAT is one of host-network, host-ipc, host-pid, privileged",
    ),
    ("allow", "root,", "capability:NAME, host-path:/PREFIX, service-account:NAME, not ''"),
    ("queue-seconds", "0", "must be an integer from 1 to 604800, not 0"),
    ("rendezvous-seconds", "5m", "must be an integer from 1 to 86400, not '5m'"),
    ("case-seconds", "-1", "must be an integer from 1 to 86400, not '-1'"),
    ("run-seconds", "1e3", "must be an integer from 1 to 604800, not '1e3'"),
    ("gpu-resource", "gpu", "must be the name of an extended resource with its domain, such as nvidia.com/gpu"),
    ("fixed-nodes", "maybe", "must be true or false, not 'maybe'"),
    ("partial-gang-timeout-seconds", "0", "must be an integer from 1 to 86400, not 0"),
    ("label-suspect-nodes", "some", "must be true or false, not 'some'"),
    ("series-idle-days", "-1", "must be an integer from 0 to 3650, not '-1'"),
    ("retained-reports", "31", "must be an integer from 0 to 30, not 31"),
    ("image-pull-timeout-seconds", "soon", "must be an integer from 0 to 86400, not 'soon'"),
    ("workers", "0", "must be an integer from 1 to 256, not 0"),
    ("workers", "257", "must be an integer from 1 to 256, not 257"),
    ("metrics-address", "8080x", "write host:port or :port, not '8080x'"),
    ("metrics-address", ":70000", "write host:port or :port, not ':70000'"),
    ("metrics-certificates", "/no/such", "'/no/such' is not a directory; write the path of a directory with tls.crt"),
    ("metrics-insecure", "perhaps", "must be true or false, not 'perhaps'"),
    ("metrics-insecure", "true", "write --metrics-address=127.0.0.1:8080, not ':8443'"),
    ("health-address", "a b:80", "write host:port or :port, not 'a b:80'"),
    ("health-address", ":8443", "metrics and health have the same address :8443; change the port"),
    ("lease-namespace", "Disttest", "must be the name of a namespace"),
    ("log-level", "loud", "must be one of debug, info, warning, error, not 'loud'"),
    ("log-format", "xml", "must be one of text, json, not 'xml'"),
]
ANYTHING = {"kubeconfig"}  # whether it can be used shows when it is


def refusal(capsys: pytest.CaptureFixture[str], arguments: list[str], environ: dict[str, str]) -> str:
    with pytest.raises(SystemExit) as caught:
        options.read(arguments, environ)
    assert caught.value.code == 2
    return capsys.readouterr().err.splitlines()[-1].removeprefix("disttest_operator: error: ")


def test_a_flag_wins_over_its_variable_and_that_over_the_default() -> None:
    environ = {
        "DISTTEST_OPERATOR_RUNNER_IMAGE": "from-environment",
        "DISTTEST_OPERATOR_FIXED_NODES": "true",
        "POD_NAMESPACE": "here",
    }
    chosen = options.read(["--namespaces", "gpu-ci, nightly"], environ)
    assert (chosen.runner_image, chosen.fixed_nodes) == ("from-environment", True)
    assert (chosen.lease_namespace, chosen.metrics_address) == ("here", ":8443")
    assert chosen.namespaces == ("gpu-ci", "nightly")
    assert options.read(["--runner-image", "flag"], environ).runner_image == "flag"
    assert not options.read(["--fixed-nodes=false"], environ).fixed_nodes
    assert options.read(["--fixed-nodes", "--workers=3"], {}).fixed_nodes


def test_without_flags_all_namespaces_are_watched_with_the_defaults_of_the_model() -> None:
    chosen = options.read([], {})
    assert (chosen.namespaces, chosen.rules, chosen.allow, chosen.timeouts) == ((), (), (), Timeouts())
    assert (chosen.lease_namespace, chosen.workers, chosen.log_format) == ("disttest-system", 16, "text")


def test_an_empty_variable_is_none() -> None:
    environ = {flag.variable: "" for flag in FLAGS}
    assert options.read([], environ) == options.read([], {})


def test_defaults_of_timeouts_are_read_in_seconds() -> None:
    names = ("queue", "rendezvous", "case", "run")
    chosen = options.read([f"--{name}-seconds={number}" for number, name in enumerate(names, start=1)], {})
    assert chosen.timeouts == Timeouts(queue_seconds=1, rendezvous_seconds=2, case_seconds=3, run_seconds=4)


@pytest.mark.parametrize(
    ("said", "case_seconds", "run_seconds"),
    [("--run-seconds=100", 100, 100), ("--case-seconds=9000", 9000, 9000), ("--run-seconds=9000", 300, 9000)],
)
def test_a_default_of_case_or_run_seconds_follows_the_flag_of_the_other(
    said: str, case_seconds: int, run_seconds: int
) -> None:
    chosen = options.read([said], {})
    assert (chosen.case_seconds, chosen.run_seconds) == (case_seconds, run_seconds)


def test_a_case_timeout_above_the_run_timeout_is_rejected(capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(capsys, ["--case-seconds=20"], {"DISTTEST_OPERATOR_RUN_SECONDS": "10"})
    sentence = "must not exceed DISTTEST_OPERATOR_RUN_SECONDS (10), but is 20"
    assert said == f"--case-seconds: {sentence}"


@pytest.mark.parametrize("address", ["127.0.0.1:8080", "127.8.0.1:80", "localhost:8080", "[::1]:8080"])
def test_plain_http_is_served_on_this_machine(address: str) -> None:
    assert options.read(["--metrics-insecure", f"--metrics-address={address}"], {}).metrics_insecure


@pytest.mark.parametrize("address", [":8080", "0.0.0.0:8080", "[::]:8080", "10.0.0.1:8080", "127.0.0.1.example.com:80"])
def test_plain_http_is_served_to_no_other_machine(address: str, capsys: pytest.CaptureFixture[str]) -> None:
    said = refusal(capsys, [f"--metrics-address={address}"], {"DISTTEST_OPERATOR_METRICS_INSECURE": "true"})
    assert said.startswith("DISTTEST_OPERATOR_METRICS_INSECURE: requires a loopback address")
    assert said.endswith(f"not {address!r}")


def test_a_certificate_for_plain_http_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--metrics-insecure", "--metrics-address=127.0.0.1:80", f"--metrics-certificates={tmp_path}"]
    said = refusal(capsys, arguments, {})
    assert said == (
        "--metrics-certificates: has no effect with --metrics-insecure, because plain HTTP has no certificate; "
        "remove one of the two"
    )


def test_every_flag_but_a_path_has_a_text_that_is_refused() -> None:
    assert {name for name, _, _ in WRONG} | ANYTHING == {flag.name for flag in FLAGS}


@pytest.mark.parametrize(("name", "text", "sentence"), WRONG, ids=lambda value: value[:40])
def test_a_wrong_flag_ends_the_program_with_one_sentence_that_names_it(
    name: str, text: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refusal(capsys, [f"--{name}={text}"], {})
    assert said.startswith(f"--{name}")
    assert sentence in said


@pytest.mark.parametrize(("name", "text", "sentence"), WRONG, ids=lambda value: value[:40])
def test_a_wrong_variable_gets_the_same_sentence_with_its_own_name(
    name: str, text: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    variable = f"DISTTEST_OPERATOR_{name.upper().replace('-', '_')}"
    said = refusal(capsys, [], {variable: text})
    assert said.startswith(variable)
    assert sentence in said


@pytest.mark.parametrize("argument", ["--no-such-flag", "--namespace=x", "--runner=x"])
def test_a_flag_that_is_none_or_is_shortened_is_refused(argument: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert argument in refusal(capsys, [argument], {})


def test_rules_are_read_from_their_file(tmp_path: Path) -> None:
    file = tmp_path / "rules.yaml"
    file.write_text("- {logPattern: fell off, reason: GPUUnhealthy}\n")
    [rule] = options.read(["--rules", str(file)], {}).rules
    assert rule.reason is Reason.GPU_UNHEALTHY


@pytest.mark.parametrize(
    ("raw", "sentence"),
    [
        (b"- {logPattern: fell off}\n", "entry 1.reason: is required"),
        (b"\xff\xfe\xff", "is not UTF-8 text; write the path of a YAML file"),
    ],
    ids=["no reason", "binary"],
)
def test_rules_that_are_wrong_end_the_program_with_the_file_and_the_entry(
    raw: bytes, sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "rules.yaml"
    file.write_bytes(raw)
    said = refusal(capsys, [], {"DISTTEST_OPERATOR_RULES": str(file)})
    assert said.startswith(f"DISTTEST_OPERATOR_RULES: {str(file)!r}")
    assert sentence in said


def test_the_crd_describes_the_defaults_of_timeouts_and_the_operator_sets_them() -> None:
    crd = yaml.safe_load((ROOT / "manifests/crd/disttests.yaml").read_text())
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    timeouts = spec["properties"]["timeouts"]
    assert "default" not in timeouts
    for name, field in timeouts["properties"].items():
        flag = f"{name.removesuffix('Seconds')}-seconds"
        [default] = [entry.default for entry in FLAGS if entry.name == flag]
        assert "default" not in field
        assert f"Defaults to {default}" in field["description"]


def test_help_lists_every_flag(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        options.read(["--help"], {})
    assert caught.value.code == 0
    output = capsys.readouterr().out
    assert all(f"--{flag.name} " in output for flag in FLAGS)


def test_the_documented_flags_are_the_codes(*, updates_golden: bool) -> None:
    """--update-golden rewrites it."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    flags, end, after = rest.partition(END)
    assert end, f"{PAGE.name} has no lines {BEGIN!r} and {END!r}"
    if updates_golden:
        PAGE.write_text(f"{before}{BEGIN}\n{options.markdown()}\n{END}{after}")
        return
    hint = "run `pytest tests/unit/operator/config/test_options.py --update-golden`"
    assert flags.strip() == options.markdown().strip(), (
        f"docs/reference/configuration.md is not what the code says: {hint}"
    )
