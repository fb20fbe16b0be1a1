//! Kernels that process 64 bytes at a time with the widest registers of the processor.
//!
//! A [`Kernel`] is written once, using [`Lanes`], and compiled twice: portably, and for AVX2 with
//! BMI and PCLMULQDQ, which is selected at run time. This is the only module with `unsafe`. It
//! relies only on the features having been detected before code that needs them runs.

// A kernel is compiled into a function that has the features of its lanes, see `avx2::run`.
#![allow(clippy::inline_always, reason = "what is not inlined there is compiled without them")]

/// The number of bytes per step.
pub(crate) const BLOCK: usize = 64;

/// Operations on blocks of bytes, and on masks in which bit `i` stands for byte `i`.
pub(crate) trait Lanes: Copy {
    /// Returns the mask of the bytes that are equal to `byte`.
    fn equal(self, block: &[u8; BLOCK], byte: u8) -> u64;

    /// Returns the position of the set bit with `n` set bits below it; 64 if there is none.
    fn nth(self, mask: u64, n: u32) -> u32;

    /// Computes the prefix XOR: bit `i` is the parity of bits 0 to `i` (carry-less multiplication
    /// by all ones).
    fn prefix_xor(self, mask: u64) -> u64;

    /// Returns the mask of the positions at which the bytes of `two` and `third` all match, or that
    /// of `or` matches.
    fn all_or(self, two: [Wanted<'_>; 2], third: Option<Wanted<'_>>, or: Option<Wanted<'_>>) -> u64;
}

/// A block, and the byte to search for in it.
pub(crate) type Wanted<'a> = (&'a [u8; BLOCK], u8);

/// A computation over blocks. `run` must be `#[inline(always)]`.
pub(crate) trait Kernel {
    type Output;

    fn run<L: Lanes>(self, lanes: L) -> Self::Output;
}

/// Runs a kernel with the widest lanes that the processor has.
#[inline]
pub(crate) fn run<K: Kernel>(kernel: K) -> K::Output {
    #[cfg(target_arch = "x86_64")]
    let kernel = match avx2::run(kernel) {
        Ok(output) => return output,
        Err(kernel) => kernel,
    };
    kernel.run(Portable)
}

/// Returns whether the lanes are wider than 64 bits.
pub(crate) fn is_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return avx2::is_here();
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// A portable implementation with 64-bit arithmetic.
#[derive(Clone, Copy)]
pub(crate) struct Portable;

const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;

impl Lanes for Portable {
    #[inline(always)]
    fn equal(self, block: &[u8; BLOCK], byte: u8) -> u64 {
        let wanted = u64::from_ne_bytes([byte; 8]);
        let (words, _) = block.as_chunks::<8>();
        let mut mask = 0;
        for (i, word) in words.iter().enumerate() {
            // Sets the high bit of exactly those bytes that are zero after the XOR: no carry leaves
            // its byte.
            let differs = u64::from_le_bytes(*word) ^ wanted;
            let equal = !(((differs & LOW) + LOW) | differs) & !LOW;
            // Gathers the eight high bits into the highest byte.
            let bits = equal.wrapping_mul(0x0002_0408_1020_4081) >> 56;
            mask |= bits << (i * 8);
        }
        mask
    }

    #[inline(always)]
    fn nth(self, mut mask: u64, n: u32) -> u32 {
        for _ in 0..n {
            mask &= mask.wrapping_sub(1);
        }
        mask.trailing_zeros()
    }

    #[inline(always)]
    fn prefix_xor(self, mut mask: u64) -> u64 {
        for shift in [1, 2, 4, 8, 16, 32] {
            mask ^= mask << shift;
        }
        mask
    }

    #[inline(always)]
    fn all_or(self, [a, b]: [Wanted<'_>; 2], third: Option<Wanted<'_>>, or: Option<Wanted<'_>>) -> u64 {
        let equal = |(block, byte): Wanted<'_>| self.equal(block, byte);
        equal(a) & equal(b) & third.map_or(u64::MAX, equal) | or.map_or(0, equal)
    }
}

#[cfg(target_arch = "x86_64")]
#[allow(unsafe_code, reason = "intrinsics of features that were detected")]
mod avx2 {
    use std::arch::x86_64::{
        __m256i, _mm_clmulepi64_si128, _mm_cvtsi64_si128, _mm_cvtsi128_si64, _mm256_cmpeq_epi8, _mm256_loadu_si256,
        _mm256_min_epu8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8, _mm256_setzero_si256,
        _mm256_xor_si256, _pdep_u64,
    };

    use super::{BLOCK, Kernel, Lanes, Wanted};

    /// An implementation that processes 32 bytes at a time. It is created only in [`featured`].
    #[derive(Clone, Copy)]
    struct Avx2(());

    /// Returns whether the processor has the features.
    #[inline]
    pub(super) fn is_here() -> bool {
        is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("popcnt")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("pclmulqdq")
    }

    /// Runs a kernel. Returns the kernel itself if the processor lacks the features.
    #[inline]
    pub(super) fn run<K: Kernel>(kernel: K) -> Result<K::Output, K> {
        if !is_here() {
            return Err(kernel);
        }
        // SAFETY: the features were detected.
        Ok(unsafe { featured(kernel) })
    }

    #[target_feature(enable = "avx2,bmi1,bmi2,popcnt,lzcnt,pclmulqdq")]
    fn featured<K: Kernel>(kernel: K) -> K::Output {
        kernel.run(Avx2(()))
    }

