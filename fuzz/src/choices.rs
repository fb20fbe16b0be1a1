//! Choices taken from the front of an input, so that the fuzzer finds options as it finds bytes.

/// The rest of an input.
pub struct Choices<'a>(&'a [u8]);

impl<'a> Choices<'a> {
    pub fn new(input: &'a [u8]) -> Self {
        Self(input)
    }

    /// A byte, 0 where the input ends.
    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    /// Returns one of `all`.
    pub fn of<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        all[usize::from(self.byte()) % N]
    }

    /// Eight flags.
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
