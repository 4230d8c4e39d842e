"""Permission to scrape, with tokens of a real API server and a real Prometheus."""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from disttest_operator.serving import tls_pair
from tests.support.clusters.cluster import SessionCluster
from tests.support.monitoring import prometheus, scraping
from tests.support.operators.operator import NAMESPACE, OperatorProcess, StartOperator, disttest, finished
from tools.dashboards.boards.queries import Chosen, queries
from tools.dashboards.prometheus import Prometheus

NAME = "disttest-operator.disttest-system.svc"
GUARDED = "--metrics-insecure=false"
READER, STRANGER = "reader", "stranger"


@dataclass(frozen=True, slots=True)
class Guarded:
    """An operator that authenticates scrapers, with a certificate from files."""

    operator: OperatorProcess
    files: Path
    accounts: str
    """The namespace of the clients with and without permission to scrape."""

    @property
    def ca(self) -> Path:
        return self.files / tls_pair.CERTIFICATE


@pytest.fixture(scope="module")
def guarded(
    cluster: SessionCluster, start_operator: StartOperator, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Guarded]:
    files = tmp_path_factory.mktemp("certificates")
    put(files)
    with cluster.namespace() as namespace:
        scraping.account(cluster, namespace, READER, may_scrape=True)
        scraping.account(cluster, namespace, STRANGER, may_scrape=False)
        try:
            with start_operator(GUARDED, f"--metrics-certificates={files}", log="guarded.log") as operator:
                yield Guarded(operator, files, namespace)
        finally:
            cluster.kubectl("delete", "clusterrolebinding", scraping.binding(namespace, READER), check=False)


def put(files: Path) -> None:
    made = tls_pair.self_signed([NAME], datetime.now(UTC), valid=timedelta(days=1))
    for name, content in ((tls_pair.KEY, made.key), (tls_pair.CERTIFICATE, made.certificate)):
        new = files / f"{name}.new"
        new.write_bytes(content)
        new.replace(files / name)


@pytest.mark.parametrize(
    ("account", "status", "words"),
    [
        (READER, 200, "disttest_leader 1.0"),
        (
            STRANGER,
            403,
            "stranger has no permission to get /metrics; bind it to the ClusterRole disttest-metrics-reader",
        ),
    ],
)
def test_a_service_account_reads_metrics_if_the_role_is_bound_to_it(
    account: str, status: int, words: str, cluster: SessionCluster, guarded: Guarded
) -> None:
    cluster.wait_until("it is active", functools.partial(leads, cluster, guarded), 25)
    token = scraping.token(cluster, guarded.accounts, account)
    answered, text, _ = scraping.scrape(guarded.operator, f"Bearer {token}", guarded.ca)
    assert answered == status
    assert words in text


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ("", "write the header Authorization: Bearer TOKEN"),
        ("Basic YWRtaW46YWRtaW4=", "write the header Authorization: Bearer TOKEN"),
        ("Bearer garbage", "the token is not valid"),
        ("Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJzeXN0ZW06YWRtaW4ifQ.", "the token is not valid"),
    ],
    ids=["none", "basic", "garbage", "unsigned"],
)
def test_who_shows_no_token_that_the_api_server_knows_reads_nothing(header: str, words: str, guarded: Guarded) -> None:
    status, text, headers = scraping.scrape(guarded.operator, header, guarded.ca)
    assert (status, headers["WWW-Authenticate"]) == (401, "Bearer")
    assert text.startswith(words)


def test_a_token_for_another_audience_is_unknown(cluster: SessionCluster, guarded: Guarded) -> None:
    other = cluster.kubectl("create", "token", READER, "-n", guarded.accounts, "--audience=vault").strip()
    assert scraping.scrape(guarded.operator, f"Bearer {other}", guarded.ca)[0] == 401


def test_a_role_that_is_taken_away_ends_the_reading(cluster: SessionCluster, guarded: Guarded) -> None:
    """What was answered before is kept for a minute, by token: fresh ones see it at once."""
    scraping.account(cluster, guarded.accounts, "leaving", may_scrape=True)
    fresh = functools.partial(scraping.token, cluster, guarded.accounts, "leaving")
    kept = fresh()
    cluster.wait_until("it may", lambda: status_of(guarded, fresh()) == 200, 10)
    assert status_of(guarded, kept) == 200
    cluster.kubectl("delete", "clusterrolebinding", scraping.binding(guarded.accounts, "leaving"))
    cluster.wait_until("it may not any more", lambda: status_of(guarded, fresh()) == 403, 10)


def test_health_needs_no_authentication_and_has_no_metrics(guarded: Guarded) -> None:
    assert guarded.operator.get("/healthz") == (200, "ok")
    assert guarded.operator.get("/readyz") == (200, "ok")
    assert guarded.operator.get("/metrics")[0] == 404


