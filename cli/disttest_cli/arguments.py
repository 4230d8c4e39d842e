"""Arguments that commands share."""

import argparse


def seconds(text: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of seconds above 0")
    return int(text)
