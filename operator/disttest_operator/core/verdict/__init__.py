"""The verdict on a run: ordered tables of rules. The first rule that matches decides.

The tables are ordered from the strongest to the weakest evidence:
1. BEFORE_CREATION: the spec or the cluster does not permit a gang.
2. SIGNS: logs or conditions prove that hardware is broken, whatever the tests reported.
3. RESULT: the leader's report has a result of the cases, whatever happens to the pods afterwards.
4. CANCELLED: the user cancelled the run.
5. PROVEN_ENDS: Kubernetes states why the gang ended: suspended, deleted, evicted, node lost, out of memory.
6. NEVER_STARTED: the runner could not be copied into a pod, or cannot work in its image.
7. WHILE_STARTING: the gang is not complete, and waiting longer does not help.
8. AFTER_THE_END: weaker evidence on a gang that has ended, such as exit codes and termination messages.
9. DEADLINE: the run did not end in time.
"""

from disttest_operator.core.observed.evidence import Evidence
from disttest_operator.core.verdict.not_started import NEVER_STARTED
from disttest_operator.core.verdict.pods_ended import AFTER_THE_END, CANCELLED, DEADLINE, PROVEN_ENDS
from disttest_operator.core.verdict.refused import BEFORE_CREATION, WHILE_STARTING
from disttest_operator.core.verdict.reported import RESULT, SIGNS
from disttest_operator.core.verdict.rule import Ending, ReportedRule, Rule, first_match


def rules(*, is_over: bool) -> tuple[Rule | ReportedRule, ...]:
    """The rules in order, for a gang that has ended (`is_over`) or has not."""
    early = (*BEFORE_CREATION, *SIGNS, *RESULT, *CANCELLED, *PROVEN_ENDS, *NEVER_STARTED, *WHILE_STARTING)
    return (*early, *AFTER_THE_END, *DEADLINE) if is_over else (*early, *DEADLINE)


def classify(evidence: Evidence) -> Ending | None:
    """The ending of the current attempt, or None while it is still running."""
    return first_match(rules(is_over=evidence.is_over), evidence)


def refuse(evidence: Evidence) -> Ending | None:
    """Why no gang is created, or None; a cancelled run is not checked further."""
    return first_match((*CANCELLED, *BEFORE_CREATION), evidence)
