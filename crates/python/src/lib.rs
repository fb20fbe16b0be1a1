//! The native half of the Python package `pushdowndb`; the other half is `python/pushdowndb`.

// There are no unit tests: a test program lacks the symbols that Python provides. The interface to
// Python is tested from Python, by tests/it.
#[cfg(not(test))]
mod module;
