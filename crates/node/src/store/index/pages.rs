//! Pages of the index with checksums; redb verifies its own only when it repairs.
//!
//! ```text
//! head      4 KiB: the format, redb's first page, and the state that was synced last
//! sums      4 KiB: a CRC32C for each page of the group after it
//! pages     1024 of 4 KiB
//! sums, pages, sums, pages, …
//! ```
//!
//! A page with a wrong checksum is an error of the read that finds it. redb writes only pages that
//! are not part of its last two durable commits, so checksums that share a sector with those of
//! live pages stay valid, and a torn write is in no live page. redb's first page is written in
//! place: it alternates between two slots, each holding it twice, and the slot of the last sync is
//! not overwritten.
//!
//! After a crash during a commit only redb can distinguish a torn page from a damaged one: it falls
//! back to the previous commit. That must not happen to an acknowledged commit, so after each sync
//! the head records the state that is durable. If the newest state is the recorded one, a wrong
//! checksum is damage and the index is refused; if it is a later one, redb decides, and pages that
//! it accepted get their checksums afterwards.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use parking_lot::{Mutex, MutexGuard};

use crate::store::disk::DiskFile;
use crate::store::disk::checksums::crc32c;
use crate::store::fault::DamagedIndex;

/// The page size of redb; all of its reads and writes are whole pages.
pub(crate) const PAGE: u64 = 4096;
const PAGE_BYTES: usize = PAGE as usize;

/// Pages per page of checksums.
const PAGES_PER_GROUP: u64 = 1024;

const MAGIC: &[u8] = b"pushdowndb index, checked pages, format 1\n";

/// The unit in which the head is written.
const SECTOR: usize = 512;
/// The slots of redb's first page, two sectors each.
const SLOT_OFFSETS: [u64; 2] = [SECTOR as u64, 3 * SECTOR as u64];
/// The record of the synced state, written twice.
const SYNCED_STATE_OFFSET: u64 = 5 * SECTOR as u64;
/// The second copy of the magic.
const SECOND_MAGIC_OFFSET: u64 = 7 * SECTOR as u64;

/// The number of bytes of redb's first page that are stored; redb uses 320.
pub(crate) const FIRST_PAGE_BYTES: usize = SECTOR - 12;

/// The pages of an open index.
#[derive(Debug)]
pub(crate) struct Pages {
    file: DiskFile,
    state: Mutex<State>,
    /// Whether a wrong checksum is an error. It is not while redb examines the file after a crash.
    strict: AtomicBool,
}

#[derive(Debug)]
struct State {
    /// The bytes of redb's first page.
    first: Vec<u8>,
    /// The number of this state; states that may differ after a crash have different numbers.
    number: u64,
    /// Whether this state has been synced.
    is_synced: bool,
    /// The synced state that the head records.
    recorded: u64,
    groups: HashMap<u64, Group>,
    /// Pages with wrong checksums that were read while redb examines the file.
    suspect: HashSet<u64>,
}

#[derive(Debug)]
struct Group {
    sums: Vec<u32>,
    is_dirty: bool,
}

/// The format of a file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Format {
    /// Empty.
    Empty,
    Checked,
    /// redb's own format, of stores of versions 1 and 2.
    Plain,
    /// Neither: its beginning is damaged.
    Unknown,
}

impl Format {
    pub fn of(file: &DiskFile) -> io::Result<Self> {
        let head = read_to_end(file, 0, PAGE_BYTES)?;
        let starts = |at: u64| head.get(at as usize..).is_some_and(|head| head.starts_with(MAGIC));
        Ok(match head.as_slice() {
            [] => Self::Empty,
            _ if starts(0) || starts(SECOND_MAGIC_OFFSET) => Self::Checked,
            _ if head.starts_with(b"redb") => Self::Plain,
            _ => Self::Unknown,
        })
    }
}

