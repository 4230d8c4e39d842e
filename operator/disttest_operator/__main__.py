"""`python -m disttest_operator`."""

import asyncio
import logging
import os
import sys

from disttest_operator.config import log_format, options
from disttest_operator.kubernetes.ports import ClusterError
from disttest_operator.main import Operator

log = logging.getLogger(__name__)


def main() -> int:
    chosen = options.read(sys.argv[1:], os.environ)
    log_format.set_up(chosen.log_level, chosen.log_format)
    try:
        return asyncio.run(Operator(chosen).run())
    except ClusterError as error:
        log.error("%s", error)  # noqa: TRY400  # the traceback says nothing
        return 2


if __name__ == "__main__":
    sys.exit(main())
