//! The pages of the index under checksums, since redb compares its own only when it repairs.
//!
//! ```text
//! head      4 KiB: which format this is, what redb keeps in its first page, and up to which state that was synced
//! sums      4 KiB: a CRC32C for each page of the group after it
//! pages     1024 of 4 KiB
//! sums, pages, sums, pages, …
//! ```
//!
//! A page whose checksum does not fit is an error at the read that finds it. redb writes pages only where the last
//! two durable commits have none, so checksums that share a sector with those of live pages change nothing for them,
//! and a write that a crash tore is in no page that counts. Its first page is written in place: it has two copies in
//! turn, each of them twice, of which the ones before the last sync are left alone.
//!
//! After a crash in the middle of a commit nobody can tell a torn page from a rotten one but redb, which falls back to
//! the commit before. That must never happen to a commit that was acknowledged, so after each sync the head notes
//! which state it made durable. Where the newest state is the noted one, a page that does not fit is rot and the
//! index is refused; where it is a later one, redb decides, and what it found whole gets its checksums afterwards.

use std::collections::HashSet;
use std::collections::hash_map::{Entry, HashMap};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::disk::DiskFile;
use super::sums::crc32c;

/// The page of redb, which every read and write of it is made of.
pub(super) const PAGE: u64 = 4096;
const PAGE_BYTES: usize = PAGE as usize;

/// Pages under one page of checksums.
const GROUP: u64 = 1024;

const MAGIC: &[u8] = b"pushdowndb index, checked pages, format 1\n";

/// The head is written sector by sector.
const SECTOR: usize = 512;
/// Where the two copies of redb's first page are, each in two sectors.
const SLOTS: [u64; 2] = [SECTOR as u64, 3 * SECTOR as u64];
/// Where the state that was synced is noted, twice.
const NOTE: u64 = 5 * SECTOR as u64;
/// The second copy of the magic.
const MAGIC_AGAIN: u64 = 7 * SECTOR as u64;

/// As much of redb's first page is kept; it uses 320 bytes.
pub(super) const FIRST_BYTES: usize = SECTOR - 12;

/// The pages of an open index.
#[derive(Debug)]
pub(super) struct Pages {
    file: DiskFile,
    state: Mutex<State>,
    /// Whether a page that does not fit is an error.
    strict: AtomicBool,
}

/// A page that is not what was written.
#[derive(Debug, thiserror::Error)]
#[error("the index of the store is damaged: {0}")]
pub(super) struct DamagedIndex(String);

impl DamagedIndex {
    /// Whether an error speaks of that.
    pub fn is(error: &io::Error) -> bool {
        error.get_ref().is_some_and(|error| error.is::<Self>())
    }
}

#[derive(Debug)]
struct State {
    /// The beginning of redb's first page.
    first: Vec<u8>,
    /// Counts its states that may differ after a crash.
    number: u64,
    /// Whether this state was synced.
    is_synced: bool,
    /// The state that the head says was synced.
    noted: u64,
    groups: HashMap<u64, Group>,
    /// Pages that did not fit while redb examined them.
    doubtful: HashSet<u64>,
}

#[derive(Debug)]
struct Group {
    sums: Vec<u32>,
    is_dirty: bool,
}

/// What a file holds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Kind {
    /// Nothing yet.
    Empty,
    Checked,
    /// redb's own format, of stores of version 1 and 2.
    Plain,
    /// Neither, so that its beginning is damaged.
    Unknown,
}

impl Kind {
    pub fn of(file: &DiskFile) -> io::Result<Self> {
        let head = read_to_end(file, 0, PAGE_BYTES)?;
        let starts = |at: u64| head.get(at as usize..).is_some_and(|head| head.starts_with(MAGIC));
        Ok(match head.as_slice() {
            [] => Self::Empty,
            _ if starts(0) || starts(MAGIC_AGAIN) => Self::Checked,
            _ if head.starts_with(b"redb") => Self::Plain,
            _ => Self::Unknown,
        })
    }
}

