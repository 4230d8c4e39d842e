"""What pages name exists: links, files, fields, flags, metrics, alerts, reasons and targets of make."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from disttest_cli.main import COMMANDS, commands
from disttest_contract.outcomes import Reason
from disttest_operator.config.flags import FLAGS
from disttest_operator.core.api.conditions import GangReadyReason
from disttest_operator.metrics.families import FAMILIES, FamilyType
from tests.support.monitoring.prometheus import promtool
from tests.support.paths import ROOT
from tools.dashboards import prometheus_objects
from tools.docs import __main__ as documents

DOCS = ROOT / "docs"
PAGES = (
    *(ROOT / f"{name}.md" for name in ("README", "SECURITY", "CHANGELOG", "CONTRIBUTING")),
    *sorted(DOCS.rglob("*.md")),
)
FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
QUOTED = re.compile(r"`([^`\n]+)`")
OTHER_FLAGS = {"--build-arg", "--build-context", "--secret", "--require-hashes", "--field-selector", "--help"}
METRIC = re.compile(r"\bdisttest(?:_[a-z0-9]+){2,}|\bdisttest:[a-z0-9_:]+")
PATH = re.compile(r"(?<![\w./-])(?:\.\./disttest/)?((?:manifests|tests/data|tools)/[\w./-]+)")
page = pytest.mark.parametrize(
    "page", PAGES, ids=lambda page: page.name if page.name != "README.md" else page.parent.name
)


def quoted(page: Path) -> list[str]:
    return QUOTED.findall(FENCED.sub("", page.read_text()))


@cache
def anchors(page: Path) -> set[str]:
    """Anchors of the headings, as GitHub makes them."""
    headings = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text()), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@page
def test_every_link_leads_to_a_file_and_a_heading(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", FENCED.sub("", page.read_text())):
        if "://" in link:
            continue
        name, _, anchor = link.partition("#")
        target = (page.parent / name).resolve() if name else page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@page
def test_every_file_of_the_manifests_exists(page: Path) -> None:
    assert [path for path in PATH.findall(page.read_text()) if not (ROOT / path.rstrip("./")).exists()] == []


@page
def test_every_flag_is_one_of_the_operator_or_of_a_command(page: Path) -> None:
    context = click.Context(commands)
    loaded = [commands.get_command(context, name) for name in COMMANDS]
    known = {option for command in loaded if command for one in command.params for option in one.opts}
    known |= OTHER_FLAGS | {f"--{flag.name}" for flag in FLAGS}
    named = {word.split(" ")[0].split("=")[0] for word in quoted(page) if word.startswith("--")}
    if page.name != "CHANGELOG.md":  # it has old names too
        assert named <= known


@cache
def schemas() -> tuple[dict[str, Any], ...]:
    return tuple(documents.schemas())


def has_field(schema: Mapping[str, Any], names: list[str]) -> bool:
    if not names or "additionalProperties" in schema or not schema.get("properties", schema.get("items")):
        return not names or "additionalProperties" in schema
    inner = schema.get("items", schema)
    return names[0] in inner["properties"] and has_field(inner["properties"][names[0]], names[1:])


@page
def test_every_field_is_in_the_custom_resources(page: Path) -> None:
    """`timeouts.caseSeconds` is short for `spec.timeouts.caseSeconds`, and `cases.flaky` for that of the status."""
    starts = r"(?:spec|status|timeouts|retries|template|cases|progress|totals|dt\.spec)\.[A-Za-z]"
    for word in quoted(page):
        if not re.match(starts, word) or page.name == "CHANGELOG.md":
            continue
        names = re.split(r"[:= ]", word)[0].replace("[]", "").split(".")
        paths = (names, ["spec", *names], ["status", *names])
        assert any(has_field(schema, path) for schema in schemas() for path in paths), word


def metrics() -> Iterator[str]:
    for family in FAMILIES:
        endings = ("_bucket", "_count", "_sum", "") if family.type is FamilyType.HISTOGRAM else ("",)
        yield from (family.shown_name + ending for ending in endings)


@cache
def rules(kind: str) -> frozenset[str]:
    files = [yaml.safe_load(file.read_text()) for file in prometheus_objects.plain_files()]
    groups = [group for file in files for group in file["groups"]]
    return frozenset(rule[kind] for group in groups for rule in group["rules"] if kind in rule)


@page
def test_every_metric_recording_rule_and_alert_exists(page: Path) -> None:
    if page.name == "CHANGELOG.md":
        return
    text = page.read_text()
    modules = {"disttest_contract", "disttest_operator", "disttest_runner", "disttest_cli"}
    named = {name for name in METRIC.findall(text) if not name.startswith(tuple(f"{one}_" for one in modules))}
    assert named <= {*metrics(), *rules("record")}
    assert set(re.findall(r"\bDistTest[A-Z]\w+", text)) - {"DistTestSeries", "DistTests"} <= rules("alert")


def test_promtool_can_read_the_queries_of_the_reference(tmp_path: Path) -> None:
    [block] = re.findall(r"^```\n(.*?)^```$", (DOCS / "reference/metrics.md").read_text(), re.MULTILINE | re.DOTALL)
    queries = [line.partition("#")[0].strip() for line in block.splitlines()]
    file = tmp_path / "rules.yaml"
    groups = [{"name": "docs", "rules": [{"record": f"query:{n}", "expr": one} for n, one in enumerate(queries)]}]
    file.write_text(yaml.safe_dump({"groups": groups}))
    assert f"{len(queries)} rules found" in promtool("check", "rules", file)


@page
def test_every_target_of_make_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    blocks = "\n".join(FENCED.findall(page.read_text()))
    named = re.findall(r"^ *make ([a-z][a-z0-9-]*)", blocks, re.MULTILINE)
    named += [word.split()[1] for word in quoted(page) if re.match(r"make [a-z]", word)]
    assert set(named) <= targets


def renamed() -> Iterator[str]:
    """Old names in the changelog; words that still have another meaning are too short to be searched for."""
    text = (ROOT / "CHANGELOG.md").read_text().partition("Names changed")[2].partition("### Fixed")[0]
    for old, new in re.findall(r"^- `([^`]+)`: `([^`]+)`", text, re.MULTILINE):
        if len(old) > 8 and "[" not in old and old not in new:
            yield old


@page
def test_no_page_uses_a_name_that_has_changed(page: Path) -> None:
    old = set(renamed())
    assert {"joinSeconds", "--kept-reports", "TooFewGpus", "DistTestBandwidthBelowReference"} <= old
    if page.name != "CHANGELOG.md":
        text = page.read_text()
        assert [name for name in old if re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", text)] == []


def test_troubleshooting_and_runbook_have_every_reason_of_a_run_that_waits_or_failed() -> None:
    troubleshooting = (DOCS / "troubleshooting.md").read_text()
    waits = set(GangReadyReason) - {GangReadyReason.RUNNING}
    assert [reason for reason in waits if f"`{reason}`" not in troubleshooting] == []
    text = troubleshooting + (DOCS / "operating/runbook.md").read_text()
    of_cases = {Reason.ALL_CASES_PASSED, Reason.CASES_FAILED, Reason.CASES_CRASHED, Reason.CASES_HUNG}
    others = {Reason.RUN_TIMEOUT, Reason.CANCELLED}  # the page has their verdict
    assert [reason for reason in set(Reason) - of_cases - others if f"`{reason}`" not in text] == []
