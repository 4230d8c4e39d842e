"""How the value of a flag is read: each reader raises ValueError with a sentence that says what to write."""

import ipaddress
import re
from collections.abc import Callable
from pathlib import Path

from disttest_operator.core.api import allowances, schema, spec_schema
from disttest_operator.core.api.allowances import Allowance
from disttest_operator.core.hardware import user_rules
from disttest_operator.core.hardware.user_rules import UserRule

TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
NAMESPACES = 64  # each has five watches of its own
ADDRESS = re.compile(r"(?:[^\s:]*|\[[^\s\]]+\]):(\d{1,5})")

Read = Callable[[str, str], object]  # of a text, and who says so


def by(rule: schema.Text | schema.Whole) -> Read:
    """By the same rules and sentences as a DistTest."""

    def read(text: str, source: str) -> object:
        value = int(text) if isinstance(rule, schema.Whole) and re.fullmatch(r"[0-9]{1,9}", text) else text
        for problem in schema.check(rule, value, source):
            raise ValueError(problem)
        return value

    return read


def truth(text: str, source: str) -> bool:
    if text.lower() not in TRUTHS:
        raise ValueError(f"{source}: write true or false, not {text!r}")
    return TRUTHS[text.lower()]


def address(text: str, source: str) -> str:
    found = ADDRESS.fullmatch(text)
    if not found or not 0 < int(found[1]) < 1 << 16:
        raise ValueError(f"{source}: write host:port or :port, not {text!r}")
    return text


def is_loopback(address: str) -> bool:
    """Whether only this machine, or this pod, can reach it."""
    host = address.rpartition(":")[0].strip("[]")
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def directory(text: str, source: str) -> str:
    if text and not Path(text).is_dir():
        raise ValueError(f"{source}: {text!r} is no directory, write the path of one that holds tls.crt and tls.key")
    return text


def namespace(text: str, source: str) -> str:
    if not text:
        return text
    if len(text) > 63 or not schema.matches(schema.DNS_LABEL, text):
        raise ValueError(f"{source}: write the name of a namespace: lower-case letters, digits and '-', not {text!r}")
    return text


def namespaces(text: str, source: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",")) if text.strip() else ()
    if not all(namespace(name, source) for name in names):
        raise ValueError(f"{source}: write names of namespaces with single commas between, not {text!r}")
    if len(set(names)) < len(names) or len(names) > NAMESPACES:
        raise ValueError(f"{source}: write each namespace once, at most {NAMESPACES}; for more leave it out: all")
    return names


def allow(text: str, source: str) -> tuple[Allowance, ...]:
    return tuple(allowances.parse(item.strip(), source) for item in text.split(",")) if text.strip() else ()


def rules(text: str, source: str) -> tuple[UserRule, ...]:
    if not text:
        return ()
    try:
        return user_rules.parse(Path(text).read_text(encoding="utf-8"))
    except OSError as error:
        raise ValueError(f"{source}: {text!r} cannot be read ({error.strerror}), write the path of a file") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"{source}: {text!r} is not UTF-8 text, write the path of a YAML file") from error
    except user_rules.InvalidRulesError as error:
        raise ValueError(f"{source}: {text!r}: {error}") from error


def plain(text: str, _: str) -> str:
    return text


def whole(minimum: int, maximum: int) -> Read:
    return by(schema.Whole(minimum=minimum, maximum=maximum))


def one_of(*choices: str) -> Read:
    return by(schema.Text(max_length=max(map(len, choices)), choices=choices))


def of_spec(field: str) -> Read:
    rule = spec_schema.SPEC.fields[field]
    if not isinstance(rule, schema.Text):
        raise TypeError(field)
    return by(rule)
