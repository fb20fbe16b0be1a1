//! Choices that are read from the front of an input, so that the fuzzer finds options in the same
//! way as bytes.

/// The unread rest of an input.
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    /// Reads a byte; 0 at the end of the input.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Reads a choice of one of `all`.
    pub fn of<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        all[usize::from(self.byte()) % N]
    }

    /// Reads eight flags.
    pub fn flags(&mut self) -> impl FnMut() -> bool + use<> {
        let mut flags = self.byte();
        move || {
            let flag = flags & 1 == 1;
            flags >>= 1;
            flag
        }
    }

    /// Returns the remaining bytes.
    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}
