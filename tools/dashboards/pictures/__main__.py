"""Draws the dashboards from a Prometheus into pictures for the documentation, one a dashboard."""

import argparse
import sys
import time
from datetime import datetime
from pathlib import Path

from tools.dashboards.boards import DASHBOARDS
from tools.dashboards.boards.queries import DAY, Chosen
from tools.dashboards.pictures.page import QueryContext, draw
from tools.dashboards.prometheus import PrometheusError


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.dashboards.pictures", description=__doc__)
    parser.add_argument("--prometheus", required=True, metavar="ADDRESS", help="http://HOST:PORT")
    parser.add_argument("--namespace", required=True, help="the one of the series that is drawn in depth")
    parser.add_argument("--series", required=True, help="the series that is drawn in depth")
    parser.add_argument("--days", type=int, default=60, help="how far back (60)")
    parser.add_argument("--end", type=datetime.fromisoformat, help="until when, as 2026-01-31T12:00+00:00 (now)")
    parser.add_argument("--scrape-seconds", type=int, default=30, help="how often Prometheus asked the operator (30)")
    parser.add_argument(
        "--to", type=Path, default=Path("docs/images"), help="the folder for the pictures (docs/images)"
    )
    options = parser.parse_args()
    end = options.end.timestamp() if options.end else time.time()
    options.to.mkdir(parents=True, exist_ok=True)
    for board in DASHBOARDS:
        days = options.days if board.since.endswith("d") else 1
        chosen = Chosen(
            namespace=options.namespace,
            series=options.series,
            range_seconds=days * DAY,
            scrape_seconds=options.scrape_seconds,
        )
        file = options.to / f"{board.uid}.png"
        try:
            draw(board, QueryContext(address=options.prometheus, chosen=chosen, end=end), file)
        except PrometheusError as error:
            print(f"render: {error}", file=sys.stderr)
            return 1
        print(file)
    return 0


if __name__ == "__main__":
    sys.exit(main())
