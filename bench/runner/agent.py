"""The product's agent, with another zygote if asked for; when it ends it says what it used."""

import os
import sys

from bench.runner.gangs import ZYGOTE
from bench.runner.watch import QuestionTimer
from disttest_runner import __main__ as product
from disttest_runner.zygote import zygote_client


def main() -> int:
    watch = QuestionTimer()
    zygote_client.PROGRAM = os.environ.get(ZYGOTE, zygote_client.PROGRAM)
    code = product.main()
    watch.write()
    return code


if __name__ == "__main__":
    sys.exit(main())