impl Pages {
    /// Opens the file of an index; writes the head of an empty one.
    pub fn open(file: DiskFile) -> io::Result<Self> {
        match Format::of(&file)? {
            Format::Empty => write_head(&file)?,
            Format::Checked => {}
            Format::Plain | Format::Unknown => return Err(damaged("it does not begin as an index does")),
        }
        let head = read_to_end(&file, 0, PAGE_BYTES)?;
        let sector = |at: u64| head.get(at as usize..at as usize + SECTOR).and_then(Sector::read);
        let twice = |at: u64| sector(at).into_iter().chain(sector(at + SECTOR as u64));
        let newest = SLOT_OFFSETS.into_iter().flat_map(twice).max_by_key(|copy| copy.number);
        let (number, first) = newest.map_or((0, Vec::new()), |copy| (copy.number, copy.bytes));
        let recorded = twice(SYNCED_STATE_OFFSET).map(|copy| copy.number).max().unwrap_or(0);
        if number < recorded {
            return Err(damaged("the head says that a later state was kept than is there"));
        }
        // Later states build on this one, so it is made durable first; from here on its slot is not
        // overwritten.
        if number > recorded {
            file.sync()?;
        }
        let (groups, suspect) = (HashMap::new(), HashSet::new());
        let state = State { first, number, is_synced: true, recorded, groups, suspect };
        Ok(Self { file, state: Mutex::new(state), strict: AtomicBool::new(number == recorded) })
    }

    /// The underlying file.
    pub fn file(&self) -> &DiskFile {
        &self.file
    }

    /// The length of the file as redb sees it.
    pub fn len(&self) -> io::Result<u64> {
        let length = self.file.file().metadata()?.len();
        if length <= PAGE {
            return Ok(0);
        }
        let pages = (length - PAGE) / PAGE;
        let partial = (pages % (PAGES_PER_GROUP + 1)).saturating_sub(1);
        Ok((pages / (PAGES_PER_GROUP + 1) * PAGES_PER_GROUP + partial) * PAGE)
    }

    pub fn set_len(&self, len: u64) -> io::Result<()> {
        let pages = len.div_ceil(PAGE);
        let size = PAGE * (1 + pages + pages.div_ceil(PAGES_PER_GROUP));
        self.file.resize(size)?;
        let mut state = self.state();
        state.groups.retain(|group, _| group * PAGES_PER_GROUP < pages);
        state.suspect.retain(|page| *page < pages);
        Ok(())
    }

