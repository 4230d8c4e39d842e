"""What a run came to. The order of the tables is the policy: what proves most comes first."""

from disttest_operator.core.observed.evidence import Evidence
from disttest_operator.core.verdict.not_started import NEVER_STARTED
from disttest_operator.core.verdict.pods_ended import AFTER_THE_GANG, CANCELLED, LAST
from disttest_operator.core.verdict.refused import BEFORE_CREATION, WHILE_STARTING
from disttest_operator.core.verdict.reported import RESULT, SIGNS
from disttest_operator.core.verdict.rule import Ending, first_match

RULES = (*BEFORE_CREATION, *SIGNS, *RESULT, *CANCELLED, *AFTER_THE_GANG, *NEVER_STARTED, *WHILE_STARTING, *LAST)


def classify(evidence: Evidence) -> Ending | None:
    """The ending that the evidence proves; None as long as the run goes on."""
    return first_match(RULES, evidence)


def refuse(evidence: Evidence) -> Ending | None:
    """Why a gang must not be created."""
    return first_match((*CANCELLED, *BEFORE_CREATION), evidence)
