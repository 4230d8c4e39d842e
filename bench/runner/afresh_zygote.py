"""The product's zygote, told that forking is unsafe: every rank imports for itself, as upstream's harness has it."""

from disttest_runner.zygote import zygote

if __name__ == "__main__":
    zygote.why_unsafe = lambda: "a benchmark wants to know what it would cost"
    zygote.main()
