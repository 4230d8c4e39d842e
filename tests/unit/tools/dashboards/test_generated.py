from pathlib import Path

import yaml

from tools.dashboards import prometheus_objects
from tools.dashboards.__main__ import MANIFESTS, generated

AGAIN = "what is generated differs from what is committed: run `python -m tools.dashboards`"


def test_what_is_committed_is_what_is_generated() -> None:
    made = dict(generated())
    folders = {path.partition("/")[0] for path in made}
    assert folders == {"prometheus-rule", "service-monitor", "dashboards", "scrape-config"}
    assert made == {path: text for folder in folders for path, text in texts(MANIFESTS / folder).items()}, AGAIN


def test_a_prometheus_rule_holds_the_plain_rules() -> None:
    for path in prometheus_objects.plain_files():
        plain = yaml.safe_load(path.read_text())
        made = yaml.safe_load(prometheus_objects.prometheus_rule(path.name, path.read_text()))
        assert made["kind"] == "PrometheusRule"
        assert made["spec"] == plain


def test_every_rule_file_is_installed_in_both_ways() -> None:
    names = {path.name for path in prometheus_objects.plain_files()}
    config_map = yaml.safe_load((MANIFESTS / "rules" / "kustomization.yaml").read_text())
    assert set(config_map["configMapGenerator"][0]["files"]) == names
    assert set(yaml.safe_load((MANIFESTS / "prometheus-rule" / "kustomization.yaml").read_text())["resources"]) == names


def texts(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != "kustomization.yaml")
    return {str(path.relative_to(MANIFESTS)): path.read_text() for path in files}
