//! The native half of the Python package `pushdowndb`; the other half is `python/pushdowndb`.

// Unit tests would be a program, which lacks the symbols that Python has. What Python sees is tested
// from Python, by tests/it.
#[cfg(not(test))]
mod module;
