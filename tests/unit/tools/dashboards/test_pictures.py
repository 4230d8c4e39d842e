"""Pictures of the dashboards, from a server that responds like Prometheus."""

import json
import threading
import urllib.parse
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure

from disttest_runner.compat import override
from tools.dashboards.boards import fabric, nights, styles
from tools.dashboards.boards.board import Board, QueryNeed
from tools.dashboards.boards.queries import DAY, Chosen, Query
from tools.dashboards.pictures import charts, number_tables
from tools.dashboards.pictures.__main__ import QueryContext, draw
from tools.dashboards.prometheus import PrometheusError, SeriesLine, ask

END = 20000 * DAY + 9 * 3600
# Of all dashboards, since together these have every kind of panel.
DRAWN = [pytest.param(board, id=board.uid) for board in (nights.BOARD, fabric.BOARD)]
LABELS = {"__name__": "x", "namespace": "n", "series": "s", "node": "gpu-01", "collective": "all_reduce"}
LABELS |= {"point": "s all_reduce", "size_bytes": "1048576", "suite": "collectives", "case": "test_x"}


class CannedAnswers(BaseHTTPRequestHandler):
    """Returns one series with a value for each step; rejects the query `refuse this`."""

    def do_POST(self) -> None:
        asked = urllib.parse.parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        if asked["query"] == ["refuse this"]:
            self._send(400, {"status": "error", "error": "parse error"})
        elif "time" in asked:
            row: dict[str, Any] = {"metric": LABELS, "value": [float(asked["time"][0]), "1"]}
            self._send(200, {"status": "success", "data": {"result": [row]}})
        else:
            start, end, step = (int(float(asked[name][0])) for name in ("start", "end", "step"))
            points = [[at, "1"] for at in range(start, end + 1, step)]
            self._send(200, {"status": "success", "data": {"result": [{"metric": LABELS, "values": points}]}})

    @override
    def log_message(self, *_: object) -> None: ...

    def _send(self, code: int, document: object) -> None:
        body = json.dumps(document).encode()
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), CannedAnswers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def a_query(expr: str = "x", *, instant: bool = False) -> Query:
    return Query(
        dashboard="d",
        panel="p",
        ref="A",
        expr=expr,
        name="{{series}} of {{absent}}",
        instant=instant,
        step_seconds=DAY,
        need=QueryNeed(),
    )


@pytest.mark.parametrize("board", DRAWN)
def test_every_panel_of_a_dashboard_can_be_drawn(board: Board, address: str, tmp_path: Path) -> None:
    chosen = Chosen(namespace="n", series="s", range_seconds=3 * DAY, points=20)
    draw(board, QueryContext(address=address, chosen=chosen, end=END), tmp_path / "board.png")
    assert (tmp_path / "board.png").read_bytes().startswith(b"\x89PNG")


def test_a_range_query_starts_at_whole_days_as_in_grafana(address: str) -> None:
    (line,) = ask(address, a_query(), END - 3 * DAY, END)
    assert [at for at, _ in line.points] == [day * DAY for day in (19997, 19998, 19999, 20000)]
    assert line.name == "s of"
    assert "__name__" not in line.labels


def test_an_instant_query_is_for_the_end_of_the_range(address: str) -> None:
    (line,) = ask(address, a_query(instant=True), END - DAY, END)
    assert line.points == ((END, 1.0),)


def test_a_rejected_query_is_reported_with_the_error_of_prometheus(address: str) -> None:
    with pytest.raises(PrometheusError, match=r"rejected the query refuse this: .*parse error"):
        ask(address, a_query("refuse this"), 0, DAY)


@pytest.mark.parametrize(
    ("address", "message"), [("http://127.0.0.1:1", "does not respond"), ("file:///etc", "Use http://HOST:PORT")]
)
def test_an_address_without_a_prometheus_is_reported(address: str, message: str) -> None:
    with pytest.raises(PrometheusError, match=message):
        ask(address, a_query(), 0, DAY)


@pytest.mark.parametrize(
    ("field", "value", "text"),
    [
        ({"unit": "s"}, 5400, "1.5 h"),
        ({"unit": "s"}, 0.0002, "200 µs"),
        ({"unit": "s"}, 0, "0 s"),
        ({"unit": "Bps"}, 3.5e11, "350 GB/s"),
        ({"unit": "bytes"}, 1 << 21, "2 MiB"),
        ({"unit": "percentunit", "decimals": 1}, 0.934, "93.4 %"),
        ({"unit": "dateTimeFromNow"}, (END - 7200) * 1000, "2 h ago"),
        ({"unit": "dateTimeFromNow"}, (END + 60) * 1000, "in 1 min"),
        ({"unit": "short"}, 1234567, "1.23 M"),
        ({}, 3, "3"),
    ],
)
def test_values_are_shown_in_the_unit_of_the_panel(field: dict[str, Any], value: float, text: str) -> None:
    assert number_tables.value_text(field, value, END) == text


def test_a_value_has_the_colour_of_the_step_that_it_reached() -> None:
    steps = [{"value": value, "color": colour} for value, colour in styles.PASS_RATIO]
    field = {"color": {"mode": "thresholds"}, "thresholds": {"steps": steps}}
    assert [number_tables.value_colour(field, value) for value in (0.5, 0.8, 1)] == [
        styles.RED,
        styles.YELLOW,
        styles.GREEN,
    ]
    assert number_tables.value_colour({"color": {"mode": "palette-classic"}}, 1) is None


def test_neighbours_of_one_value_are_one_bar_and_a_gap_ends_it() -> None:
    points = ((0.0, 1.0), (10.0, 1.0), (20.0, 2.0), (50.0, 2.0))
    line = SeriesLine(labels={}, name="x", points=points)
    assert charts.segments(line, 10) == [(0, 20, 1), (20, 30, 2), (50, 60, 2)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("s all_reduce bfloat16 1073741824 B", "s all_reduce bfloat16 1 GiB"),
        ("s all_reduce float32 4096 B threshold", "s all_reduce float32 4 KiB threshold"),
        ("s all_reduce float32 5000 B", "s all_reduce float32 5000 B"),
    ],
)
def test_legends_show_sizes_with_units(name: str, said: str) -> None:
    transformations = [{"id": change.id_val, "options": change.options} for change in styles.renames()]
    assert charts.renamed({"transformations": transformations}, name) == said


@pytest.mark.parametrize(("size", "said"), [(1 << 30, "1 GiB"), (1536, "1536 B"), (96 << 20, "96 MiB"), (0, "0 B")])
def test_a_size_is_shown_in_the_largest_whole_unit(size: int, said: str) -> None:
    assert styles.spoken(size) == said


def test_a_text_panel_shows_commands_with_the_chosen_names() -> None:
    axes = Figure().add_subplot()
    content = "`kubectl get disttests -n ${namespace:percentencode}` costs $"
    number_tables.words(axes, {"options": {"content": content}}, {"namespace": "gpu-ci"})
    (text,) = axes.texts
    assert text.get_text() == "`kubectl get disttests -n gpu-ci` costs $"
    assert not text.get_parse_math()
