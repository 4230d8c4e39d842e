"""The text of a scrape is made of parts that are encoded again only when their state has changed."""

from collections.abc import Iterable

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import choose_encoder

from disttest_operator.metrics.exposition import FORMATS, Exposition, ExpositionPart

TEXT, OPEN_METRICS = "", "application/openmetrics-text; version=1.0.0"


class CountedPart:
    """A part that counts how often it is made."""

    def __init__(self, key: str, number: float) -> None:
        self.key, self.number, self.times = key, number, 0

    def part(self) -> ExpositionPart:
        return ExpositionPart(key=self.key, state=self.number, make=self.make)

    def make(self) -> Iterable[Metric]:
        self.times += 1
        counter = CounterMetricFamily("looks", "How often.", labels=["who"])
        counter.add_metric([self.key], self.number)
        gauge = GaugeMetricFamily("age", "How old.", labels=["who"])
        gauge.add_metric([self.key], 7)
        return [counter, gauge]


def render(exposition: Exposition, *parts: CountedPart, accept: str = TEXT) -> str:
    encode, content_type = choose_encoder(accept)
    return exposition.render(encode, content_type, [one.part() for one in parts])


def test_families_stand_together_with_one_header_each() -> None:
    assert render(Exposition(), CountedPart("a", 1), CountedPart("b", 2)) == (
        "# HELP looks_total How often.\n"
        "# TYPE looks_total counter\n"
        'looks_total{who="a"} 1.0\n'
        'looks_total{who="b"} 2.0\n'
        "# HELP age How old.\n"
        "# TYPE age gauge\n"
        'age{who="a"} 7.0\n'
        'age{who="b"} 7.0\n'
    )


def test_open_metrics_name_counters_without_total_and_their_end_is_left_to_the_caller() -> None:
    text = render(Exposition(), CountedPart("a", 1), accept=OPEN_METRICS)
    assert "# TYPE looks counter\n" in text
    assert 'looks_total{who="a"} 1.0\n' in text
    assert "EOF" not in text


def test_only_what_has_changed_is_encoded_again() -> None:
    exposition, one, other = Exposition(), CountedPart("a", 1), CountedPart("b", 2)
    first = render(exposition, one, other)
    assert render(exposition, one, other) == first
    assert (one.times, other.times) == (1, 1)
    other.number = 3
    assert 'looks_total{who="b"} 3.0' in render(exposition, one, other)
    assert (one.times, other.times) == (1, 2)


def test_what_is_gone_is_forgotten() -> None:
    exposition, one, other = Exposition(), CountedPart("a", 1), CountedPart("b", 2)
    render(exposition, one, other)
    assert 'who="b"' not in render(exposition, one)
    render(exposition, one, other)
    assert other.times == 2


def test_a_label_that_looks_like_a_header_stays_a_label() -> None:
    text = render(Exposition(), CountedPart("# HELP x\n# TYPE y\u2028 \x0b", 1))
    assert text.count("# TYPE ") == 2 + 2, "two headers, and twice in a label"
    assert 'looks_total{who="# HELP x\\n# TYPE y\u2028 \x0b"} 1.0\n' in text


def test_formats_that_are_no_longer_requested_are_forgotten() -> None:
    exposition, one = Exposition(), CountedPart("a", 1)
    for number in range(FORMATS + 3):
        render(exposition, one, accept=f"application/openmetrics-text; version=1.0.{number}")
    assert len(exposition._kept) == FORMATS
