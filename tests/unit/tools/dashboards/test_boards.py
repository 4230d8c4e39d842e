"""Rules for every dashboard; most of them are those that people who lint dashboards have agreed on."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from tools.dashboards.boards import DASHBOARDS
from tools.dashboards.boards.board import COLUMNS, Board, to_json

COMMITTED = Path("manifests/monitoring/dashboards")
APPLY_LIMIT_BYTES = 256 * 1024  # of all annotations; client-side apply keeps the whole object in one
PICTURES = {"status-history", "state-timeline", "timeseries", "stat", "bargauge", "trend", "table"}

Json = dict[str, Any]


def boards() -> list[Any]:
    return [pytest.param(board, id=board.uid) for board in DASHBOARDS]


def loaded(board: Board) -> Json:
    document: Json = json.loads(to_json(board))
    return document


def panels(board: Board) -> list[Json]:
    return [panel for panel in loaded(board)["panels"] if panel["type"] != "row"]


def asking(board: Board) -> list[Json]:
    return [panel for panel in panels(board) if panel["type"] != "text"]


each = pytest.mark.parametrize("board", boards())


def test_what_is_committed_is_what_the_code_writes() -> None:
    written = {f"{board.uid}.json": to_json(board) for board in DASHBOARDS}
    committed = {file.name: file.read_text() for file in COMMITTED.glob("*.json")}
    assert written == committed, "run `python -m tools.dashboards` and commit what it wrote"


def test_each_dashboard_is_delivered_by_a_config_map() -> None:
    kustomization = yaml.safe_load((COMMITTED / "kustomization.yaml").read_text())
    files = [file for generator in kustomization["configMapGenerator"] for file in generator["files"]]
    assert sorted(files) == sorted(f"{board.uid}.json" for board in DASHBOARDS)
    assert kustomization["generatorOptions"]["labels"]["grafana_dashboard"] == "1"
    assert kustomization["generatorOptions"]["disableNameSuffixHash"] is True


@each
def test_client_side_apply_can_keep_the_config_map_in_its_annotation(board: Board) -> None:
    config_map = {"kind": "ConfigMap", "data": {f"{board.uid}.json": to_json(board)}}
    assert len(json.dumps(config_map, ensure_ascii=True).encode()) < APPLY_LIMIT_BYTES - 4096


@each
def test_a_dashboard_is_read_only_in_utc_refreshes_and_has_a_fixed_name(board: Board) -> None:
    document = loaded(board)
    assert document["editable"] is False
    assert document["timezone"] == "utc"
    assert document["refresh"]
    assert document["schemaVersion"] >= 40
    assert document["uid"].startswith("disttest-")
    assert 8 <= len(document["uid"]) <= 40
    assert document["description"]
    assert "id" not in document


def test_names_of_dashboards_differ() -> None:
    assert len({board.uid for board in DASHBOARDS}) == len(DASHBOARDS)
    assert len({board.title for board in DASHBOARDS}) == len(DASHBOARDS)


@each
def test_a_dashboard_links_to_the_others_and_keeps_what_is_chosen(board: Board) -> None:
    document = loaded(board)
    (link,) = document["links"]
    assert link["type"] == "dashboards"
    assert set(link["tags"]) <= set(document["tags"])
    assert link["includeVars"]
    assert link["keepTime"]


@each
def test_the_data_source_is_a_variable_and_all_use_it(board: Board) -> None:
    document = loaded(board)
    sources = [variable for variable in document["templating"]["list"] if variable["type"] == "datasource"]
    assert [(source["name"], source["label"], source["query"]) for source in sources] == [
        ("datasource", "Data source", "prometheus")
    ]
    users = [panel["datasource"] for panel in asking(board)]
    users += [target["datasource"] for panel in asking(board) for target in panel["targets"]]
    users += [variable["datasource"] for variable in document["templating"]["list"] if variable["type"] == "query"]
    assert all(user == {"type": "prometheus", "uid": "${datasource}"} for user in users)


@each
def test_lists_of_variables_are_read_again_when_the_time_range_changes(board: Board) -> None:
    asked = [variable for variable in loaded(board)["templating"]["list"] if variable["type"] == "query"]
    assert asked
    assert all(variable["refresh"] == 2 for variable in asked)
    assert all(variable["label"] for variable in asked)


@each
def test_a_variable_takes_several_values_and_all_or_exactly_one(board: Board) -> None:
    for variable in loaded(board)["templating"]["list"]:
        if variable["type"] != "query":
            continue
        if board.uid == "disttest-series":
            assert (variable["multi"], variable["includeAll"]) == (False, False)
        else:
            assert (variable["multi"], variable["includeAll"], variable["allValue"]) == (True, True, ".*")
            assert variable["current"]["value"] == ["$__all"]


@each
def test_every_variable_is_used(board: Board) -> None:
    text = "".join(target["expr"] for panel in asking(board) for target in panel["targets"])
    for variable in loaded(board)["templating"]["list"]:
        if variable["type"] == "query":
            assert f"${variable['name']}" in text


@each
def test_every_panel_has_a_unique_title_and_a_description(board: Board) -> None:
    titles = [panel["title"] for panel in panels(board)]
    assert all(titles)
    assert len(set(titles)) == len(titles)
    assert all(panel["description"].endswith(".") for panel in panels(board))


@each
def test_every_panel_with_numbers_has_a_unit_and_a_query(board: Board) -> None:
    for panel in asking(board):
        assert panel["type"] in PICTURES, panel["title"]
        assert panel["targets"], panel["title"]
        assert panel["fieldConfig"]["defaults"]["unit"], panel["title"]


@each
def test_queries_of_a_panel_have_different_letters_and_end_where_a_table_expects_it(board: Board) -> None:
    for panel in asking(board):
        assert [target["refId"] for target in panel["targets"]] == [
            chr(ord("A") + index) for index in range(len(panel["targets"]))
        ]
        if panel["type"] in {"table", "trend"}:
            assert all(target["instant"] and target["format"] == "table" for target in panel["targets"])


@each
def test_panels_are_within_the_grid_and_do_not_overlap(board: Board) -> None:
    taken: dict[tuple[int, int], str] = {}
    for panel in loaded(board)["panels"]:
        place = panel["gridPos"]
        assert place["x"] + place["w"] <= COLUMNS
        columns = range(place["x"], place["x"] + place["w"])
        for cell in itertools.product(columns, range(place["y"], place["y"] + place["h"])):
            assert cell not in taken, f"{panel['title']!r} lies on {taken[cell]!r}"
            taken[cell] = panel["title"]


@each
def test_panels_have_different_numbers(board: Board) -> None:
    numbers = [panel["id"] for panel in loaded(board)["panels"]]
    assert len(set(numbers)) == len(numbers)


@each
def test_a_value_of_a_day_is_queried_once_a_day(board: Board) -> None:
    for panel in asking(board):
        nightly = any("offset -1d" in target["expr"] for target in panel["targets"])
        if nightly or panel["type"] == "status-history":
            assert panel["interval"] == "1d", panel["title"]


@each
def test_colour_is_never_alone(board: Board) -> None:
    """Where values are coloured by mapping, each has a different text, with a different first sign."""
    for panel in asking(board):
        settings = panel["fieldConfig"]
        mappings = settings["defaults"].get("mappings") or []
        changed = [change for override in settings["overrides"] for change in override["properties"]]
        mappings += [mapping for change in changed if change["id"] == "mappings" for mapping in change["value"]]
        for mapping in mappings:
            texts = [option["text"] for option in mapping["options"].values()]
            assert len({text[0] for text in texts}) == len(texts), panel["title"]


@each
def test_a_link_to_a_dashboard_leads_to_one_that_exists(board: Board) -> None:
    known = {other.uid for other in DASHBOARDS}
    linked = re.findall(r"/d/([\w-]+)", to_json(board))
    assert set(linked) <= known


@each
def test_values_of_labels_are_not_markup_and_only_validated_names_are_part_of_links(board: Board) -> None:
    text = to_json(board)
    written = {
        panel["options"]["mode"]: panel["options"]["content"] for panel in panels(board) if panel["type"] == "text"
    }
    assert set(written) <= {"markdown"}
    for content in written.values():
        assert set(re.findall(r"\$\{?(\S+?)[}\s`]", content)) <= {"namespace:percentencode", "series:percentencode"}
    linked = set(re.findall(r"\$\{([^}]+)\}", "".join(re.findall(r'"url": "([^"]*)"', text))))
    assert {one.lower().rpartition(".")[2] for one in linked} <= {
        "namespace",
        "series",
        "datasource:queryparam",
        "__url_time_range",
    }


@pytest.mark.parametrize("uid", ["disttest-nights", "disttest-series"])
def test_a_dashboard_has_the_command_that_shows_a_whole_report(uid: str) -> None:
    (board,) = (board for board in DASHBOARDS if board.uid == uid)
    texts = [panel["options"]["content"] for panel in panels(board) if panel["type"] == "text"]
    assert any("kubectl disttest report NAME" in text for text in texts)
