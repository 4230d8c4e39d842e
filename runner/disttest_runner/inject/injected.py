"""What `python3 DIR` runs in another image than the runner's: checks that the runner can work there, then runs it.

It must work with Python 3.6 and without the rest of the runner, since it reports that a Python is too old.
"""

import importlib.util
import json
import os
import runpy
import sys
from pathlib import Path

OLDEST = (3, 11)
NEEDED = ("torch", "numpy")
CONFIGURATION = 30  # the exit code: another attempt would end the same


def problem() -> str:
    """Return why the runner cannot work here; empty if it can."""
    here, oldest = (".".join(map(str, version[:2])) for version in (sys.version_info, OLDEST))
    if sys.version_info[:2] < OLDEST:
        return (
            f"the image has Python {here} ({sys.executable}), but the runner requires {oldest} or newer. "
            "Use an image with a newer Python"
        )
    for name in NEEDED:
        if importlib.util.find_spec(name) is None:
            return f"the image's Python ({sys.executable}, {here}) has no {name}. Use an image with torch and numpy"
    return ""


def refuse(message: str) -> int:
    """Report an error in the log and in the termination message, which the operator reads first."""
    print(f"Errored (ContainerStartError): {message}", flush=True)
    try:
        plan = json.loads(os.environ.get("DISTTEST_PLAN", ""))
        uid, attempt = plan["uid"], plan["attempt"]
    except (ValueError, KeyError, TypeError):
        uid, attempt = "", 0
    summary = {
        "schema": 1,
        "uid": uid,
        "attempt": attempt,
        "nodeIndex": int(os.environ.get("JOB_COMPLETION_INDEX") or 0),
        "step": "finished",
        "verdict": "Errored",
        "reason": "ContainerStartError",
        "message": message,
    }
    path = os.environ.get("DISTTEST_TERMINATION_LOG") or "/dev/termination-log"
    try:
        Path(path).write_text(json.dumps(summary))
    except OSError as error:
        print(f"warning: the termination message cannot be written to {path}: {error.strerror}", flush=True)
    return CONFIGURATION


def main() -> int:
    message = problem()
    if message:
        return refuse(message)
    here = str(Path(__file__).absolute().parent)
    # For the processes that the runner starts; the image's values stay, after the runner's.
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (here, os.environ.get("PYTHONPATH"))))
    os.environ["PATH"] = os.pathsep.join(filter(None, (os.environ.get("PATH"), f"{here}/bin")))
    runpy.run_module("disttest_runner", run_name="__main__", alter_sys=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