impl Pages {
    /// Takes over the file of an index; an empty one gets its head.
    pub fn open(file: DiskFile) -> io::Result<Self> {
        match Kind::of(&file)? {
            Kind::Empty => write_head(&file)?,
            Kind::Checked => {}
            Kind::Plain | Kind::Unknown => return Err(damaged("it does not begin as an index does")),
        }
        let head = read_to_end(&file, 0, PAGE_BYTES)?;
        let sector = |at: u64| head.get(at as usize..at as usize + SECTOR).and_then(Sector::read);
        let twice = |at: u64| sector(at).into_iter().chain(sector(at + SECTOR as u64));
        let newest = SLOTS.into_iter().flat_map(twice).max_by_key(|copy| copy.number);
        let (number, first) = newest.map_or((0, Vec::new()), |copy| (copy.number, copy.bytes));
        let noted = twice(NOTE).map(|note| note.number).max().unwrap_or(0);
        if number < noted {
            return Err(damaged("the head says that a later state was kept than is there"));
        }
        // Durable or not, it is what is built upon: its copy is left alone from here on.
        if number > noted {
            file.sync()?;
        }
        let (groups, doubtful) = (HashMap::new(), HashSet::new());
        let state = State { first, number, is_synced: true, noted, groups, doubtful };
        Ok(Self { file, state: Mutex::new(state), strict: AtomicBool::new(number == noted) })
    }

    /// The file they are in.
    pub fn file(&self) -> &DiskFile {
        &self.file
    }

    /// As long as redb thinks it is.
    pub fn len(&self) -> io::Result<u64> {
        let length = self.file.file().metadata()?.len();
        if length <= PAGE {
            return Ok(0);
        }
        let pages = (length - PAGE) / PAGE;
        let partial = (pages % (GROUP + 1)).saturating_sub(1);
        Ok((pages / (GROUP + 1) * GROUP + partial) * PAGE)
    }

    pub fn set_len(&self, len: u64) -> io::Result<()> {
        let pages = len.div_ceil(PAGE);
        let size = PAGE * (1 + pages + pages.div_ceil(GROUP));
        self.file.resize(size)?;
        let mut state = self.state();
        state.groups.retain(|group, _| group * GROUP < pages);
        state.doubtful.retain(|page| *page < pages);
        Ok(())
    }

    /// Reads what lies at `offset` and compares it with its checksums.
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
            self.file.file().read_exact_at(now, place(page))?;
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