def test_a_standby_is_scraped_too(cluster: SessionCluster, guarded: Guarded, start_operator: StartOperator) -> None:
    """It has no write permissions, but reviews tokens. Without files it uses a self-signed certificate."""
    cluster.wait_until("the first is active", functools.partial(leads, cluster, guarded), 25)
    with start_operator(GUARDED, log="standby.log") as standby:
        token = scraping.token(cluster, guarded.accounts, READER)
        status, text, _ = scraping.scrape(standby, f"Bearer {token}")
        assert status == 200
        assert "disttest_leader 0.0" in text
        assert 'disttest_metrics_certificate_expiry_timestamp_seconds{source="own"}' in text


def test_a_certificate_that_is_renewed_is_shown_without_a_restart(cluster: SessionCluster, guarded: Guarded) -> None:
    before = guarded.ca.read_bytes()
    put(guarded.files)
    assert guarded.ca.read_bytes() != before
    header = f"Bearer {scraping.token(cluster, guarded.accounts, READER)}"

    def is_shown() -> bool:
        try:
            return scraping.scrape(guarded.operator, header, guarded.ca)[0] == 200
        except OSError:
            return False

    cluster.wait_until("the new one verifies", is_shown, 20)


def test_a_real_prometheus_scrapes_with_a_token_and_verifies_the_operator(
    cluster: SessionCluster, guarded: Guarded, namespace: str, tmp_path: Path
) -> None:
    cluster.apply(disttest(namespace, "seen", series="seen", suites=[{"name": "none-such"}]))
    finished(cluster, namespace, "seen")
    token = tmp_path / "token"
    token.touch(mode=0o600)
    token.write_text(scraping.token(cluster, guarded.accounts, READER))
    wanted = {
        "scheme": "https",
        "authorization": {"credentials_file": str(token)},
        "tls_config": {"ca_file": str(guarded.ca), "server_name": NAME},
    }
    with prometheus.running(tmp_path, scraping.config(guarded.operator.metrics_port, **wanted)) as scraper:
        selector = f'disttest_runs_total{{namespace="{namespace}",verdict="Errored",reason="UnknownSuite"}}'
        value = cluster.wait_until("Prometheus has the run", lambda: scraper.ask(selector), 20)
        assert value[0]["value"][1] == "1"
        assert value[0]["metric"]["series"] == "seen"
        assert scraper.ask("up")[0]["value"][1] == "1"
        assert scraper.ask("disttest_leader")[0]["value"][1] == "1"
        assert unanswered(scraper, namespace) == []


def unanswered(scraper: Prometheus, namespace: str) -> list[str]:
    """Queries of dashboards that ask for the operator itself and get nothing; what cannot be asked fails the test."""
    chosen = Chosen(namespace=namespace, series="seen", range_seconds=60, scrape_seconds=1)
    asked = [(query, scraper.ask(query.expr)) for query in queries(chosen)]
    asked = [(query, samples) for query, samples in asked if query.dashboard == "disttest-operator"]
    assert asked
    silent = [query for query, samples in asked if not samples and not query.need.or_empty]
    # What has changed since is asked for by the minute and hour: that takes several scrapes.
    return [query.expr for query in silent if "increase(" not in query.expr and "rate(" not in query.expr]


def test_a_prometheus_without_the_role_is_down(cluster: SessionCluster, guarded: Guarded, tmp_path: Path) -> None:
    wanted = {
        "scheme": "https",
        "authorization": {"credentials": scraping.token(cluster, guarded.accounts, STRANGER)},
        "tls_config": {"insecure_skip_verify": True},
    }
    with prometheus.running(tmp_path, scraping.config(guarded.operator.metrics_port, **wanted)) as scraper:
        up = cluster.wait_until("it was scraped", lambda: scraper.ask("up"), 20)
        assert up[0]["value"][1] == "0"
        assert scraper.ask("disttest_leader") == []


def test_no_token_is_in_the_log(cluster: SessionCluster, guarded: Guarded) -> None:
    token = scraping.token(cluster, guarded.accounts, STRANGER)
    assert status_of(guarded, token) == 403
    said = guarded.operator.log.read_text()
    assert "stranger has no permission to get /metrics" in said, "people look there for why their Prometheus shows 403"
    assert not any(part in said for part in (token, "garbage", "eyJ"))


def status_of(guarded: Guarded, token: str) -> int:
    return scraping.scrape(guarded.operator, f"Bearer {token}", guarded.ca)[0]


def leads(cluster: SessionCluster, guarded: Guarded) -> bool:
    lease = cluster.get("lease", "disttest-operator", NAMESPACE)
    holder = str((lease or {"spec": {}})["spec"].get("holderIdentity", ""))
    return f"-{guarded.operator.process.pid}-" in holder
