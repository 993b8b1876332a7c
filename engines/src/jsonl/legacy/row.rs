//! What the index keeps of each record: 35 bytes.

use forkline_model::Millis;

use super::super::storage::Span;

/// Bytes of a row.
pub(super) const ROW_BYTES: usize = 35;

/// What a record is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A message; the row's span is the message, of length 0 if it is absent.
    Message,
    /// The same where it is no object.
    OddMessage,
    CustomMessage,
    Custom,
    BranchSummary,
    Compaction,
    ContextEdit,
    Model,
    Thinking,
    Tools,
    Info,
    /// A label that names something.
    Label,
    /// A label that removes one.
    LabelRemoval,
    Usage,
    /// A damaged record of which only the place in the tree is left.
    Place,
    /// A record that repeats an id: not in the tree. Its reference is the first of that id.
    Repeated,
}

impl Kind {
    const ALL: [Self; 16] = [
        Self::Message,
        Self::OddMessage,
        Self::CustomMessage,
        Self::Custom,
        Self::BranchSummary,
        Self::Compaction,
        Self::ContextEdit,
        Self::Model,
        Self::Thinking,
        Self::Tools,
        Self::Info,
        Self::Label,
        Self::LabelRemoval,
        Self::Usage,
        Self::Place,
        Self::Repeated,
    ];

    /// Whether records of this kind become entries.
    pub(super) fn is_entry(self) -> bool {
        matches!(
            self,
            Self::Message
                | Self::OddMessage
                | Self::CustomMessage
                | Self::Custom
                | Self::BranchSummary
                | Self::Compaction
                | Self::ContextEdit
        )
    }
}

/// Another record, by its index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Link {
    /// None.
    Nothing,
    /// One whose id is not resolved yet; in the end: one that is not there.
    Unresolved,
    /// This one.
    To(u32),
}

impl Link {
    fn to_number(self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Unresolved => u32::MAX,
            // A table has at most 2^32 - 2 rows.
            Self::To(index) => index + 1,
        }
    }

    fn from_number(number: u32) -> Self {
        match number {
            0 => Self::Nothing,
            u32::MAX => Self::Unresolved,
            number => Self::To(number - 1),
        }
    }

    /// The index, if there is one.
    pub(super) fn index(self) -> Option<u32> {
        match self {
            Self::To(index) => Some(index),
            Self::Nothing | Self::Unresolved => None,
        }
    }
}

impl From<Option<u32>> for Link {
    fn from(index: Option<u32>) -> Self {
        index.map_or(Self::Nothing, Self::To)
    }
}

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) kind: Kind,
    /// Whether a branch fork copies it.
    pub(super) is_selected: bool,
    pub(super) line: u32,
    pub(super) parent: Link,
    /// The seq of the nearest entry on the path, the record itself included; 0 if none.
    pub(super) entry: u32,
    /// What it names beside its parent.
    pub(super) reference: Link,
    /// The object, or the message of a message.
    pub(super) span: Span,
    pub(super) ms: Millis,
}

const SELECTED: u8 = 0x80;

impl Row {
    pub(super) fn to_bytes(self) -> [u8; ROW_BYTES] {
        let kind = Kind::ALL.iter().position(|kind| *kind == self.kind);
        let kind = u8::try_from(kind.unwrap_or_default()).unwrap_or_default();
        let mut bytes = [0; ROW_BYTES];
        let mut rest = bytes.as_mut_slice();
        let mut put = |part: &[u8]| {
            if let Some((head, tail)) = std::mem::take(&mut rest).split_at_mut_checked(part.len()) {
                head.copy_from_slice(part);
                rest = tail;
            }
        };
        put(&[kind | if self.is_selected { SELECTED } else { 0 }]);
        for number in [self.line, self.parent.to_number(), self.entry, self.reference.to_number()] {
            put(&number.to_be_bytes());
        }
        for number in [self.span.offset, self.span.len, self.ms.get()] {
            // 48 bits: a file of 256 TiB, and the time of a UUIDv7.
            let [_, _, low @ ..] = number.to_be_bytes();
            put(&low);
        }
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; ROW_BYTES]) -> Self {
        let mut rest = bytes.as_slice();
        let mut take = |len: usize| {
            let (head, tail) = rest.split_at_checked(len).unwrap_or_default();
            rest = tail;
            head.iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
        };
        let kind = take(1);
        let mut number = |len| u32::try_from(take(len)).unwrap_or_default();
        let (line, parent, entry, reference) = (number(4), number(4), number(4), number(4));
        let index = usize::try_from(kind & u64::from(!SELECTED)).unwrap_or_default();
        Self {
            kind: Kind::ALL.get(index).copied().unwrap_or(Kind::Place),
            is_selected: kind & u64::from(SELECTED) != 0,
            line,
            parent: Link::from_number(parent),
            entry,
            reference: Link::from_number(reference),
            span: Span { offset: take(6), len: take(6) },
            ms: Millis::new(take(6)).unwrap_or(Millis::EPOCH),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_their_bytes() {
        for (index, kind) in Kind::ALL.into_iter().enumerate() {
            let row = Row {
                kind,
                is_selected: index % 2 == 0,
                line: u32::MAX,
                parent: Link::To(u32::MAX - 2),
                entry: 7,
                reference: if index % 3 == 0 { Link::Unresolved } else { Link::Nothing },
                span: Span { offset: (1 << 48) - 1, len: 1 << 40 },
                ms: Millis::new((1 << 48) - 1).unwrap(),
            };
            assert_eq!(Row::from_bytes(&row.to_bytes()), row);
        }
    }
}
