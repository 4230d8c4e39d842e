"""Units, texts and colours of values. A colour means the same on all dashboards and always has a text."""

from dataclasses import dataclass

from grafana_foundation_sdk.models import dashboard as model

from tools.dashboards.boards import promql

GREEN, YELLOW, RED, PURPLE = "#56A64B", "#F2CC0C", "#E02F44", "#8F3BB8"
ORANGE, BLUE, GREY, BROWN = "#FF780A", "#3274D9", "#8E8E8E", "#8B5A2B"

Words = tuple[tuple[float, str, str], ...]  # value, text, colour
Steps = tuple[tuple[float | None, str], ...]  # from this value on, colour; None: from the beginning

# The sign comes first: a narrow cell shows only the start of its text.
VERDICTS: Words = (
    (0, "✓ passed", GREEN),
    (1, "~ passed, check cases", YELLOW),
    (2, "✗ tests failed", RED),
    (3, "H hung or timed out", PURPLE),
    (4, "I infra failed or errored", ORANGE),
    (5, "C cancelled", BLUE),
    (promql.NO_RUN, "· no run", GREY),
    (promql.MISSED, "M scheduled run is missing", BROWN),
)
SUITES: Words = ((1, "✓ passed", GREEN), (0, "✗ not passed", RED))
YES_IS_BAD: Words = ((0, "no", GREEN), (1, "yes", RED))
YES_IS_KNOWN: Words = ((0, "no", GREEN), (1, "yes", BLUE))
YES_IS_GOOD: Words = ((0, "no", RED), (1, "yes", GREEN))
LEADS: Words = ((0, "standby", GREY), (1, "active", GREEN))

ANY_IS_BAD: Steps = ((None, GREEN), (1, RED))
ANY_IS_ODD: Steps = ((None, GREEN), (1, YELLOW))
NEUTRAL: Steps = ((None, BLUE),)
STREAK: Steps = ((None, RED), (0, GREY), (1, GREEN))
PASS_RATIO: Steps = ((None, RED), (0.8, YELLOW), (0.95, GREEN))
FAILING: Steps = ((None, YELLOW), (2, ORANGE), (5, RED))
TO_MEDIAN: Steps = ((None, RED), (0.93, YELLOW), (0.97, GREEN))
TO_THRESHOLD: Steps = ((None, RED), (1, GREEN))
NIGHTS_OLD: Steps = ((None, GREEN), (2 * 86400, YELLOW), (7 * 86400, RED))

_VERDICTS = {
    "Passed": GREEN,
    "TestsFailed": RED,
    "Hung": PURPLE,
    "TimedOut": "#B877D9",
    "InfraFailed": ORANGE,
    "Errored": "#FFB357",
    "Cancelled": BLUE,
}
_OUTCOMES = {
    "passed": GREEN,
    "failed": RED,
    "errored": ORANGE,
    "crashed": BROWN,
    "hung": PURPLE,
    "skipped": "#B0B0B0",
    "xfailed": "#96D98D",
    "xpassed": YELLOW,
    "notRun": "#6E6E6E",
}
RUN_VERDICTS, OUTCOMES = tuple(_VERDICTS.items()), tuple(_OUTCOMES.items())


@dataclass(frozen=True, slots=True, kw_only=True)
class FieldStyle:
    """How the values of a panel are shown; `lowest` and `highest` limit the axis."""

    unit: str = "short"
    decimals: int | None = None
    words: Words = ()
    steps: Steps = NEUTRAL
    by_steps: bool = False
    dashed: bool = False
    lowest: float | None = None
    highest: float | None = None
    log: int = 0
    colours: tuple[tuple[str, str], ...] = ()


def mappings(words: Words) -> list[model.ValueMapping]:
    texts = {
        f"{value:g}": model.ValueMappingResult(text=text, color=colour, index=index)
        for index, (value, text, colour) in enumerate(words)
    }
    return [model.ValueMap(options=texts)] if texts else []


def thresholds(steps: Steps) -> model.ThresholdsConfig:
    rows = [model.Threshold(value=value, color=colour) for value, colour in steps]
    return model.ThresholdsConfig(mode=model.ThresholdsMode.ABSOLUTE, steps=rows)


def apply(style: FieldStyle, panel: model.Panel) -> None:
    if panel.field_config is None:
        panel.field_config = model.FieldConfigSource()
    fields = panel.field_config.defaults
    fields.unit, fields.decimals = style.unit, style.decimals
    fields.min_val, fields.max_val = style.lowest, style.highest
    fields.mappings, fields.thresholds = mappings(style.words), thresholds(style.steps)
    mode = (
        model.FieldColorModeId.THRESHOLDS if style.by_steps or style.words else model.FieldColorModeId.PALETTE_CLASSIC
    )
    fields.color = model.FieldColor(mode=mode)
    panel.field_config.overrides += [_coloured(name, colour) for name, colour in style.colours]


def _coloured(name: str, colour: str) -> model.DashboardFieldConfigSourceOverrides:
    fixed = {"mode": model.FieldColorModeId.FIXED, "fixedColor": colour}
    return model.DashboardFieldConfigSourceOverrides(
        matcher=model.MatcherConfig(id_val="byName", options=name),
        properties=[model.DynamicConfigValue(id_val="color", value=fixed)],
    )


X_FIELD = "size"
UNITS = ("", "Ki", "Mi", "Gi")
# The default sizes of the suite `collectives` and other usual ones; the rest stays in bytes.
USUAL = tuple(
    base << shift for base, shift in ((4, 10), (128, 10), (1, 20), (2, 20), (32, 20), (1, 30), (8, 30), (16, 30))
)

AXIS = [
    model.DynamicConfigValue(id_val="unit", value="bytes"),
    model.DynamicConfigValue(id_val="custom.scaleDistribution", value={"type": "log", "log": 2}),
    model.DynamicConfigValue(id_val="custom.axisLabel", value="message size"),
]


def spoken(size_bytes: int) -> str:
    """The size in its largest whole unit: 1048576 is `1 MiB`."""
    power = 0
    while size_bytes and size_bytes % 1024 == 0 and power < len(UNITS) - 1:
        size_bytes, power = size_bytes // 1024, power + 1
    return f"{size_bytes} {UNITS[power]}B"


def renames() -> list[model.DataTransformerConfig]:
    """Legend transformations: `33554432 B` becomes `32 MiB`."""
    return [
        model.DataTransformerConfig(
            id_val="renameByRegex",
            options={"regex": f"^(.*) {size} B(.*)$", "renamePattern": f"$1 {spoken(size)}$2"},
        )
        for size in USUAL
    ]


def curves() -> list[model.DataTransformerConfig]:
    """Transformations from rows (size_bytes, point, Value) to one column for each point, by rising size."""
    matrix = {"rowField": "size_bytes", "columnField": "point", "valueField": "Value", "emptyValue": "null"}
    named = {"renameByName": {"size_bytes\\point": X_FIELD}}
    numbers = {"conversions": [{"targetField": X_FIELD, "destinationType": "number"}], "fields": {}}
    rising = {"fields": {}, "sort": [{"field": X_FIELD, "desc": False}]}
    steps = (("groupingToMatrix", matrix), ("organize", named), ("convertFieldType", numbers), ("sortBy", rising))
    return [model.DataTransformerConfig(id_val=name, options=options) for name, options in steps]
