"""The exceptions of pushdowndb, by what the caller can do about them.

They are also those of DB-API 2.0: each is a class of this table's first column.

| DB-API | exceptions |
| --- | --- |
| ``ProgrammingError`` | ``InvalidError``, ``NotFoundError`` |
| ``NotSupportedError`` | ``UnsupportedError`` |
| ``DataError`` | ``CorruptError`` |
| ``OperationalError`` | ``DeniedError``, ``ConflictError``, ``LimitError``, ``ThrottledError``, \
``UnavailableError``, ``CancelledError`` |
| ``InternalError`` | ``BugError`` |
"""

from __future__ import annotations


class Warning(Exception):  # noqa: A001 (DB-API's name)
    """A warning; none is raised."""


class Error(Exception):
    """Any error of pushdowndb."""


class InterfaceError(Error):
    """The package was used in a way that it does not allow."""


class DatabaseError(Error):
    """An error of the engine."""


class DataError(DatabaseError):
    """The data cannot be processed."""


class OperationalError(DatabaseError):
    """Storage, network or limits prevent the statement."""


class IntegrityError(DatabaseError):
    """A constraint is violated; none is raised, since there are no constraints."""


class InternalError(DatabaseError):
    """The engine failed by itself."""


class ProgrammingError(DatabaseError):
    """The statement is wrong."""


class NotSupportedError(DatabaseError):
    """The statement asks for what there is not."""


class InvalidError(ProgrammingError):
    """The query, a value or the data is wrong: fix it."""


class NotFoundError(ProgrammingError):
    """The bucket, object, table or column does not exist."""


class UnsupportedError(NotSupportedError):
    """Valid, but not implemented here."""


class CorruptError(DataError):
    """Stored bytes contradict themselves."""


class DeniedError(OperationalError):
    """Credentials are missing or wrong, or do not permit this."""


class ConflictError(OperationalError):
    """An object changed while it was read, or something of that name exists already."""


class LimitError(OperationalError):
    """A limit that was set would be, or was, exceeded."""


class ThrottledError(OperationalError):
    """Too many requests: wait, then try again."""


class UnavailableError(OperationalError):
    """Storage failed or cannot be reached: try again."""


class CancelledError(OperationalError):
    """The statement was stopped."""


class BugError(InternalError):
    """A fault of this package."""
