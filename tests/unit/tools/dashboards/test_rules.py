import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from disttest_contract.outcomes import Reason, Verdict
from disttest_operator.core.api.model import Phase
from disttest_operator.kubernetes.ports import LedgerWrite
from disttest_operator.metrics import OUTCOMES
from disttest_operator.metrics.families import FAMILIES, FamilyType
from tests.support.monitoring.prometheus import promtool
from tests.support.paths import ROOT
from tools.dashboards import prometheus_objects

DOCS = ROOT / "docs"
TESTS = sorted((ROOT / "tests" / "data" / "promtool").glob("*.yaml"))
HISTOGRAM_ENDINGS = ("_bucket", "_count", "_sum")
SCRAPED_LABELS = {"namespace", "job", "instance", "pod"}  # what the scrape adds to the operator's own families
MADE_LABELS = {"alertname", "severity", "seen"}
CLOSED: dict[str, set[str]] = {
    "verdict": set(Verdict),
    "reason": set(Reason),
    "phase": set(Phase),
    "transport": {transport.value for transport in OUTCOMES},
    "outcome": {outcome for outcomes in OUTCOMES.values() for outcome in outcomes},
    "result": {write.value for write in LedgerWrite} | {"error"},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleUnderTest:
    name: str
    expr: str
    labels: dict[str, str]
    annotations: dict[str, str]

    @property
    def words(self) -> str:
        """Without the texts of matchers, whose words are no names."""
        return re.sub(r'"[^"]*"', '""', self.expr)


def all_rules(kind: str) -> Iterator[RuleUnderTest]:
    for path in prometheus_objects.plain_files():
        for group in yaml.safe_load(path.read_text())["groups"]:
            for rule in group["rules"]:
                if kind in rule:
                    yield RuleUnderTest(
                        name=rule[kind],
                        expr=rule["expr"],
                        labels=rule.get("labels", {}),
                        annotations=rule.get("annotations", {}),
                    )


RECORDS, ALERTS = list(all_rules("record")), list(all_rules("alert"))
RULES = [*RECORDS, *ALERTS]
NAMES = [alert.name for alert in ALERTS]


def exposed() -> dict[str, set[str]]:
    """Every metric that can be queried, with its labels."""
    named = {}
    for family in FAMILIES:
        endings = HISTOGRAM_ENDINGS if family.type is FamilyType.HISTOGRAM else ("",)
        for ending in endings:
            named[family.shown_name + ending] = {*family.labels, *({"le"} if ending == "_bucket" else ())}
    return named


def test_promtool_accepts_the_rules() -> None:
    said = promtool("check", "rules", "--lint=all", "--lint-fatal", *prometheus_objects.plain_files())
    assert sum(map(int, re.findall(r"SUCCESS: (\d+) rules", said))) == len(RULES)


@pytest.mark.parametrize("path", TESTS, ids=[path.stem for path in TESTS])
def test_rules_pass_their_tests(path: Path) -> None:
    promtool("test", "rules", path)


def test_every_alert_fires_in_one_test_and_does_not_in_another() -> None:
    fires: set[str] = set()
    rests: set[str] = set()
    for path in TESTS:
        for test in yaml.safe_load(path.read_text())["tests"]:
            for one in test.get("alert_rule_test", ()):
                (fires if one["exp_alerts"] else rests).add(one["alertname"])
    assert fires == set(NAMES)
    assert rests == set(NAMES)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_queries_only_exposed_or_recorded_metrics(rule: RuleUnderTest) -> None:
    known = {*exposed(), *(record.name for record in RECORDS)}
    asked = set(re.findall(r"\bdisttest[_:][a-zA-Z0-9_:]+", rule.words))
    assert asked, "it asks for nothing"
    assert asked <= known


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_a_rule_uses_only_labels_that_its_metrics_have(rule: RuleUnderTest) -> None:
    labels = set(SCRAPED_LABELS)
    for name in closure(rule):
        labels |= exposed().get(name, set())
    used = {
        word
        for words in re.findall(r"\b(?:by|on|without|ignoring) \(([^)]*)\)", rule.words)
        for word in words.split(", ")
    }
    used |= set(re.findall(r"[{,]\s*([a-z_]+)\s*(?:=~|!~|!=|=)", rule.words))
    assert used - {""} <= labels


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: rule.name)
def test_a_text_uses_only_labels_that_its_metrics_have(alert: RuleUnderTest) -> None:
    labels = set(SCRAPED_LABELS)
    for name in closure(alert):
        labels |= exposed().get(name, set())
    for text in alert.annotations.values():
        assert set(re.findall(r"\$labels\.(\w+)", text)) <= labels
        assert set(re.findall(r"disttest_\w+", text)) <= {*exposed()}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_words_of_closed_sets_are_theirs(rule: RuleUnderTest) -> None:
    for label, text in re.findall(
        r'\b(verdict|reason|phase|transport|outcome|result)(?:=~|!~|!=|=)"([^"]*)"', rule.expr
    ):
        assert set(text.split("|")) <= CLOSED[label]


@pytest.mark.parametrize("alert", ALERTS, ids=lambda rule: rule.name)
def test_an_alert_has_severity_description_and_runbook(alert: RuleUnderTest) -> None:
    assert alert.labels == {"severity": alert.labels["severity"]}
    assert alert.labels["severity"] in {"critical", "warning", "info"}
    assert set(alert.annotations) == {"summary", "description", "runbook_url"}
    assert alert.annotations["runbook_url"] == f"docs/operating/runbook.md#{alert.name.lower()}"


def test_the_runbook_has_each_alert_once_and_no_other() -> None:
    headings = re.findall(r"^## (DistTest\w+)$", (DOCS / "operating/runbook.md").read_text(), re.MULTILINE)
    assert sorted(headings) == sorted(NAMES)


def test_each_entry_of_the_runbook_has_a_meaning_causes_and_a_fix() -> None:
    for entry in re.split(r"^## (?=DistTest)", (DOCS / "operating/runbook.md").read_text(), flags=re.MULTILINE)[1:]:
        assert re.findall(r"^\*\*([A-Z][a-z ]+)\.\*\*", entry, re.MULTILINE) == ["Meaning", "Causes", "Fix"], entry


def test_the_sample_for_alertmanager_names_alerts_that_exist() -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (DOCS / "operating/monitoring.md").read_text(), re.DOTALL)
    config = next(found for found in map(yaml.safe_load, blocks) if "inhibit_rules" in found)
    named = set(re.findall(r"DistTest\w+", str(config)))
    assert named <= set(NAMES)
    assert len(named) > 1


def closure(rule: RuleUnderTest) -> set[str]:
    """Metrics that a rule queries, directly or through recording rules."""
    by_name = {record.name: record for record in RECORDS}
    found: set[str] = set()
    left: list[Any] = [rule]
    while left:
        asked = set(re.findall(r"\bdisttest[_:][a-zA-Z0-9_:]+", left.pop().words)) - found
        found |= asked
        left += [by_name[name] for name in asked if name in by_name]
    return found
