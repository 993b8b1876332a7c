//! External merge sort: sorted runs in one file, merged with a heap of their heads.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::iter::FusedIterator;
use std::ops::Range;
use std::path::{Path, PathBuf};

use super::buffer::RecordBuffer;
use super::temp::TempFile;
use super::{SpillError, Usage, effective_budget};

/// Smallest read of a merge, where the budget allows it: below this, seeks cost more than the
/// extra pass that larger reads would need.
const READ_BYTES_MIN: usize = 4 * 1024;
/// Largest read of a merge: above this, nothing is gained.
const READ_BYTES_MAX: usize = 256 * 1024;

/// Takes records in any order and gives them back in ascending byte order, repeated ones as
/// often as they came.
#[derive(Debug)]
pub struct Sorter<const W: usize> {
    dir: PathBuf,
    budget_bytes: usize,
    buffer: RecordBuffer<W>,
    /// All runs but the last have `buffer.records_max()` records.
    runs: Option<TempFile>,
}

impl<const W: usize> Sorter<W> {
    /// A sorter that holds up to `budget_bytes` in RAM and the rest in a temporary file on the
    /// file system of `dir`, which is not looked at before it is needed.
    pub fn new(dir: &Path, budget_bytes: usize) -> Self {
        let budget_bytes = effective_budget::<W>(budget_bytes);
        Self {
            dir: dir.to_owned(),
            budget_bytes,
            buffer: RecordBuffer::new(budget_bytes),
            runs: None,
        }
    }

    /// Adds a record.
    ///
    /// # Errors
    /// When the temporary file cannot be made or written; the sorter is of no use then.
    #[inline]
    pub fn push(&mut self, record: [u8; W]) -> Result<(), SpillError> {
        if self.buffer.is_full() {
            self.spill()?;
        }
        self.buffer.push(record);
        Ok(())
    }

    /// Count of records pushed.
    pub fn len(&self) -> u64 {
        let spilled = self.runs.as_ref().map_or(0, TempFile::len) / W as u64;
        spilled + self.buffer.records().len() as u64
    }

    /// Whether nothing was pushed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What was used so far.
    pub fn usage(&self) -> Usage {
        let disk_bytes = self.runs.as_ref().map_or(0, TempFile::len);
        Usage {
            ram_bytes_peak: self.buffer.bytes_peak(),
            disk_bytes_peak: disk_bytes,
            disk_bytes_written: disk_bytes,
        }
    }

    /// The records in order.
    ///
    /// # Errors
    /// When the temporary file fails, here or in the iterator.
    pub fn finish(mut self) -> Result<Sorted<W>, SpillError> {
        let remaining = self.len();
        if self.runs.is_none() {
            self.buffer.records_mut().sort_unstable();
            let usage = self.usage();
            let records = self.buffer.into_records().into_iter();
            return Ok(Sorted { source: Source::Ram(records), remaining, usage });
        }
        self.spill()?;
        let mut usage = self.usage();
        let mut run_records = self.buffer.records_max() as u64;
        let Self { budget_bytes, buffer, runs, .. } = self;
        // The merge gets the whole budget.
        drop(buffer);
        let mut runs = runs.expect("checked above");
        let budget = MergeBudget::<W>(budget_bytes);
        while remaining.div_ceil(run_records) > budget.runs_max() {
            runs = merge_pass(&runs, run_records, budget, &mut usage)?;
            run_records *= budget.runs_max();
        }
        let block_records = budget.block_records(remaining.div_ceil(run_records));
        let merge = Merge::new(&runs, run_records, 0..remaining, block_records)?;
        usage.saw_ram(merge.ram_bytes());
        Ok(Sorted { source: Source::Disk(runs, merge), remaining, usage })
    }

    fn spill(&mut self) -> Result<(), SpillError> {
        self.buffer.records_mut().sort_unstable();
        let runs = match &mut self.runs {
            Some(runs) => runs,
            none => none.insert(TempFile::new(&self.dir)?),
        };
        runs.append(self.buffer.records().as_flattened())?;
        self.buffer.clear();
        Ok(())
    }
}

/// Merges groups of runs into longer runs in a new file.
fn merge_pass<const W: usize>(
    runs: &TempFile,
    run_records: u64,
    budget: MergeBudget<W>,
    usage: &mut Usage,
) -> Result<TempFile, SpillError> {
    let total = runs.len() / W as u64;
    let group_records = run_records * budget.runs_max();
    let mut merged = TempFile::new(runs.dir())?;
    let mut output = RecordBuffer::<W>::new(budget.output_bytes());
    let mut start = 0;
    while start < total {
        let end = total.min(start + group_records);
        let block_records = budget.block_records(budget.runs_max());
        let mut merge = Merge::new(runs, run_records, start..end, block_records)?;
        while let Some(record) = merge.next(runs)? {
            if output.is_full() {
                merged.append(output.records().as_flattened())?;
                output.clear();
            }
            output.push(record);
        }
        usage.saw_ram(merge.ram_bytes() + output.bytes_peak());
        start = end;
    }
    merged.append(output.records().as_flattened())?;
    assert_eq!(merged.len(), runs.len(), "a pass keeps all records");
    usage.saw_disk(runs.len() + merged.len());
    usage.disk_bytes_written += merged.len();
    Ok(merged)
}

