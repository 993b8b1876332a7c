//! The records of the index, as bytes that sort as they should.

use std::ops::Range;

use super::keys::{HASH_BYTES, Hash};

/// Bytes of an offset or a length: files up to 128 TiB.
const OFFSET_BYTES: usize = 6;
const OFFSET_MAX: u64 = (1 << 47) - 1;
/// Set in the place of a record that does not insert an id, so that those that do come first.
const NO_INSERT: u64 = 1 << 47;

pub(super) const RECORD_BYTES: usize = HASH_BYTES + 2 * OFFSET_BYTES + 1;
pub(in super::super) const SURVIVOR_BYTES: usize = 2 * OFFSET_BYTES + 1;
pub(super) const NODE_BYTES: usize = 2 * HASH_BYTES + SURVIVOR_BYTES;
pub(super) const SPOT_BYTES: usize = 2 * OFFSET_BYTES;

/// Where a write's object stands in the file, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(in super::super) struct Place {
    pub(in super::super) offset: u64,
    pub(in super::super) len: u64,
}

impl Place {
    /// None for a place beyond 128 TiB.
    pub(super) fn new(span: &Range<u64>) -> Option<Self> {
        let place = Self { offset: span.start, len: span.end.checked_sub(span.start)? };
        (span.end < OFFSET_MAX).then_some(place)
    }

    pub(in super::super) fn span(self) -> Range<u64> {
        self.offset..self.offset + self.len
    }

    pub(super) fn to_bytes(self) -> [u8; SPOT_BYTES] {
        let both = u128::from(self.offset) << (8 * OFFSET_BYTES) | u128::from(self.len);
        *both.to_be_bytes().last_chunk().expect("16 bytes hold 12")
    }

    pub(in super::super) fn from_bytes(bytes: [u8; SPOT_BYTES]) -> Self {
        let (offset, len) = bytes.split_at(OFFSET_BYTES);
        let number = |bytes: &[u8]| bytes.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
        Self { offset: number(offset), len: number(len) }
    }
}

/// What a record says of its write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Mark {
    // Under an entry's id.
    /// The id is inserted, by an entry that a branch fork does not take.
    Entry,
    /// It is inserted and copied.
    Copied,
    /// The same, by a message.
    CopiedMessage,
    /// It is inserted and walked over on the way to the selected entry.
    Walked,
    /// An entry names it as its parent.
    Parent,
    /// A tip names it.
    Target,
    LabelSet,
    LabelDelete,
    // Under a branch name.
    TipSet,
    /// A tip that is neither an id nor null.
    TipUnreadable,
    TipDelete,
    ConfigSet,
    ConfigDelete,
    StateSet,
    StateDelete,
    // Under an address.
    ValueSet,
    ValueDelete,
    Append,
    ListDelete,
    /// A value or element that makes the fork fail if it survives.
    UnknownSet,
    UnknownAppend,
}

impl Mark {
    const ALL: [Self; 21] = [
        Self::Entry,
        Self::Copied,
        Self::CopiedMessage,
        Self::Walked,
        Self::Parent,
        Self::Target,
        Self::LabelSet,
        Self::LabelDelete,
        Self::TipSet,
        Self::TipUnreadable,
        Self::TipDelete,
        Self::ConfigSet,
        Self::ConfigDelete,
        Self::StateSet,
        Self::StateDelete,
        Self::ValueSet,
        Self::ValueDelete,
        Self::Append,
        Self::ListDelete,
        Self::UnknownSet,
        Self::UnknownAppend,
    ];

    /// Whether the write inserts the id.
    pub(super) fn inserts(self) -> bool {
        matches!(self, Self::Entry | Self::Copied | Self::CopiedMessage | Self::Walked)
    }

    fn from_byte(byte: u8) -> Self {
        *Self::ALL.get(usize::from(byte)).expect("records hold bytes of marks")
    }
}

/// A write that matters to one hash. Sorts by hash, then what inserts an id, then newest first.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record {
    pub(super) hash: Hash,
    pub(super) place: Place,
    pub(super) mark: Mark,
}

impl Record {
    pub(super) fn to_bytes(self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let (hash, rest) = bytes.split_at_mut(HASH_BYTES);
        hash.copy_from_slice(&self.hash);
        let group = if self.mark.inserts() { 0 } else { NO_INSERT };
        let newest_first = OFFSET_MAX - self.place.offset;
        let newest_first = Place { offset: group | newest_first, len: self.place.len };
        let (place, mark) = rest.split_at_mut(SPOT_BYTES);
        place.copy_from_slice(&newest_first.to_bytes());
        mark.copy_from_slice(&[self.mark as u8]);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; RECORD_BYTES]) -> Self {
        let (hash, rest) = bytes.split_first_chunk().expect("long enough");
        let (place, mark) = rest.split_first_chunk().expect("long enough");
        let place = Place::from_bytes(*place);
        Self {
            hash: *hash,
            place: Place { offset: OFFSET_MAX - (place.offset & OFFSET_MAX), len: place.len },
            mark: Mark::from_byte(mark.first().copied().expect("long enough")),
        }
    }
}

