//! Records in RAM, in a buffer that keeps to its budget while it grows.

/// A growing buffer of records.
///
/// A plain `Vec` doubles, and holds one and a half times its final size while it moves. This
/// one grows in three steps, 1/64, 1/8 and 7/8 of the budget: two neighbours fit together.
#[derive(Debug)]
pub(super) struct RecordBuffer<const W: usize> {
    records: Vec<[u8; W]>,
    /// Records that the whole budget has room for.
    budget: usize,
    bytes_peak: usize,
}

impl<const W: usize> RecordBuffer<W> {
    pub(super) fn new(budget_bytes: usize) -> Self {
        Self { records: Vec::new(), budget: budget_bytes / W, bytes_peak: 0 }
    }

    /// Most records that it will ever hold.
    pub(super) fn records_max(&self) -> usize {
        (self.budget - self.budget / 8).max(1)
    }

    /// Most RAM that it has held, in bytes.
    pub(super) fn bytes_peak(&self) -> usize {
        self.bytes_peak
    }

    pub(super) fn is_full(&self) -> bool {
        self.records.len() == self.records_max()
    }

    /// Adds a record to a buffer that is not full.
    #[inline]
    pub(super) fn push(&mut self, record: [u8; W]) {
        if self.records.len() == self.records.capacity() {
            self.grow();
        }
        self.records.push(record);
    }

    #[cold]
    fn grow(&mut self) {
        assert!(!self.is_full(), "a full buffer is emptied first");
        let len = self.records.len();
        let steps = [self.budget / 64, self.budget / 8, self.records_max()];
        let capacity = steps.into_iter().find(|&step| step > len).expect("not full");
        self.records.reserve_exact(capacity - len);
        self.bytes_peak = self.bytes_peak.max((len + self.records.capacity()) * W);
    }

    pub(super) fn records(&self) -> &[[u8; W]] {
        &self.records
    }

    pub(super) fn records_mut(&mut self) -> &mut [[u8; W]] {
        &mut self.records
    }

    pub(super) fn into_records(self) -> Vec<[u8; W]> {
        self.records
    }

    /// Forgets the records and keeps the room.
    pub(super) fn clear(&mut self) {
        self.records.clear();
    }
}
