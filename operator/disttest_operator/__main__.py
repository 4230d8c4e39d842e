"""`python -m disttest_operator`."""

import asyncio
import logging
import os
import sys

from disttest_operator import options
from disttest_operator.main import Operator
from disttest_operator.ports import ClusterError

FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"
CHATTY = ("kopf", "aiohttp", "kubernetes")  # what they tell at info is about themselves


def main() -> int:
    chosen = options.read(sys.argv[1:], os.environ)
    logging.basicConfig(level=chosen.log_level.upper(), format=FORMAT, stream=sys.stderr)
    if chosen.log_level != "debug":
        for name in CHATTY:
            logging.getLogger(name).setLevel(logging.WARNING)
    try:
        return asyncio.run(_run(chosen))
    except ClusterError as error:
        print(f"disttest_operator: {error}", file=sys.stderr)
        return 2


async def _run(chosen: options.Options) -> int:
    return await Operator(chosen).run()


if __name__ == "__main__":
    sys.exit(main())