const HAS_PARENT: u8 = 1;
const IS_MESSAGE: u8 = 2;

/// An entry on the tape of a branch fork.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) id: Hash,
    pub(super) parent: Option<Hash>,
    pub(super) place: Place,
    pub(super) is_message: bool,
}

impl Node {
    pub(super) fn to_bytes(self) -> [u8; NODE_BYTES] {
        let mut bytes = [0; NODE_BYTES];
        let (id, rest) = bytes.split_at_mut(HASH_BYTES);
        id.copy_from_slice(&self.id);
        let (parent, rest) = rest.split_at_mut(HASH_BYTES);
        parent.copy_from_slice(&self.parent.unwrap_or_default());
        let (place, flags) = rest.split_at_mut(SPOT_BYTES);
        place.copy_from_slice(&self.place.to_bytes());
        let has_parent = if self.parent.is_some() { HAS_PARENT } else { 0 };
        flags.copy_from_slice(&[has_parent | if self.is_message { IS_MESSAGE } else { 0 }]);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; NODE_BYTES]) -> Self {
        let (id, rest) = bytes.split_first_chunk().expect("long enough");
        let (parent, rest) = rest.split_first_chunk().expect("long enough");
        let (place, flags) = rest.split_first_chunk().expect("long enough");
        let flags = flags.first().copied().expect("long enough");
        Self {
            id: *id,
            parent: (flags & HAS_PARENT != 0).then_some(*parent),
            place: Place::from_bytes(*place),
            is_message: flags & IS_MESSAGE != 0,
        }
    }
}

/// A write that is in the destination. Sorts by place, which is the order of seqs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Survivor {
    pub(in super::super) place: Place,
    pub(in super::super) kind: SurvivorKind,
}

/// What a survivor is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(in super::super) enum SurvivorKind {
    /// An entry that is no message.
    Entry,
    /// An entry that is one.
    Message,
    /// A value as it is.
    Value,
    /// A value that gets new content.
    Rewritten,
    /// An element of a list.
    Element,
}

impl Survivor {
    const KINDS: [SurvivorKind; 5] = [
        SurvivorKind::Entry,
        SurvivorKind::Message,
        SurvivorKind::Value,
        SurvivorKind::Rewritten,
        SurvivorKind::Element,
    ];

    pub(super) fn to_bytes(self) -> [u8; SURVIVOR_BYTES] {
        let mut bytes = [0; SURVIVOR_BYTES];
        let (place, kind) = bytes.split_at_mut(SPOT_BYTES);
        place.copy_from_slice(&self.place.to_bytes());
        kind.copy_from_slice(&[self.kind as u8]);
        bytes
    }

    pub(in super::super) fn from_bytes(bytes: &[u8; SURVIVOR_BYTES]) -> Self {
        let (place, kind) = bytes.split_first_chunk().expect("long enough");
        let kind = kind.first().copied().expect("long enough");
        let kind = *Self::KINDS.get(usize::from(kind)).expect("survivors hold bytes of kinds");
        Self { place: Place::from_bytes(*place), kind }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(offset: u64) -> Place {
        Place { offset, len: 3 }
    }

    #[test]
    fn everything_comes_back() {
        for (byte, mark) in Mark::ALL.into_iter().enumerate() {
            assert_eq!(mark as usize, byte);
            let record = Record { hash: [7; HASH_BYTES], place: place(1 << 40), mark };
            let back = Record::from_bytes(&record.to_bytes());
            assert_eq!((back.hash, back.place, back.mark), (record.hash, record.place, mark));
        }
        for kind in Survivor::KINDS {
            let survivor = Survivor { place: place(9), kind };
            assert_eq!(Survivor::from_bytes(&survivor.to_bytes()), survivor);
        }
        for parent in [None, Some([0; HASH_BYTES])] {
            let node = Node { id: [1; HASH_BYTES], parent, place: place(2), is_message: true };
            let back = Node::from_bytes(&node.to_bytes());
            assert_eq!((back.id, back.parent, back.place), (node.id, parent, node.place));
            assert!(back.is_message);
        }
    }

    #[test]
    fn records_sort_by_hash_then_inserts_then_newest_first() {
        let record = |hash, offset, mark| {
            Record { hash: [hash; HASH_BYTES], place: place(offset), mark }.to_bytes()
        };
        let ascending = [
            record(1, 70_000, Mark::Copied),
            record(1, 3, Mark::Walked),
            record(1, 70_000, Mark::Parent),
            record(1, 900, Mark::LabelDelete),
            record(1, 2, Mark::LabelSet),
            record(2, 0, Mark::Entry),
            record(2, OFFSET_MAX - 1, Mark::Append),
        ];
        assert!(ascending.is_sorted());
        let back = ascending.map(|bytes| Record::from_bytes(&bytes).place.offset);
        assert_eq!(back, [70_000, 3, 70_000, 900, 2, 0, OFFSET_MAX - 1]);
    }
}
