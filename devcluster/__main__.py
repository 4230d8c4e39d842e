import sys

from devcluster.commands import main

sys.exit(main(sys.argv[1:]))