    /// Compares whole pages of one group from `first` on.
    fn compare(&self, first: u64, bytes: &[u8]) -> io::Result<()> {
        let made: Vec<u32> = (first..).zip(bytes.chunks(PAGE_BYTES)).map(|(page, bytes)| sum(page, bytes)).collect();
        let mut state = self.state();
        let group = state.group(first / GROUP, &self.file)?;
        let at = (first % GROUP) as usize;
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
            return Err(damaged(format!("page {page} is not what was written (byte {} of index.redb)", place(page))));
        }
        state.doubtful.extend(wrong);
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
            self.file.write(place(page), now)?;
            let mut state = self.state();
            for bytes in now.chunks(PAGE_BYTES) {
                state.doubtful.remove(&page);
                let group = state.group(page / GROUP, &self.file)?;
                if let Some(kept) = group.sums.get_mut((page % GROUP) as usize) {
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
        if end > FIRST_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "the first page of the index has grown"));
        }
        let mut first = state.first.clone();
        first.resize(first.len().max(end), 0);
        if let Some(place) = first.get_mut(offset as usize..end) {
            place.copy_from_slice(bytes);
        }
        // What was synced stays where it is until this one is, too.
        let number = if state.is_synced { state.number + 1 } else { state.number };
        let sector = Sector { number, bytes: first }.to_bytes();
        let slot = SLOTS.get((number % 2) as usize).copied().unwrap_or_default();
        self.file.write(slot, &[sector.as_slice(), &sector].concat())?;
        state.first = Sector::read(&sector).map(|sector| sector.bytes).unwrap_or_default();
        (state.number, state.is_synced) = (number, false);
        Ok(())
    }

    /// Writes the checksums that changed since the last time; they are durable after the next [`Self::sync`].
    pub fn write_sums(&self) -> io::Result<()> {
        let mut state = self.state();
        for (group, sums) in state.groups.iter_mut().filter(|(_, group)| group.is_dirty) {
            let bytes: Vec<u8> = sums.sums.iter().flat_map(|sum| sum.to_le_bytes()).collect();
            self.file.write(place_of_sums(*group), &bytes)?;
            sums.is_dirty = false;
        }
        Ok(())
    }

    /// Makes durable what was written, and notes it.
    pub fn sync(&self) -> io::Result<()> {
        let number = self.state().number;
        self.file.sync()?;
        let mut state = self.state();
        if state.number == number {
            state.is_synced = true;
        }
        if self.strict.load(SeqCst) {
            self.note(&mut state, number);
        }
        Ok(())
    }

    /// redb found the index whole: what did not fit before gets its checksums, and nothing may be amiss from here on.
    pub fn settle(&self) -> io::Result<()> {
        if self.strict.load(SeqCst) {
            return Ok(());
        }
        let mut state = self.state();
        let doubtful: Vec<u64> = state.doubtful.drain().collect();
        let any = !doubtful.is_empty() || !state.is_synced;
        for page in doubtful {
            let bytes = read_to_end(&self.file, place(page), PAGE_BYTES)?;
            let group = state.group(page / GROUP, &self.file)?;
            if let Some(kept) = group.sums.get_mut((page % GROUP) as usize) {
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
        self.note(&mut state, number);
        Ok(())
    }

    /// Without a sync: it speaks of what is durable already. Where it is lost, redb examines the index as ever.
    fn note(&self, state: &mut State, number: u64) {
        if state.noted >= number {
            return;
        }
        let sector = Sector { number, bytes: Vec::new() }.to_bytes();
        if self.file.write(NOTE, &[sector.as_slice(), &sector].concat()).is_ok() {
            state.noted = number;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn group(&mut self, group: u64, file: &DiskFile) -> io::Result<&mut Group> {
        match self.groups.entry(group) {
            Entry::Occupied(known) => Ok(known.into_mut()),
            Entry::Vacant(place) => {
                let bytes = read_to_end(file, place_of_sums(group), PAGE_BYTES)?;
                let (sums, _) = bytes.as_chunks::<4>();
                let mut sums: Vec<u32> = sums.iter().map(|sum| u32::from_le_bytes(*sum)).collect();
                sums.resize(GROUP as usize, 0);
                Ok(place.insert(Group { sums, is_dirty: false }))
            }
        }
    }
}

/// A part of the head that is written at once: a number, some bytes, a checksum.
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
    for at in [0, MAGIC_AGAIN as usize] {
        if let Some(place) = head.get_mut(at..at + MAGIC.len()) {
            place.copy_from_slice(MAGIC);
        }
    }
    file.write(0, &head)
}

/// The checksum of a page at its place: the right bytes at another one are damage too.
fn sum(page: u64, bytes: &[u8]) -> u32 {
    crc32c(bytes) ^ (page as u32).wrapping_mul(0x9e37_79b1)
}

fn place(page: u64) -> u64 {
    PAGE * (2 + page + page / GROUP)
}

fn place_of_sums(group: u64) -> u64 {
    PAGE * (1 + group * (GROUP + 1))
}

fn bytes_left_in_group(page: u64) -> usize {
    ((GROUP - page % GROUP) * PAGE) as usize
}

fn damaged(what: impl Into<String>) -> io::Error {
    io::Error::other(DamagedIndex(what.into()))
}

/// Up to `most` bytes from `at` on, fewer where the file ends.
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
