//! Splitting of compressed text into parts that can be decompressed in parallel: zstd frames, and
//! gzip members of known length.
//!
//! The end of a part is found without decompressing it. A zstd frame is a chain of blocks with
//! their sizes (RFC 8878, Section 3.1.1). A member of BGZF, the gzip variant of `bgzip`, has its
//! size in an extra field (SAM specification, Section 4.1). Any other text is a single part.

use std::io;

use async_compression::tokio::bufread::{GzipDecoder, ZstdDecoder};
use async_compression::zstd::DParameter;
use bytes::{Buf, Bytes, BytesMut};
use futures::stream::BoxStream;
use futures::{Stream, StreamExt, stream};
use tokio::io::AsyncRead;
use tokio_util::io::StreamReader;

use crate::text::zstd_window::{USUAL_BYTES, log_of, window_bytes};

/// The target size of a part in compressed bytes. Smaller frames are combined.
const TARGET_PART_BYTES: usize = 512 * 1024;

/// The maximum size of a part. From a longer frame on, the text is decompressed as it arrives.
const MAX_PART_BYTES: usize = 4 * 1024 * 1024;

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Parted {
    Gzip,
    Zstd,
}

/// Compressed bytes that can be decompressed independently.
pub(crate) enum Part {
    /// Whole frames or members, and the largest window of their frames.
    Whole(Bytes, u64),
    /// The last part: the rest of the text, and the largest window that its frames may have.
    Rest(BoxStream<'static, io::Result<Bytes>>, u64),
}

impl Part {
    /// Returns the memory that a decoder needs for its window.
    pub(crate) fn window_bytes(&self) -> usize {
        let (Self::Whole(_, window) | Self::Rest(_, window)) = self;
        usize::try_from(*window).unwrap_or(usize::MAX)
    }
}

impl Parted {
    /// Splits `bytes` into parts.
    pub(crate) fn cut(
        self,
        bytes: BoxStream<'static, io::Result<Bytes>>,
    ) -> impl Stream<Item = io::Result<Part>> + Send + 'static {
        stream::try_unfold(Some(Cutter { kind: self, bytes, read: BytesMut::new(), window: 0 }), |cutter| async move {
            let Some(cutter) = cutter else { return Ok(None) };
            cutter.next().await
        })
    }

    pub(crate) fn decoder(self, part: Part) -> Box<dyn AsyncRead + Send + Unpin> {
        let (bytes, window) = match part {
            Part::Whole(bytes, window) => (stream::once(async { Ok(bytes) }).boxed(), window),
            Part::Rest(bytes, window) => (bytes, window),
        };
        let bytes = StreamReader::new(bytes);
        match self {
            Self::Gzip => {
                let mut decoder = GzipDecoder::new(bytes);
                decoder.multiple_members(true);
                Box::new(decoder)
            }
            Self::Zstd => {
                let mut decoder = ZstdDecoder::with_params(bytes, &[DParameter::window_log_max(log_of(window))]);
                decoder.multiple_members(true);
                Box::new(decoder)
            }
        }
    }

    /// Returns the window size of the frame that begins here.
    fn window(self, frame: &[u8]) -> u64 {
        match self {
            Self::Gzip => 0,
            Self::Zstd => window_bytes(frame).unwrap_or(0),
        }
    }

    fn usual_window(self) -> u64 {
        match self {
            Self::Gzip => 0,
            Self::Zstd => USUAL_BYTES,
        }
    }

    /// Returns the length of the frame or member that begins here, as far as `bytes` show it.
    fn length(self, bytes: &[u8]) -> Length {
        match self {
            Self::Gzip => bgzf_length(bytes),
            // Malformed frames look like incomplete ones here; the decoder distinguishes them.
            Self::Zstd => match zstd::zstd_safe::find_frame_compressed_size(bytes) {
                Ok(length) if length > 0 => Length::Of(length),
                _ => Length::NeedsMore,
            },
        }
    }
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Length {
    Of(usize),
    NeedsMore,
    Unknown,
}

struct Cutter {
    kind: Parted,
    bytes: BoxStream<'static, io::Result<Bytes>>,
    read: BytesMut,
    /// The largest window of the frames that are complete.
    window: u64,
}

impl Cutter {
    /// Returns the next part, and the cutter for the parts after it; `None` at the end.
    async fn next(mut self) -> io::Result<Option<(Part, Option<Self>)>> {
        // The number of bytes of complete frames or members.
        let mut whole = 0;
        loop {
            let rest = self.read.get(whole..).unwrap_or_default();
            let length = if rest.is_empty() { Length::NeedsMore } else { self.kind.length(rest) };
            match length {
                Length::Of(length) if length <= rest.len() => {
                    self.window = self.window.max(self.kind.window(rest));
                    whole += length;
                    if whole >= TARGET_PART_BYTES {
                        return Ok(Some(self.whole(whole)));
                    }
                    continue;
                }
                Length::Of(length) if length > MAX_PART_BYTES => return Ok(Some(self.up_to(whole))),
                Length::Unknown => return Ok(Some(self.up_to(whole))),
                Length::NeedsMore if rest.len() > MAX_PART_BYTES => return Ok(Some(self.up_to(whole))),
                Length::Of(_) | Length::NeedsMore => {}
            }
            match self.bytes.next().await.transpose()? {
                Some(bytes) => self.read.extend_from_slice(&bytes),
                None if self.read.is_empty() => return Ok(None),
                None if whole == self.read.len() => return Ok(Some((self.whole(whole).0, None))),
                None => return Ok(Some(self.up_to(whole))),
            }
        }
    }

