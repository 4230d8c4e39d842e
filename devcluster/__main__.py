import sys

from devcluster.command_line import main

sys.exit(main(sys.argv[1:]))
