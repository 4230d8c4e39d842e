"""What a run came to. The order of the tables is the policy: what proves most comes first."""

from disttest_operator.core.endings import AFTER_THE_GANG, CANCELLED, LAST
from disttest_operator.core.evidence import Evidence
from disttest_operator.core.refusals import BEFORE_CREATION, WHILE_STARTING
from disttest_operator.core.rule import Ending, first_match
from disttest_operator.core.starting import NEVER_STARTED
from disttest_operator.core.told import RESULT, SIGNS

RULES = (*BEFORE_CREATION, *SIGNS, *RESULT, *CANCELLED, *AFTER_THE_GANG, *NEVER_STARTED, *WHILE_STARTING, *LAST)


def classify(evidence: Evidence) -> Ending | None:
    """The ending that the evidence proves; None as long as the run goes on."""
    return first_match(RULES, evidence)


def refuse(evidence: Evidence) -> Ending | None:
    """Why a gang must not be created."""
    return first_match((*CANCELLED, *BEFORE_CREATION), evidence)