    /// Reads at `offset` and verifies the checksums.
    pub fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset < PAGE {
            return self.read_first(offset, out);
        }
        if !offset.is_multiple_of(PAGE) || !out.len().is_multiple_of(PAGE_BYTES) {
            let start = offset / PAGE * PAGE;
            let end = (offset + out.len() as u64).next_multiple_of(PAGE);
            let mut whole = vec![0; usize::try_from(end - start).map_err(io::Error::other)?];
            self.read(start, &mut whole)?;
            let from = (offset - start) as usize;
            out.copy_from_slice(whole.get(from..from + out.len()).unwrap_or_default());
            return Ok(());
        }
        let mut page = offset / PAGE;
        let mut rest = out;
        while !rest.is_empty() {
            let run = rest.len().min(bytes_left_in_group(page));
            let (now, later) = rest.split_at_mut(run);
            self.file.file().read_exact_at(now, offset_of(page))?;
            self.compare(page, now)?;
            page += (run / PAGE_BYTES) as u64;
            rest = later;
        }
        Ok(())
    }

    fn read_first(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.state();
        let end = offset as usize + out.len();
        if end > PAGE_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a read across the first page of the index"));
        }
        let kept = state.first.get(offset as usize..).unwrap_or_default();
        let count = kept.len().min(out.len());
        let (known, rest) = out.split_at_mut(count);
        known.copy_from_slice(kept.get(..count).unwrap_or_default());
        rest.fill(0);
        Ok(())
    }

    /// Verifies the checksums of whole pages of one group, beginning with page `first`.
    fn compare(&self, first: u64, bytes: &[u8]) -> io::Result<()> {
        let made: Vec<u32> = (first..).zip(bytes.chunks(PAGE_BYTES)).map(|(page, bytes)| sum(page, bytes)).collect();
        let mut state = self.state();
        let group = state.group(first / PAGES_PER_GROUP, &self.file)?;
        let at = (first % PAGES_PER_GROUP) as usize;
        let fit = group.sums.get(at..at + made.len()) == Some(made.as_slice());
        if fit {
            return Ok(());
        }
        let wrong: Vec<u64> = (first..)
            .zip(made.iter().zip(group.sums.get(at..).unwrap_or_default()))
            .filter_map(|(page, (made, kept))| (made != kept).then_some(page))
            .collect();
        if self.strict.load(SeqCst) {
            let page = wrong.first().copied().unwrap_or(first);
            return Err(damaged(format!(
                "page {page} is not what was written (byte {} of index.redb)",
                offset_of(page)
            )));
        }
        state.suspect.extend(wrong);
        Ok(())
    }

    pub fn write(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let refused = || io::Error::new(io::ErrorKind::InvalidInput, "a write of less than a page of the index");
        if offset < PAGE {
            return self.write_first(offset, bytes);
        }
        if !offset.is_multiple_of(PAGE) || !bytes.len().is_multiple_of(PAGE_BYTES) {
            return Err(refused());
        }
        let mut page = offset / PAGE;
        let mut rest = bytes;
        while !rest.is_empty() {
            let (now, later) = rest.split_at(rest.len().min(bytes_left_in_group(page)));
            self.file.write(offset_of(page), now)?;
            let mut state = self.state();
            for bytes in now.chunks(PAGE_BYTES) {
                state.suspect.remove(&page);
                let group = state.group(page / PAGES_PER_GROUP, &self.file)?;
                if let Some(kept) = group.sums.get_mut((page % PAGES_PER_GROUP) as usize) {
                    *kept = sum(page, bytes);
                }
                group.is_dirty = true;
                page += 1;
            }
            rest = later;
        }
        Ok(())
    }

    fn write_first(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        let mut state = self.state();
        let end = offset as usize + bytes.len();
        if end > FIRST_PAGE_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the first page of the index has grown"));
        }
        let mut first = state.first.clone();
        first.resize(first.len().max(end), 0);
        if let Some(place) = first.get_mut(offset as usize..end) {
            place.copy_from_slice(bytes);
        }
        // The slot of the last synced state is not overwritten until this state is synced too.
        let number = if state.is_synced { state.number + 1 } else { state.number };
        let sector = Sector { number, bytes: first }.to_bytes();
        let slot = SLOT_OFFSETS.get((number % 2) as usize).copied().unwrap_or_default();
        self.file.write(slot, &[sector.as_slice(), &sector].concat())?;
        state.first = Sector::read(&sector).map(|sector| sector.bytes).unwrap_or_default();
        (state.number, state.is_synced) = (number, false);
        Ok(())
    }

    /// Writes the checksums that changed; they become durable with the next [`Self::sync`].
    pub fn write_sums(&self) -> io::Result<()> {
        let mut state = self.state();
        for (group, sums) in state.groups.iter_mut().filter(|(_, group)| group.is_dirty) {
            let bytes: Vec<u8> = sums.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
            self.file.write(offset_of_checksums(*group), &bytes)?;
            sums.is_dirty = false;
        }
        Ok(())
    }

    /// Makes all writes durable, and records that.
    pub fn sync(&self) -> io::Result<()> {
        let number = self.state().number;
        self.file.sync()?;
        let mut state = self.state();
        if state.number == number {
            state.is_synced = true;
        }
        if self.strict.load(SeqCst) {
            self.record_synced(&mut state, number);
        }
        Ok(())
    }

    /// Accepts the file as redb left it after examining it: corrects the checksums that were wrong,
    /// and makes wrong ones an error from now on.
    pub fn accept_repaired(&self) -> io::Result<()> {
        if self.strict.load(SeqCst) {
            return Ok(());
        }
        let mut state = self.state();
        let suspect: Vec<u64> = state.suspect.drain().collect();
        let any = !suspect.is_empty() || !state.is_synced;
        for page in suspect {
            let bytes = read_to_end(&self.file, offset_of(page), PAGE_BYTES)?;
            let group = state.group(page / PAGES_PER_GROUP, &self.file)?;
            if let Some(kept) = group.sums.get_mut((page % PAGES_PER_GROUP) as usize) {
                *kept = sum(page, &bytes);
            }
            group.is_dirty = true;
        }
        drop(state);
        if any {
            self.write_sums()?;
            self.file.sync()?;
        }
        self.strict.store(true, SeqCst);
        let mut state = self.state();
        state.is_synced = true;
        let number = state.number;
        self.record_synced(&mut state, number);
        Ok(())
    }

    /// Records the synced state, without a sync: if the record is lost, redb examines the file.
    fn record_synced(&self, state: &mut State, number: u64) {
        if state.recorded >= number {
            return;
        }
        let sector = Sector { number, bytes: Vec::new() }.to_bytes();
        if self.file.write(SYNCED_STATE_OFFSET, &[sector.as_slice(), &sector].concat()).is_ok() {
            state.recorded = number;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl State {
    fn group(&mut self, group: u64, file: &DiskFile) -> io::Result<&mut Group> {
        match self.groups.entry(group) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let bytes = read_to_end(file, offset_of_checksums(group), PAGE_BYTES)?;
                let (sums, _) = bytes.as_chunks::<4>();
                let mut sums: Vec<u32> = sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect();
                sums.resize(PAGES_PER_GROUP as usize, 0);
                Ok(place.insert(Group { sums, is_dirty: false }))
            }
        }
    }
}

