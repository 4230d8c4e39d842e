"""Evidence of every way in which a run can end, and what each comes to."""

from tests.support.endings.ending_row import ENDED, GANG_LOST, GPUS, SMALL_NODES, EndingRow
from tests.support.endings.endings_of_images import OF_IMAGES
from tests.support.endings.endings_of_pods import OF_PODS
from tests.support.endings.endings_of_runs import OF_RUNS

__all__ = ["ENDED", "GANG_LOST", "GPUS", "ROWS", "SMALL_NODES", "EndingRow"]

ROWS = OF_RUNS | OF_PODS | OF_IMAGES
