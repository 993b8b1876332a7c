//! A list of records that is read from either end.

use std::ops::Range;
use std::path::{Path, PathBuf};

use super::buffer::RecordBuffer;
use super::temp::TempFile;
use super::{SpillError, Usage, effective_budget};

/// Bytes that are read back at a time, where the budget allows it.
const BLOCK_BYTES: usize = 64 * 1024;

/// Keeps records in the order of pushing. The newest ones are in RAM; older ones go to a
/// temporary file when the budget is used up.
#[derive(Debug)]
pub struct Tape<const W: usize> {
    dir: PathBuf,
    block_records: usize,
    newest: RecordBuffer<W>,
    older: Option<TempFile>,
    usage: Usage,
}

impl<const W: usize> Tape<W> {
    /// A tape that holds up to `budget_bytes` in RAM, readers included, and the rest in a
    /// temporary file on the file system of `dir`, which is not looked at before it is needed.
    pub fn new(dir: &Path, budget_bytes: usize) -> Self {
        let budget_bytes = effective_budget::<W>(budget_bytes);
        let block_records = (budget_bytes / 4).min(BLOCK_BYTES) / W;
        Self {
            dir: dir.to_owned(),
            block_records,
            newest: RecordBuffer::new(budget_bytes - block_records * W),
            older: None,
            usage: Usage::default(),
        }
    }

    /// Adds a record at the end.
    ///
    /// # Errors
    /// When the temporary file cannot be made or written; the record is not added then.
    #[inline]
    pub fn push(&mut self, record: [u8; W]) -> Result<(), SpillError> {
        if self.newest.is_full() {
            self.spill()?;
        }
        self.newest.push(record);
        Ok(())
    }

    /// Count of records.
    pub fn len(&self) -> u64 {
        self.older_len() + self.newest.records().len() as u64
    }

    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Reads from the first record to the last.
    pub fn forward(&mut self) -> TapeReader<'_, W> {
        self.reader(Direction::Forward)
    }

    /// Reads from the last record to the first.
    pub fn backward(&mut self) -> TapeReader<'_, W> {
        self.reader(Direction::Backward)
    }

    /// What was used so far.
    pub fn usage(&self) -> Usage {
        let mut usage = self.usage;
        usage.saw_ram(self.newest.bytes_peak());
        let disk_bytes = self.older.as_ref().map_or(0, TempFile::len);
        Usage { disk_bytes_peak: disk_bytes, disk_bytes_written: disk_bytes, ..usage }
    }

    fn older_len(&self) -> u64 {
        self.older.as_ref().map_or(0, TempFile::len) / W as u64
    }

    /// Exclusive, so that there is one block at a time.
    fn reader(&mut self, direction: Direction) -> TapeReader<'_, W> {
        if self.older.is_some() {
            self.usage.saw_ram(self.newest.bytes_peak() + self.block_records * W);
        }
        TapeReader { unread: 0..self.len(), tape: self, direction, block: Vec::new(), loaded: 0..0 }
    }

    fn spill(&mut self) -> Result<(), SpillError> {
        let older = match &mut self.older {
            Some(older) => older,
            none => none.insert(TempFile::new(&self.dir)?),
        };
        older.append(self.newest.records().as_flattened())?;
        self.newest.clear();
        Ok(())
    }
}

#[derive(Debug, Clone, Copy)]
enum Direction {
    Forward,
    Backward,
}

/// Records of a tape in one direction. Ends after an error.
#[derive(Debug)]
pub struct TapeReader<'a, const W: usize> {
    tape: &'a Tape<W>,
    direction: Direction,
    /// Indexes of the records that are still to come.
    unread: Range<u64>,
    block: Vec<[u8; W]>,
    /// Indexes of the records in `block`.
    loaded: Range<u64>,
}

impl<const W: usize> TapeReader<'_, W> {
    fn record(&mut self, index: u64) -> Result<[u8; W], SpillError> {
        if let Some(index) = index.checked_sub(self.tape.older_len()) {
            let index = usize::try_from(index).expect("in RAM");
            return Ok(self.tape.newest.records()[index]);
        }
        if !self.loaded.contains(&index) {
            self.load(index)?;
        }
        let index = usize::try_from(index - self.loaded.start).expect("in the block");
        Ok(self.block[index])
    }

    /// Reads the block that starts or ends with a record of the file.
    fn load(&mut self, index: u64) -> Result<(), SpillError> {
        let count = self.tape.block_records as u64;
        let range = match self.direction {
            Direction::Forward => index..self.tape.older_len().min(index + count),
            Direction::Backward => (index + 1).saturating_sub(count)..index + 1,
        };
        let len = usize::try_from(range.end - range.start).expect("at most a block");
        assert!(len <= self.tape.block_records, "more than the budget has room for");
        if self.block.is_empty() {
            self.block.reserve_exact(len);
        }
        self.block.resize(len, [0; W]);
        let file = self.tape.older.as_ref().expect("it has the record");
        file.read_at(self.block.as_flattened_mut(), range.start * W as u64)?;
        self.loaded = range;
        Ok(())
    }
}

impl<const W: usize> Iterator for TapeReader<'_, W> {
    type Item = Result<[u8; W], SpillError>;

    fn next(&mut self) -> Option<Self::Item> {
        let index = match self.direction {
            Direction::Forward => self.unread.next(),
            Direction::Backward => self.unread.next_back(),
        };
        let record = self.record(index?);
        if record.is_err() {
            self.unread = 0..0;
        }
        Some(record)
    }
}