    impl Lanes for Avx2 {
        #[inline(always)]
        fn equal(self, block: &[u8; BLOCK], byte: u8) -> u64 {
            let [low, high] = [0, 32].map(|at| {
                // SAFETY: `self` is created only in `featured`, and both ranges of 32 bytes lie
                // within the block.
                unsafe {
                    let bytes = _mm256_loadu_si256(block.as_ptr().add(at).cast());
                    let equal = _mm256_cmpeq_epi8(bytes, _mm256_set1_epi8(byte.cast_signed()));
                    _mm256_movemask_epi8(equal).cast_unsigned()
                }
            });
            u64::from(low) | u64::from(high) << 32
        }

        #[inline(always)]
        fn nth(self, mask: u64, n: u32) -> u32 {
            // SAFETY: `self` is created only in `featured`.
            unsafe { _pdep_u64(1u64 << n.min(63), mask) }.trailing_zeros()
        }

        #[inline(always)]
        fn prefix_xor(self, mask: u64) -> u64 {
            // SAFETY: `self` is created only in `featured`.
            unsafe {
                let product = _mm_clmulepi64_si128::<0>(_mm_cvtsi64_si128(mask.cast_signed()), _mm_cvtsi64_si128(-1));
                _mm_cvtsi128_si64(product).cast_unsigned()
            }
        }

        #[inline(always)]
        fn all_or(self, two: [Wanted<'_>; 2], third: Option<Wanted<'_>>, or: Option<Wanted<'_>>) -> u64 {
            // SAFETY: `self` is created only in `featured`.
            let (low, high) = unsafe { (half_of_all_or(0, two, third, or), half_of_all_or(32, two, third, or)) };
            u64::from(low) | u64::from(high) << 32
        }
    }

    // These are functions because closures are not always inlined before the functions that they
    // call.

    /// Computes [`Lanes::all_or`] for the 32 bytes from `at` on, which must be at most 32. Requires
    /// AVX2.
    #[inline(always)]
    unsafe fn half_of_all_or(
        at: usize,
        [a, b]: [Wanted<'_>; 2],
        third: Option<Wanted<'_>>,
        or: Option<Wanted<'_>>,
    ) -> u32 {
        // SAFETY: the caller ensures AVX2.
        unsafe {
            // A byte is zero if all of the bytes match. There is one comparison, since the compiler
            // generates poor code for several combined masks.
            let mut differs = _mm256_or_si256(differs_from(at, a), differs_from(at, b));
            if let Some(third) = third {
                differs = _mm256_or_si256(differs, differs_from(at, third));
            }
            if let Some(or) = or {
                differs = _mm256_min_epu8(differs, differs_from(at, or));
            }
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(differs, _mm256_setzero_si256())).cast_unsigned()
        }
    }

    /// Returns zero for each of the 32 bytes from `at` on that equals the wanted byte. `at` must be
    /// at most
    /// 32. Requires AVX2.
    #[inline(always)]
    unsafe fn differs_from(at: usize, (block, byte): Wanted<'_>) -> __m256i {
        // SAFETY: 32 bytes from `at` on lie within the block, and the caller ensures AVX2.
        unsafe {
            let bytes = _mm256_loadu_si256(block.as_ptr().add(at).cast());
            _mm256_xor_si256(bytes, _mm256_set1_epi8(byte.cast_signed()))
        }
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::{Rng, SeedableRng};

    use super::*;

    struct Both<'a>(&'a [u8; BLOCK], u8, u32);

    impl Kernel for Both<'_> {
        type Output = (u64, u32, u64, u64);

        #[inline(always)]
        fn run<L: Lanes>(self, lanes: L) -> (u64, u32, u64, u64) {
            let mask = lanes.equal(self.0, self.1);
            let mut turned = *self.0;
            turned.rotate_left(1);
            let two = [(self.0, self.1), (&turned, b',')];
            let third = (self.2 % 2 == 1).then_some((self.0, self.1));
            let all_or = lanes.all_or(two, third, Some((self.0, b'-')));
            (mask, lanes.nth(mask, self.2), lanes.prefix_xor(mask), all_or)
        }
    }

    #[test]
    fn every_position_and_no_other_is_found() {
        let mut random = StdRng::seed_from_u64(1);
        for round in 0..2_000 {
            // Few distinct bytes, including neighbors that would be mistaken by careless
            // arithmetic.
            let bytes = [b',', b'-', b'+', 0, 0x80, 0xff, b',' ^ 1, b',' | 0x80];
            let block = [(); BLOCK].map(|()| bytes[random.random_range(0..bytes.len())]);
            for byte in [b',', 0, 0x80, 0xff] {
                let places: Vec<usize> = (0..BLOCK).filter(|i| block[*i] == byte).collect();
                let naive = places.iter().fold(0, |mask, i| mask | 1u64 << i);
                let nth = places.get(round % 20).map_or(64, |place| *place as u32);
                let n = round as u32 % 20;
                let odd = (0..BLOCK).filter(|i| places.iter().filter(|place| *place <= i).count() % 2 == 1);
                let prefix = odd.fold(0, |mask, i| mask | 1u64 << i);
                let pair = |i: &usize| block[*i] == byte && block[(i + 1) % BLOCK] == b',';
                let either = (0..BLOCK).filter(|i| pair(i) || block[*i] == b'-');
                let either = either.fold(0, |mask, i| mask | 1u64 << i);
                assert_eq!(Both(&block, byte, n).run(Portable), (naive, nth, prefix, either));
                assert_eq!(run(Both(&block, byte, n)), (naive, nth, prefix, either));
            }
        }
    }
}
