//! Finding a byte 64 positions at a time, as bits, with ordinary 64-bit arithmetic.

/// The bytes looked at in one step.
pub(crate) const BLOCK: usize = 64;

const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;

/// Bit `i` is set where `block[i] == byte`.
#[inline]
pub(crate) fn positions(block: &[u8; BLOCK], byte: u8) -> u64 {
    let wanted = u64::from_ne_bytes([byte; 8]);
    let (words, _) = block.as_chunks::<8>();
    let mut mask = 0;
    for (i, word) in words.iter().enumerate() {
        // The high bit of each byte that is zero after the XOR, exactly: no carry leaves its byte.
        let differs = u64::from_le_bytes(*word) ^ wanted;
        let equal = !(((differs & LOW) + LOW) | differs) & !LOW;
        // Gathers the eight high bits into the highest byte.
        let bits = equal.wrapping_mul(0x0002_0408_1020_4081) >> 56;
        mask |= bits << (i * 8);
    }
    mask
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_position_and_no_other_is_found() {
        let mut state = 1u64;
        for _ in 0..2_000 {
            let block = [(); BLOCK].map(|()| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                // Few distinct bytes, with the neighbours that fool careless arithmetic.
                [b',', b'-', b'+', 0, 0x80, 0xff, b',' ^ 1, b',' | 0x80][(state >> 60) as usize & 7]
            });
            for byte in [b',', 0, 0x80, 0xff] {
                let naive = (0..BLOCK).filter(|i| block[*i] == byte).fold(0, |mask, i| mask | 1u64 << i);
                assert_eq!(positions(&block, byte), naive);
            }
        }
    }
}
