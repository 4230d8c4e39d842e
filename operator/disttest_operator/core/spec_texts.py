"""Texts that several fields of a spec share: names as Kubernetes takes them, and what is said of refused fields."""

from disttest_operator.core.schema import Text

DNS_LABEL = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"
DNS_1035 = r"^[a-z]([-a-z0-9]*[a-z0-9])?$"
DNS_SUBDOMAIN = r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"
QUALIFIED_NAME = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$"
LABEL_VALUE = r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"

NOT_YET = "is not supported by this version of DistTest; leave it out"
OURS = "is set by the operator; leave it out"

NAME = Text(
    min_length=1,
    max_length=63,
    pattern=DNS_LABEL,
    advice="write lower-case letters, digits and '-', beginning and ending with a letter or digit",
)


def object_name(what: str) -> Text:
    return Text(
        min_length=1,
        max_length=253,
        pattern=DNS_SUBDOMAIN,
        advice=f"write the name of {what}: lower-case letters, digits, '-' and '.', a letter or digit at both ends",
    )