    /// Returns the complete frames before text that cannot be split, or else the rest of the text.
    fn up_to(self, whole: usize) -> (Part, Option<Self>) {
        if whole > 0 {
            return self.whole(whole);
        }
        let window = self.kind.window(&self.read).max(self.kind.usual_window());
        let read = self.read.freeze();
        (Part::Rest(stream::once(async { Ok(read) }).chain(self.bytes).boxed(), window), None)
    }

    fn whole(mut self, whole: usize) -> (Part, Option<Self>) {
        let window = std::mem::take(&mut self.window);
        (Part::Whole(self.read.split_to(whole).freeze(), window), Some(self))
    }
}

/// Returns the length of a gzip member that states it.
fn bgzf_length(bytes: &[u8]) -> Length {
    const HEADER: usize = 12;
    const HAS_EXTRA: u8 = 4;
    let Some((header, extra)) = bytes.split_at_checked(HEADER) else { return Length::NeedsMore };
    let &[0x1f, 0x8b, 8, flags, .., low, high] = header else { return Length::Unknown };
    if flags & HAS_EXTRA == 0 {
        return Length::Unknown;
    }
    let Some(mut fields) = extra.get(..usize::from(u16::from_le_bytes([low, high]))) else { return Length::NeedsMore };
    while fields.len() >= 4 {
        let (name, length) = ([fields.get_u8(), fields.get_u8()], usize::from(fields.get_u16_le()));
        let Some((mut value, rest)) = fields.split_at_checked(length) else { return Length::Unknown };
        if name == *b"BC" && length == 2 {
            let length = usize::from(value.get_u16_le()) + 1;
            return if length > HEADER { Length::Of(length) } else { Length::Unknown };
        }
        fields = rest;
    }
    Length::Unknown
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use futures::TryStreamExt;
    use rand::rngs::StdRng;
    use rand::{RngCore, SeedableRng};
    use tokio::io::AsyncReadExt;

    use super::*;

    /// Returns a member in the form that `bgzip` writes.
    fn bgzf(text: &[u8]) -> Vec<u8> {
        let extra = [b'B', b'C', 2, 0, 0, 0];
        let mut encoder = flate2::GzBuilder::new().extra(extra.to_vec()).write(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        let mut member = encoder.finish().unwrap();
        let size = u16::try_from(member.len() - 1).unwrap();
        member[16..18].copy_from_slice(&size.to_le_bytes());
        member
    }

    fn gzip(text: &[u8]) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(text).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(text: &[u8]) -> Vec<u8> {
        zstd::encode_all(text, 1).unwrap()
    }

    /// Returns text that hardly compresses.
    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
        bytes
    }

    /// Returns the number of parts, whether the last one is the rest, and the text of all parts.
    async fn parts(kind: Parted, compressed: &[u8], piece: usize) -> io::Result<(usize, bool, Vec<u8>)> {
        let pieces: Vec<io::Result<Bytes>> =
            compressed.chunks(piece).map(|piece| Ok(Bytes::copy_from_slice(piece))).collect();
        let all: Vec<Part> = kind.cut(stream::iter(pieces).boxed()).try_collect().await?;
        let (count, is_rest) = (all.len(), matches!(all.last(), Some(Part::Rest(..))));
        let mut text = Vec::new();
        for part in all {
            kind.decoder(part).read_to_end(&mut text).await?;
        }
        Ok((count, is_rest, text))
    }

    #[tokio::test]
    async fn members_that_tell_their_size_and_frames_are_parts() {
        let texts: Vec<Vec<u8>> = (0..40).map(|seed| noise(seed, 50_000)).collect();
        let all = texts.concat();
        for (kind, one) in [(Parted::Gzip, bgzf as fn(&[u8]) -> Vec<u8>), (Parted::Zstd, zstd)] {
            let compressed: Vec<u8> = texts.iter().flat_map(|text| one(text)).collect();
            for piece in [997, 100_000, compressed.len()] {
                let (count, is_rest, text) = parts(kind, &compressed, piece).await.unwrap();
                assert_eq!((count, is_rest), (4, false), "2 MB in pieces of {piece}");
                assert!(text == all);
            }
        }
    }

    #[tokio::test]
    async fn what_cannot_be_cut_is_the_rest() {
        let (small, large) = (noise(1, 60_000), noise(2, MAX_PART_BYTES + 100_000));
        let both = [small.clone(), small.clone()].concat();
        let usual = [gzip(&small), gzip(&small)].concat();
        assert!(parts(Parted::Gzip, &usual, 10_000).await.unwrap() == (1, true, both.clone()));
        let mixed = [bgzf(&small), gzip(&small)].concat();
        assert!(parts(Parted::Gzip, &mixed, 10_000).await.unwrap() == (2, true, both));
        let long = [zstd(&small), zstd(&large)].concat();
        assert!(parts(Parted::Zstd, &long, 100_000).await.unwrap() == (2, true, [small, large].concat()));
        assert!(parts(Parted::Zstd, b"", 1).await.unwrap() == (0, false, vec![]));
    }

    #[tokio::test]
    async fn what_is_cut_off_or_malformed_is_an_error() {
        for (kind, compressed) in [(Parted::Gzip, bgzf(b"some text")), (Parted::Zstd, zstd(b"some text"))] {
            for length in 1..compressed.len() {
                let cut = compressed.get(..length).unwrap();
                assert!(parts(kind, cut, 5).await.is_err(), "{kind:?} of {length} bytes");
            }
            let garbage = [compressed, b"garbage, for a change".to_vec()].concat();
            assert!(parts(kind, &garbage, 7).await.is_err(), "{kind:?}");
        }
        let mut lies = bgzf(&noise(3, 5_000));
        lies[16..18].copy_from_slice(&100_u16.to_le_bytes());
        assert!(parts(Parted::Gzip, &lies, 1_000).await.is_err(), "shorter than it is");
    }
}
