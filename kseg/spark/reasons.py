"""The reasons of Spark's errors, without the stack traces of Python and Java and the plans of streams."""

import re
from functools import wraps

from kseg.errors import KsegError

_OWN_ERROR = re.compile(r"^kseg\.errors\.\w+: (.*)$", re.MULTILINE)
_PYTHON_ERROR = re.compile(r"^(\w[\w.]*(?:Error|Exception|Interrupt)\b.*)$", re.MULTILINE)
_JAVA_CAUSE = re.compile(r"^\s*Caused by: [\w.$]+: (.*)$", re.MULTILINE)
_STATE = re.compile(r"\s*SQLSTATE: \w+")


def reason_of(error: BaseException) -> KsegError:
    """Returns an error of Spark, also of a stream, as a KsegError: the original message, without the stack trace."""
    if isinstance(error, KsegError):
        return error
    text = str(error)
    for pattern in (_OWN_ERROR, _PYTHON_ERROR):
        if found := pattern.findall(text):
            return KsegError(found[-1])
    java = getattr(error, "java_exception", None)
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    message = str(java.getMessage() if java is not None else first).splitlines()[0]
    # Of an error of the JVM, such as a full disk of another format, the message names the step and not the cause.
    causes = [cause for cause in _JAVA_CAUSE.findall(f"{text}\n{_java_trace_of(error)}") if cause not in message]
    return KsegError(_STATE.sub("", ": ".join([f"Spark: {message}", *causes[-1:]])))


def _java_trace_of(error: BaseException) -> str:
    """Returns the stack trace of the JVM, which is not in the text of a stream's error."""
    return getattr(error, "_stackTrace", None) or ""


def end_with_reasons(kind: type[Exception]) -> None:
    """Lets the texts of an exception of PySpark end with the error of kseg that caused it, in this process.

    ``kind``: StreamingQueryException, whose text ends with the plan of the stream, far behind the cause; PySpark has no
    hook for it. Errors with other causes keep their text. A second call changes nothing.
    """
    text_of_spark = kind.__str__
    if getattr(text_of_spark, "has_reason", False):
        return

    @wraps(text_of_spark)
    def text_with_reason(error: BaseException) -> str:
        text = text_of_spark(error)
        found = _OWN_ERROR.findall(text)
        return f"{text.rstrip()}\n\nkseg: {found[-1]}" if found else text

    text_with_reason.has_reason = True  # type: ignore[attr-defined]
    kind.__str__ = text_with_reason  # type: ignore[method-assign]
