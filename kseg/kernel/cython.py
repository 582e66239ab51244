"""A stand-in for the ``cython`` module when the kernel runs interpreted: types and decorators without effect.

Importing the real module takes 18 ms, and as a build tool it may not be installed.
"""

compiled = False
NULL = None


class _Type:
    def __getitem__(self, _key):
        return self

    def __call__(self, value=None):
        return value


uchar = uint = longlong = ulonglong = Py_ssize_t = bint = int = _Type()  # noqa: A001
void = pointer = const = _Type()


def _decorator(function=None, **_options):
    return function if function is not None else _decorator


cfunc = inline = _decorator


def exceptval(*_values, **_options):
    return _decorator


class _NoGil:
    def __call__(self, function):
        return function

    def __enter__(self):
        return None

    def __exit__(self, *_error):
        return False


nogil = _NoGil()


def cast(_type, value):
    return value


def address(value):
    return value


def declare(_type=None, value=0):
    """Returns the initial value of a variable or attribute."""
    return value
