//! Parsing of runs of ASCII digits, eight at a time.

/// Parses `digits.digits` at the start of these 16 bytes as one number without the point. There may
/// be 1 to 7 digits on either side, and 8 in total.
#[inline]
pub(crate) fn digits_around_point(ahead: &[u8; 16], whole: usize, places: usize) -> Option<u64> {
    let all = u128::from_le_bytes(*ahead);
    let (first, point) = (all as u64, (all >> (whole * 8)) as u64);
    if point as u8 != b'.' {
        return None;
    }
    // Moves the digits before the point directly below those after it.
    let word = (first << (64 - whole * 8)) >> (places * 8) | (point >> 8) << (64 - places * 8);
    eight_digits(word, whole + places)
}

/// Parses `count` digits, 1 to 8, at the start of these 16 bytes.
#[inline]
pub(crate) fn digits_ahead(ahead: &[u8; 16], count: usize) -> Option<u64> {
    let (first, _) = ahead.split_first_chunk::<8>()?;
    eight_digits(u64::from_le_bytes(*first) << (64 - count * 8), count)
}

/// Parses `bytes` as digits; at most 18 bytes are supported.
#[inline]
pub(crate) fn digits(bytes: &[u8]) -> Option<u64> {
    if bytes.len() <= 8 {
        return eight_digits(word(bytes), bytes.len());
    }
    let mut value = 0u64;
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = value * 10 + u64::from(digit);
    }
    Some(value)
}

/// Returns up to 8 bytes as a word. The last byte is the highest, and zeros precede the first byte.
#[inline]
pub(crate) fn word(bytes: &[u8]) -> u64 {
    // Uses two loads, which may overlap, instead of a loop.
    let word = match bytes.len() {
        0 => return 0,
        1 => u64::from(bytes[0]),
        2..4 => {
            let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else { return 0 };
            u64::from(u16::from_le_bytes(*first)) | u64::from(u16::from_le_bytes(*last)) << (bytes.len() * 8 - 16)
        }
        4..8 => {
            let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk()) else { return 0 };
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << (bytes.len() * 8 - 32)
        }
        _ => return bytes.first_chunk().map_or(0, |all| u64::from_le_bytes(*all)),
    };
    word << (64 - bytes.len() * 8)
}

/// The maximum number of digits for which every number fits into 64 bits.
pub(crate) const SAFE_DIGITS: usize = 18;

/// Parses `count` digits, at most 8, in the high bytes of a word. The other bytes must be zero.
#[inline]
pub(crate) fn eight_digits(word: u64, count: usize) -> Option<u64> {
    const ZEROS: u64 = u64::from_le_bytes(*b"00000000");
    if count == 0 {
        return Some(0);
    }
    // Each digit character is converted to its digit. Other characters become greater than 9, and
    // set the high bit in the addition.
    let digits = word ^ (ZEROS << (64 - count.min(8) * 8));
    if (digits.wrapping_add(0x7676_7676_7676_7676) | digits) & 0x8080_8080_8080_8080 != 0 {
        return None;
    }
    Some(spelled_by(digits))
}

/// Returns the number with these eight digits, one in each byte; arbitrary if one is greater than
/// 9.
#[allow(clippy::inline_always, reason = "kernels do this in the lanes of a register")]
#[inline(always)]
pub(crate) fn spelled_by(digits: u64) -> u64 {
    // Combines pairs of digits, then four, then all eight.
    let pairs = digits.wrapping_mul(10).wrapping_add(digits >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs.wrapping_mul(100) + (pairs >> 16)) & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000) + (fours >> 32)) & 0xffff_ffff
}

/// Returns the position of the first bit of the first byte that is a point; 64 if there is none.
#[inline(always)]
pub(crate) fn first_point(word: u64) -> usize {
    let differs = word ^ 0x2e2e_2e2e_2e2e_2e2e;
    // Only the lowest zero byte is certain to be found.
    let zeros = differs.wrapping_sub(0x0101_0101_0101_0101) & !differs & 0x8080_8080_8080_8080;
    zeros.trailing_zeros() as usize & !7
}
