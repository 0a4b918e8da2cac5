"""What the author of a Python tool imports to report a failure."""

from __future__ import annotations

from runtime.tools.contract_schema import ERROR_CLASSES


class ToolError(Exception):
    """What a Python tool raises to say how it failed.

    ``error_class`` is one of the fixed set. ``applied`` answers for a writing tool: False nothing was applied, None it
    is not known, so that the contract's ``on_error`` decides.
    """

    def __init__(
        self,
        message: str = "",
        *,
        error_class: str = "business",
        code: str | None = None,
        retry_after: float | None = None,
        applied: bool | None = None,
    ) -> None:
        super().__init__(message)
        self.error_class = error_class if error_class in ERROR_CLASSES else "internal"
        self.code = code
        self.retry_after = retry_after
        self.applied = applied


class Refused(ToolError):
    """The tool will not do this, and has done nothing."""

    def __init__(self, message: str = "", *, error_class: str = "business", code: str | None = None) -> None:
        super().__init__(message, error_class=error_class, code=code, applied=False)
