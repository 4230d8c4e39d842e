"""Archives whose bytes depend on their content only. Pure."""

import gzip
import io
import tarfile
from collections.abc import Mapping


def packed(files: Mapping[str, bytes], *, folder: str, time: int) -> bytes:
    """A .tar.gz: names sorted, all of one time and owner, nothing of the machine."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(f"{folder}/{name}")
            member.size, member.mtime, member.mode = len(content), time, 0o644
            archive.addfile(member, io.BytesIO(content))
    return gzip.compress(data.getvalue(), mtime=time)
