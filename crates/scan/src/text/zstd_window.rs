//! The window size of a zstd frame.
//!
//! The frame header states it (RFC 8878, Section 3.1.1.1), and the decoder allocates the window
//! before it reads anything else: 128 MiB for a frame of a few bytes. So the size is read first,
//! and reserved in the memory budget of the scan.

/// The window size that every decoder supports, by RFC 8878. In a part that is not split, frames
/// after the first must not have a window larger than this and than that of the first frame.
pub(super) const USUAL_BYTES: u64 = 8 << 20;

const MAGIC: [u8; 4] = [0x28, 0xB5, 0x2F, 0xFD];

/// Returns the window size of the frame that begins here, in bytes. Returns `None` if that is
/// incomplete, or is not a frame with a window.
pub(super) fn window_bytes(frame: &[u8]) -> Option<u64> {
    let (descriptor, rest) = frame.strip_prefix(&MAGIC)?.split_first()?;
    let is_single_segment = descriptor & 0x20 != 0;
    if !is_single_segment {
        let window = u64::from(*rest.first()?);
        let base = 1u64 << (10 + (window >> 3));
        return Some(base + base / 8 * (window & 7));
    }
    // The content is the window. Its size follows the dictionary ID.
    let dictionary = [0, 1, 2, 4].get(usize::from(descriptor & 3))?;
    let size = rest.get(*dictionary..)?;
    Some(match descriptor >> 6 {
        0 => u64::from(*size.first()?),
        1 => u64::from(u16::from_le_bytes(*size.first_chunk()?)) + 256,
        2 => u64::from(u32::from_le_bytes(*size.first_chunk()?)),
        _ => u64::from_le_bytes(*size.first_chunk()?),
    })
}

/// Returns the binary logarithm of the window size, rounded up, in the form of a decoder's limit.
pub(super) fn log_of(window: u64) -> u32 {
    // Clamped to the limits that a decoder accepts.
    window.max(1).next_power_of_two().trailing_zeros().clamp(10, 27)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn frame(window_log: Option<u32>, content: Option<u64>) -> Vec<u8> {
        let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
        window_log.into_iter().for_each(|log| encoder.window_log(log).unwrap());
        encoder.set_pledged_src_size(content).unwrap();
        encoder.write_all(&vec![7; content.unwrap_or(1000) as usize]).unwrap();
        encoder.finish().unwrap()
    }

    #[test]
    fn windows_are_read_from_headers() {
        for log in [10, 20, 27] {
            assert_eq!(window_bytes(&frame(Some(log), None)), Some(1 << log), "{log}");
        }
        for content in [1, 255, 256, 1000, 70_000] {
            assert!(window_bytes(&frame(None, Some(content))).is_some_and(|window| window >= content), "{content}");
        }
        assert_eq!([window_bytes(b""), window_bytes(&MAGIC), window_bytes(&[7; 20])], [None; 3]);
        assert_eq!([0, 1024, 1025, 8 << 20, u64::MAX / 2].map(log_of), [10, 10, 11, 23, 27]);
    }
}
