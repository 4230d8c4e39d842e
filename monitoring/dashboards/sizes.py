"""Message sizes: labels hold bytes, people read KiB, MiB and GiB."""

from grafana_foundation_sdk.models import dashboard as model

X_FIELD = "size"
UNITS = ("", "Ki", "Mi", "Gi")
# Those that the suite `collectives` measures unless told otherwise, and what is usual beside them; others stay bytes.
USUAL = tuple(
    base << shift for base, shift in ((4, 10), (128, 10), (1, 20), (2, 20), (32, 20), (1, 30), (8, 30), (16, 30))
)

AXIS = [
    model.DynamicConfigValue(id_val="unit", value="bytes"),
    model.DynamicConfigValue(id_val="custom.scaleDistribution", value={"type": "log", "log": 2}),
    model.DynamicConfigValue(id_val="custom.axisLabel", value="message size"),
]


def spoken(size_bytes: int) -> str:
    """1048576 is `1 MiB`; a size that is no whole number of the unit is told in the next smaller one."""
    power = 0
    while size_bytes and size_bytes % 1024 == 0 and power < len(UNITS) - 1:
        size_bytes, power = size_bytes // 1024, power + 1
    return f"{size_bytes} {UNITS[power]}B"


def renames() -> list[model.DataTransformerConfig]:
    """In legends `33554432 B` becomes `32 MiB`."""
    return [
        model.DataTransformerConfig(
            id_val="renameByRegex",
            options={"regex": f"^(.*) {size} B(.*)$", "renamePattern": f"$1 {spoken(size)}$2"},
        )
        for size in USUAL
    ]


def curves() -> list[model.DataTransformerConfig]:
    """From rows (size_bytes, point, Value) to one column a point, by rising size."""
    matrix = {"rowField": "size_bytes", "columnField": "point", "valueField": "Value", "emptyValue": "null"}
    named = {"renameByName": {"size_bytes\\point": X_FIELD}}
    numbers = {"conversions": [{"targetField": X_FIELD, "destinationType": "number"}], "fields": {}}
    rising = {"fields": {}, "sort": [{"field": X_FIELD, "desc": False}]}
    steps = (("groupingToMatrix", matrix), ("organize", named), ("convertFieldType", numbers), ("sortBy", rising))
    return [model.DataTransformerConfig(id_val=name, options=options) for name, options in steps]
