"""What an object store refuses, in words that name no secret."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from backend.errors import ConfigError, DatasetError

_CODE = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))?|Status\((\w+)")
"""How pyarrow's texts name an error of S3, and one of Google's. The rest of a text may hold a key."""

_CREDENTIALS = (
    "check the credentials that pyarrow finds, for S3 AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY;"
    " they must be allowed to list, write and delete objects there"
)
_CAUSES = (
    (
        re.compile("NO_SUCH_BUCKET|NOT_FOUND|404"),
        "there is no such bucket",
        "create the bucket, or correct its name",
    ),
    (
        re.compile("NETWORK_CONNECTION|UNAVAILABLE|TIMEOUT|DEADLINE_EXCEEDED"),
        "the object store does not answer",
        "check the network; a server of your own is named by endpoint_override and scheme in the address",
    ),
    (
        re.compile("DENIED|ACCESS_KEY|SIGNATURE|TOKEN|CLIENT|CREDENTIALS|UNAUTHENTICATED|40[13]"),
        "the object store refuses these credentials",
        _CREDENTIALS,
    ),
)


@contextmanager
def told(where: str) -> Iterator[None]:
    """Raise pyarrow's errors as ours, without their texts.

    Args:
        where: the name of the folder or object.

    Raises:
        ConfigError: pyarrow does not understand the address.
        DatasetError: the object store refuses or does not answer.
    """
    try:
        yield
    except OSError as error:
        message, fix = _cause(error)
        raise DatasetError(message, where=where, fix=fix) from None
    except ValueError:
        raise ConfigError(
            f"pyarrow does not understand the address of {where}",
            where="--out",
            fix="correct the options after ?, such as endpoint_override=HOST:PORT, scheme=http and region",
        ) from None


def _cause(error: OSError) -> tuple[str, str]:
    """What went wrong, and what to do."""
    found = _CODE.search(str(error))
    code = " ".join(filter(None, found.groups())) if found else ""
    if not code and re.search("Bucket .* not found", str(error)):
        code = "NO_SUCH_BUCKET"
    for pattern, message, fix in _CAUSES:
        if pattern.search(code):
            return message, fix
    return (
        f"the object store cannot be used: {code or type(error).__name__}",
        "check the bucket, its region and the credentials",
    )
