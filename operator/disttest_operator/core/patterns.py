"""Which regular expressions may search a log: what they find must mean something, and searching must end soon."""

import re

PROBES = ("", " ", "a b")  # who finds nothing in one of them finds it in every line
UNBOUNDED = re.compile(r"[*+]|\{\d*,\}")
REPEATED = re.compile(r"[*+]|\{\d*,?\d*\}")
REPETITIONS = 2  # without a bound, of one pattern: each more makes the worst line four thousand times slower


def problem(pattern: str) -> str:
    """What to write instead; nothing if the pattern will do."""
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        return f"is no regular expression of Python ({error}); correct it"
    for probe in PROBES:
        found = compiled.search(probe)
        if found and not found.group():
            return "matches nothing at all, and so every line; write something that must be there"
    if re.match(r"\^?\.[*+]", pattern):
        return "begins with .* or .+, which makes searching slow; leave that away, it is found anywhere in a line"
    plain = _without_characters(pattern)
    if _repeats_a_repetition(plain):
        return "repeats a group that itself repeats, like (a+)+, which may take for ever; write it with one repetition"
    if len(UNBOUNDED.findall(plain)) > REPETITIONS:
        return f"has more than {REPETITIONS} of *, + and {{n,}}, which may take for ever; write bounds, like .{{0,80}}"
    return ""


def _without_characters(pattern: str) -> str:
    """Sets and what is escaped, each as one plain character: the rest shows what is repeated."""
    text = re.sub(r"\\.", "_", pattern, flags=re.DOTALL)
    return re.sub(r"\[\^?\]?[^\]]*\]", "_", text)


def _repeats_a_repetition(plain: str) -> bool:
    """Whether a group is repeated in which something unbounded is."""
    has_repetition = [False]  # of each group that is open, the whole pattern first
    place = 0
    while place < len(plain):
        repetition = UNBOUNDED.match(plain, place)
        if plain[place] == "(":
            has_repetition.append(False)
        elif plain[place] == ")" and len(has_repetition) > 1:
            inside = has_repetition.pop()
            if inside and REPEATED.match(plain, place + 1):
                return True
            has_repetition[-1] = has_repetition[-1] or inside
        elif repetition:
            has_repetition[-1] = True
            place = repetition.end() - 1
        place += 1
    return False
