"""`python -m disttest_operator`."""

import asyncio
import logging
import os
import sys

from disttest_operator.config import log_format, options
from disttest_operator.core.api.api_errors import ApiServerError
from disttest_operator.main import Operator

log = logging.getLogger(__name__)


def main() -> int:
    chosen = options.read(sys.argv[1:], os.environ)
    log_format.set_up(chosen.log_level, chosen.log_format)
    try:
        return asyncio.run(Operator(chosen).run())
    except ApiServerError as error:
        log.error("%s", error)  # noqa: TRY400  # the traceback is of no use
        return 2


if __name__ == "__main__":
    sys.exit(main())
