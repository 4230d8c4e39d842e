"""A report as one self-contained HTML page, which is readable without its script."""

from disttest_cli.formats.html.page import render

__all__ = ["render"]