/// How a merge divides its budget, in bytes: an eighth for output, the rest for the runs.
#[derive(Debug, Clone, Copy)]
struct MergeBudget<const W: usize>(usize);

impl<const W: usize> MergeBudget<W> {
    /// RAM for a run beside its block.
    const RUN_BYTES: usize = size_of::<Run>() + size_of::<Head<W>>();

    fn output_bytes(self) -> usize {
        (self.0 / 8).min(READ_BYTES_MAX).max(W)
    }

    fn input_bytes(self) -> usize {
        self.0 - self.output_bytes()
    }

    /// Most runs that are merged at once.
    fn runs_max(self) -> u64 {
        let block_bytes = READ_BYTES_MIN.min(self.0 / 16).max(W);
        ((self.input_bytes() / (block_bytes + Self::RUN_BYTES)).max(2)) as u64
    }

    /// Records that are read at a time when `runs` are merged.
    fn block_records(self, runs: u64) -> usize {
        let runs = usize::try_from(runs).expect("at most `runs_max`");
        let bytes = (self.input_bytes() / runs).saturating_sub(Self::RUN_BYTES);
        (bytes.min(READ_BYTES_MAX) / W).max(1)
    }
}

/// The smallest record of a run that is not taken yet, and the run's index.
type Head<const W: usize> = Reverse<([u8; W], usize)>;

/// The rest of a run: bytes in the file, and the block that was read last.
#[derive(Debug)]
struct Run {
    unread: Range<u64>,
    block: Vec<u8>,
    at: usize,
}

impl Run {
    fn next<const W: usize>(&mut self, file: &TempFile) -> Result<Option<[u8; W]>, SpillError> {
        if self.at == self.block.len() {
            let unread_bytes = self.unread.end - self.unread.start;
            if unread_bytes == 0 {
                return Ok(None);
            }
            // The last block may be shorter.
            let len = usize::try_from(unread_bytes).map_or(self.at, |bytes| bytes.min(self.at));
            self.block.truncate(len);
            file.read_at(&mut self.block, self.unread.start)?;
            self.unread.start += len as u64;
            self.at = 0;
        }
        let record = self.block[self.at..].first_chunk().copied();
        self.at += W;
        Ok(Some(record.expect("blocks are whole records")))
    }
}

#[derive(Debug)]
struct Merge<const W: usize> {
    runs: Vec<Run>,
    heads: BinaryHeap<Head<W>>,
}

impl<const W: usize> Merge<W> {
    /// Merges the runs of `run_records` each that make up the records of a range.
    fn new(
        file: &TempFile,
        run_records: u64,
        records: Range<u64>,
        block_records: usize,
    ) -> Result<Self, SpillError> {
        let count = (records.end - records.start).div_ceil(run_records);
        let count = usize::try_from(count).expect("at most `runs_max`");
        let mut runs = Vec::with_capacity(count);
        let mut heads = BinaryHeap::with_capacity(count);
        let mut start = records.start;
        while start < records.end {
            let end = records.end.min(start + run_records);
            let block = vec![0; block_records * W];
            let unread = start * W as u64..end * W as u64;
            let mut run = Run { unread, at: block.len(), block };
            if let Some(record) = run.next(file)? {
                heads.push(Reverse((record, runs.len())));
            }
            runs.push(run);
            start = end;
        }
        Ok(Self { runs, heads })
    }

    fn next(&mut self, file: &TempFile) -> Result<Option<[u8; W]>, SpillError> {
        let Some(mut head) = self.heads.peek_mut() else {
            return Ok(None);
        };
        let Reverse((record, index)) = *head;
        match self.runs[index].next(file)? {
            Some(next) => head.0.0 = next,
            None => {
                PeekMut::pop(head);
            }
        }
        Ok(Some(record))
    }

    fn ram_bytes(&self) -> usize {
        let blocks: usize = self.runs.iter().map(|run| run.block.capacity()).sum();
        blocks
            + self.runs.capacity() * size_of::<Run>()
            + self.heads.capacity() * size_of::<Head<W>>()
    }
}

/// Records in ascending order. Ends after an error.
#[derive(Debug)]
pub struct Sorted<const W: usize> {
    source: Source<W>,
    remaining: u64,
    usage: Usage,
}

#[derive(Debug)]
enum Source<const W: usize> {
    Ram(std::vec::IntoIter<[u8; W]>),
    Disk(TempFile, Merge<W>),
}

impl<const W: usize> Sorted<W> {
    /// Count of records that are still to come.
    pub fn remaining(&self) -> u64 {
        self.remaining
    }

    /// What the whole sort has used.
    pub fn usage(&self) -> Usage {
        self.usage
    }
}

impl<const W: usize> Iterator for Sorted<W> {
    type Item = Result<[u8; W], SpillError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.remaining == 0 {
            return None;
        }
        let record = match &mut self.source {
            Source::Ram(records) => Ok(records.next()),
            Source::Disk(file, merge) => merge.next(file),
        };
        self.remaining = if record.is_ok() { self.remaining - 1 } else { 0 };
        record.transpose()
    }
}

impl<const W: usize> FusedIterator for Sorted<W> {}
