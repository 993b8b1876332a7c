//! An array of fixed-width records that is read and written anywhere, beyond a RAM budget.
//!
//! Pages go through a cache in which each has one place (`page % places`), so that walks along
//! neighbours, which is what parents mostly are, cost a page read for many records. The file is
//! made when the first page has to leave the cache.

use std::path::{Path, PathBuf};

use super::temp::TempFile;
use super::{SpillError, effective_budget};

/// Records in a page.
const PAGE_RECORDS: usize = 128;

/// A growing array of records. All of it is in RAM while it fits the budget.
#[derive(Debug)]
pub struct Table<const W: usize> {
    dir: PathBuf,
    len: u32,
    places: Vec<Option<Page<W>>>,
    places_max: usize,
    file: Option<TempFile>,
}

#[derive(Debug)]
struct Page<const W: usize> {
    number: u32,
    records: Box<[[u8; W]]>,
    is_dirty: bool,
}

impl<const W: usize> Table<W> {
    /// An empty table that holds up to `budget_bytes` in RAM and the rest in a temporary file
    /// on the file system of `dir`, which is not looked at before it is needed.
    pub fn new(dir: &Path, budget_bytes: usize) -> Self {
        let page_bytes = PAGE_RECORDS * W + size_of::<Option<Page<W>>>();
        let places_max = (effective_budget::<W>(budget_bytes) / page_bytes).max(2);
        Self { dir: dir.to_owned(), len: 0, places: Vec::new(), places_max, file: None }
    }

    /// Count of records.
    pub fn len(&self) -> u32 {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Adds a record and tells its index; `None` when there are 2^32 - 2 already.
    ///
    /// # Errors
    /// When the temporary file fails.
    pub fn push(&mut self, record: [u8; W]) -> Result<Option<u32>, SpillError> {
        if self.len >= u32::MAX - 1 {
            return Ok(None);
        }
        let index = self.len;
        self.len += 1;
        *self.record(index)? = record;
        Ok(Some(index))
    }

    /// The record at an index.
    ///
    /// # Errors
    /// When the temporary file fails.
    ///
    /// # Panics
    /// If there is no such record.
    pub fn get(&mut self, index: u32) -> Result<[u8; W], SpillError> {
        self.page(index / page_records(), false).map(|page| page.records[within(index)])
    }

    /// Replaces the record at an index.
    ///
    /// # Errors
    /// When the temporary file fails.
    ///
    /// # Panics
    /// If there is no such record.
    pub fn set(&mut self, index: u32, record: [u8; W]) -> Result<(), SpillError> {
        *self.record(index)? = record;
        Ok(())
    }

    fn record(&mut self, index: u32) -> Result<&mut [u8; W], SpillError> {
        assert!(index < self.len, "the table has no record {index}");
        let page = self.page(index / page_records(), true)?;
        Ok(&mut page.records[within(index)])
    }

    fn page(&mut self, number: u32, is_written: bool) -> Result<&mut Page<W>, SpillError> {
        let place = number as usize % self.places_max;
        if self.places.len() <= place {
            self.places.resize_with(place + 1, || None);
        }
        if self.places[place].as_ref().is_none_or(|page| page.number != number) {
            let page = self.load(place, number)?;
            self.places[place] = Some(page);
        }
        let page = self.places[place].as_mut().expect("it was just put there");
        page.is_dirty |= is_written;
        Ok(page)
    }

    /// A page for a place, whose old page goes to the file.
    fn load(&mut self, place: usize, number: u32) -> Result<Page<W>, SpillError> {
        let page_bytes = (PAGE_RECORDS * W) as u64;
        let old = self.places[place].take();
        if let Some(old) = old.as_ref().filter(|old| old.is_dirty) {
            let file = match &mut self.file {
                Some(file) => file,
                none => none.insert(TempFile::new(&self.dir)?),
            };
            file.write_at(old.records.as_flattened(), u64::from(old.number) * page_bytes)?;
        }
        let mut records = match old {
            Some(old) => old.records,
            None => vec![[0; W]; PAGE_RECORDS].into_boxed_slice(),
        };
        let offset = u64::from(number) * page_bytes;
        match &self.file {
            Some(file) if file.len() > offset => {
                // A page that was never written stands in a hole, or past the end.
                let len = page_bytes.min(file.len() - offset);
                let len = usize::try_from(len).expect("at most a page");
                file.read_at(&mut records.as_flattened_mut()[..len], offset)?;
            }
            _ => records.fill([0; W]),
        }
        Ok(Page { number, records, is_dirty: false })
    }
}

fn page_records() -> u32 {
    u32::try_from(PAGE_RECORDS).expect("a small constant")
}

fn within(index: u32) -> usize {
    index as usize % PAGE_RECORDS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_what_is_written_anywhere() {
        let dir = tempfile::tempdir().unwrap();
        for count in [1_u32, 127, 128, 129, 5000] {
            let mut table = Table::<8>::new(dir.path(), 4096);
            for n in 0..count {
                assert_eq!(table.push(u64::from(n).to_be_bytes()).unwrap(), Some(n));
            }
            // A walk that jumps over the whole table, with a write at each step.
            let mut at = 0;
            for _ in 0..count {
                at = (at + 3079) % count;
                let old = u64::from_be_bytes(table.get(at).unwrap());
                table.set(at, (old + 1_000_000).to_be_bytes()).unwrap();
            }
            let sum: u64 = (0..count).map(|n| u64::from_be_bytes(table.get(n).unwrap())).sum();
            let expected =
                u64::from(count) * u64::from(count - 1) / 2 + u64::from(count) * 1_000_000;
            assert_eq!(sum, expected, "{count}");
        }
    }
}
