"""Which images the manifests of a release name. Pure."""

import re
from dataclasses import dataclass

OPERATOR = "disttest-operator"
RUNNER = "disttest-runner"
DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
REGISTRY = re.compile(r"[a-z0-9.-]+(?::\d+)?(?:/[a-z0-9]+(?:[._-]+[a-z0-9]+)*)*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Images:
    """Where they are, and, where that is known, their digests: a tag may be moved, a digest cannot."""

    version: str
    registry: str = ""
    operator_digest: str = ""
    runner_digest: str = ""

    def problems(self) -> list[str]:
        found = [
            f"{name}={digest} is no digest: write sha256: and 64 hexadecimal digits, as the registry says after a push"
            for name, digest in (("OPERATOR_DIGEST", self.operator_digest), ("RUNNER_DIGEST", self.runner_digest))
            if digest and not DIGEST.fullmatch(digest)
        ]
        if self.registry and not REGISTRY.fullmatch(self.registry):
            found.append(f"REGISTRY={self.registry} is no place of images: write it without https:// and final slash")
        return found

    def named(self, manifests: str) -> str:
        """Manifests with these instead of the bare names."""
        for name, digest in ((OPERATOR, self.operator_digest), (RUNNER, self.runner_digest)):
            place = f"{self.registry}/{name}" if self.registry else name
            image = f"{place}:{self.version}" + (f"@{digest}" if digest else "")
            manifests = _bare(name, self.version).sub(image, manifests)
        return manifests

    def lacking(self, manifests: str) -> list[str]:
        """Of manifests as they are in the clone: images that they should name."""
        wanted = (OPERATOR, RUNNER)
        return [f"{name}:{self.version}" for name in wanted if not _bare(name, self.version).search(manifests)]


def _bare(name: str, version: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w/.-]){name}:{re.escape(version)}(?![\w.@-])")
