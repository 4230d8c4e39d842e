"""A report as one page that needs no network: everything is in it, and without its script it can still be read."""

from disttest_cli.formats.html.page import render

__all__ = ["render"]
