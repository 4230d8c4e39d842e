"""What authors write and clusters tell: any of it is read, or refused in sentences."""

import copy
import dataclasses
import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from disttest_contract.text import escaping
from disttest_operator.core.api import naming
from disttest_operator.core.api.model import Defaults
from disttest_operator.core.api.parse import InvalidSpecError, parse
from disttest_operator.core.hardware.user_rules import InvalidRulesError, LogPattern, PatternError, build
from disttest_operator.core.hardware.user_rules import parse as parse_rules
from disttest_operator.core.observed import decoding
from disttest_operator.core.schedule import cron
from disttest_operator.core.workload import job
from tests.data.good_manifest import GOOD
from tests.support.builders import strategies as some
from tests.support.builders.runs import UID, a_test, at

DEFAULTS = Defaults(image="runner:1")
GOOD_JSON = json.loads(json.dumps(GOOD))
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")


@given(some.spoiled(GOOD_JSON) | some.json_values)
def test_any_json_is_a_run_or_refused_in_sentences(document: Any) -> None:
    test, refusal = some.tried(InvalidSpecError, parse, document, DEFAULTS)
    if test is None:
        assert refusal != "says nothing"
        return
    for manifest in (job.build_job(test, 1, "00ff"), job.build_service(test, 1)):
        json.dumps(manifest, allow_nan=False)
        check_names(manifest)


def check_names(manifest: Mapping[str, Any]) -> None:
    metadata = manifest["metadata"]
    assert DNS_LABEL.fullmatch(metadata["name"])
    assert all(LABEL.fullmatch(value) for value in metadata["labels"].values())


@given(some.names, st.integers(1, 99), st.integers(0, 511))
def test_names_of_any_run_and_attempt_are_dns_labels_also_of_its_pods(name: str, attempt: int, index: int) -> None:
    test = dataclasses.replace(a_test(), name=name, status={})
    assert DNS_LABEL.fullmatch(f"{naming.job(test, attempt)}-{index}")
    assert DNS_LABEL.fullmatch(naming.service(test, attempt))
    config_maps = naming.report_config_map(test), naming.attempt_report_config_map(test)
    assert all(len(naming.spare_report_config_map(test, one)) <= 253 for one in config_maps)
    assert all(LABEL.fullmatch(value) for value in naming.labels(test, attempt).values())


fields = st.sampled_from(
    ["*", "?", "*/2", "1-5", "5/10", "31", "0", "59", "mon", "feb", "1,2,,3", "+7", "99", "5-1", ""]
)
schedules = st.lists(fields, min_size=4, max_size=6).map(" ".join) | some.texts | st.sampled_from([*cron.MACROS])
zones = st.sampled_from(["", "UTC", "Europe/Berlin", "America/St_Johns", "Pacific/Apia", "Europe", "../x"]) | some.texts
moments = st.datetimes(datetime(1990, 1, 1), datetime(2090, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001  # as hypothesis wants them


@settings(max_examples=60)
@given(schedules, zones, moments)
@example("30 2 * * *", "Europe/Berlin", datetime(2026, 3, 29, 1, 15, tzinfo=UTC))
@example("0 0 30 2 *", "", datetime(2026, 1, 1, tzinfo=UTC))
def test_any_schedule_is_refused_or_its_last_time_has_come_and_its_next_has_not(
    text: str, zone: str, moment: datetime
) -> None:
    try:
        known, where = cron.parse(text), cron.zone(zone)
    except cron.InvalidScheduleError:
        return
    last, following = cron.around(known, where, moment)
    assert last is None or last <= moment
    assert following is None or moment < following < moment + timedelta(days=366 * (cron.YEARS + 1))
    if following:
        again, later = cron.around(known, where, following)
        assert again == following
        assert later is None or later > following


RULE = {"logPattern": "fell off", "reason": "GPUUnhealthy", "blame": True, "verdict": "InfraFailed", "message": "look"}


@given(some.spoiled({"rules": [RULE, {"nodeCondition": {"type": "A", "status": "True"}, "reason": "NodeLost"}]}))
def test_any_rules_are_read_or_refused_in_sentences(document: Any) -> None:
    rules, refusal = some.tried(InvalidRulesError, build, document.get("rules") if isinstance(document, dict) else 0)
    assert rules is not None or refusal


@given(some.texts)
def test_any_text_is_rules_or_refused(text: str) -> None:
    some.tried(InvalidRulesError, parse_rules, text)


pieces = st.sampled_from(
    ["a", "b", "(", ")", "*", "+", "?", "|", "{1,30}", "{2}", "[ab]", "\\w", ".", "^", "$", "(?i)"]
)


@given(st.lists(pieces, min_size=1, max_size=12).map("".join), st.sampled_from(["a" * 4096, "ab" * 2048]) | some.texts)
@settings(deadline=timedelta(seconds=2))
def test_any_pattern_is_refused_or_searches_any_line_in_no_time(text: str, line: str) -> None:
    pattern, refusal = some.tried(PatternError, LogPattern, text)
    assert pattern or refusal
    if pattern:
        pattern.is_in(line)


LABELS = ("disttest.dev/name", "disttest.dev/uid", "disttest.dev/attempt", "x")
POD: dict[str, Any] = {
    "metadata": {
        "name": "nightly-a1-0-abcde",
        "namespace": "gpu-ci",
        "uid": "pod-0",
        "resourceVersion": "20",
        "creationTimestamp": "2026-11-21T02:00:02Z",
        "labels": {"disttest.dev/name": "nightly", "disttest.dev/uid": UID, "disttest.dev/attempt": "1"},
        "annotations": {"batch.kubernetes.io/job-completion-index": "0"},
    },
    "spec": {"nodeName": "node0"},
    "status": {
        "phase": "Failed",
        "message": "m",
        "reason": "r",
        "containerStatuses": [{"name": "test", "state": {"terminated": {"exitCode": 1, "message": "x"}}}],
    },
}


@given(st.dictionaries(st.sampled_from(LABELS), some.texts, max_size=4), some.texts, some.texts)
def test_a_pod_with_any_labels_and_termination_message_is_decoded_or_ignored(
    labels: dict[str, str], index: str, message: str
) -> None:
    body = copy.deepcopy(POD)
    body["metadata"] |= {"labels": labels, "annotations": {"batch.kubernetes.io/job-completion-index": index}}
    body["status"]["containerStatuses"][0]["state"]["terminated"]["message"] = message
    view = decoding.pod(body, now=at(20))
    assert view is None or (view.attempt >= 0 and view.index >= 0)


@given(some.texts)
def test_any_text_is_a_time_or_none(text: str) -> None:
    moment = decoding.time(text)
    assert moment is None or moment.tzinfo is not None


@given(some.texts)
def test_what_is_shown_of_any_text_is_printable_short_and_on_one_line(text: str) -> None:
    line = escaping.short_line(text, 256)
    assert len(line.encode()) <= 256
    assert line.isprintable()
    assert escaping.short_case_id(text).isprintable()
    assert len(escaping.short_case_id(text).encode()) <= 530