/// A unit of the head: a number, some bytes, a checksum.
struct Sector {
    number: u64,
    bytes: Vec<u8>,
}

impl Sector {
    fn to_bytes(&self) -> Vec<u8> {
        let mut sector = self.number.to_le_bytes().to_vec();
        sector.extend_from_slice(&self.bytes);
        sector.resize(SECTOR - 4, 0);
        sector.extend_from_slice(&crc32c(&sector).to_le_bytes());
        sector
    }

    fn read(sector: &[u8]) -> Option<Self> {
        let (body, kept) = sector.split_last_chunk::<4>()?;
        let (number, bytes) = body.split_first_chunk::<8>()?;
        let number = u64::from_le_bytes(*number);
        (number > 0 && crc32c(body) == u32::from_le_bytes(*kept)).then(|| Self { number, bytes: bytes.to_vec() })
    }
}

fn write_head(file: &DiskFile) -> io::Result<()> {
    let mut head = vec![0; PAGE_BYTES];
    for at in [0, SECOND_MAGIC_OFFSET as usize] {
        if let Some(place) = head.get_mut(at..at + MAGIC.len()) {
            place.copy_from_slice(MAGIC);
        }
    }
    file.write(0, &head)
}

/// The checksum of a page. It depends on the position, so that misplaced pages are detected as
/// damage.
fn sum(page: u64, bytes: &[u8]) -> u32 {
    crc32c(bytes) ^ (page as u32).wrapping_mul(0x9e37_79b1)
}

fn offset_of(page: u64) -> u64 {
    PAGE * (2 + page + page / PAGES_PER_GROUP)
}

fn offset_of_checksums(group: u64) -> u64 {
    PAGE * (1 + group * (PAGES_PER_GROUP + 1))
}

fn bytes_left_in_group(page: u64) -> usize {
    ((PAGES_PER_GROUP - page % PAGES_PER_GROUP) * PAGE) as usize
}

fn damaged(what: impl Into<String>) -> io::Error {
    io::Error::other(DamagedIndex(what.into()))
}

/// Reads up to `most` bytes from `at` on, fewer at the end of the file.
fn read_to_end(file: &DiskFile, at: u64, most: usize) -> io::Result<Vec<u8>> {
    let mut bytes = vec![0; most];
    let mut done = 0;
    while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
        match file.file().read_at(rest, at + done as u64) {
            Ok(0) => break,
            Ok(count) => done += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(done);
    Ok(bytes)
}
