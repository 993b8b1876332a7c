//! What a read asks for (contract §1, "Reads").

use serde::{Deserialize, Serialize};

use crate::address::{EntryId, Seq, TypeName};
use crate::entry::{EntryHead, EntryType};
use crate::error::{Error, Result};

/// The order of a read, by seq.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Oldest first.
    Asc,
    /// Newest first.
    Desc,
}

/// How many rows a read returns at most: 1 to 10 000, 1 000 unless told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub struct Limit(u16);

impl Limit {
    /// The highest limit; a larger one is clamped to it.
    pub const MAX: u16 = 10_000;

    /// A limit; more than [`Limit::MAX`] is clamped.
    ///
    /// # Errors
    /// *Invalid limit* for zero and negative numbers.
    pub fn new(limit: i64) -> Result<Self> {
        if limit < 1 {
            return Err(Error::InvalidLimit { limit });
        }
        Ok(Self(u16::try_from(limit).map_or(Self::MAX, |limit| limit.min(Self::MAX))))
    }

    /// The number of rows.
    pub fn get(self) -> usize {
        usize::from(self.0)
    }
}

impl Default for Limit {
    fn default() -> Self {
        Self(1000)
    }
}

impl TryFrom<i64> for Limit {
    type Error = Error;
    fn try_from(limit: i64) -> Result<Self> {
        Self::new(limit)
    }
}

impl From<Limit> for i64 {
    fn from(limit: Limit) -> Self {
        i64::from(limit.0)
    }
}

/// `read_list`: a page of a list's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListQuery {
    /// Exclusive: elements after it (asc) or before it (desc).
    pub cursor: Option<Seq>,
    /// By seq, oldest first unless told.
    pub order: Order,
    /// How many.
    pub limit: Limit,
}

impl Default for ListQuery {
    fn default() -> Self {
        Self { cursor: None, order: Order::Asc, limit: Limit::default() }
    }
}

/// `scan_entries` and `scan_usage`: rows of a seq range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SeqQuery {
    /// The lowest seq, inclusive.
    pub from: Option<Seq>,
    /// The highest seq, inclusive.
    pub to: Option<Seq>,
    /// By seq, oldest first unless told.
    pub order: Order,
    /// How many.
    pub limit: Limit,
}

impl Default for SeqQuery {
    fn default() -> Self {
        Self { from: None, to: None, order: Order::Asc, limit: Limit::default() }
    }
}

/// `find_entries` on a session or along a branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct EntryQuery {
    /// Only entries of this type.
    pub entry_type: Option<EntryType>,
    /// Only entries of this custom type.
    pub custom_type: Option<TypeName>,
    /// By seq, newest first unless told.
    pub order: Order,
    /// Exclusive: entries before it (desc) or after it (asc).
    pub cursor: Option<Seq>,
    /// How many.
    pub limit: Limit,
}

impl Default for EntryQuery {
    fn default() -> Self {
        Self {
            entry_type: None,
            custom_type: None,
            order: Order::Desc,
            cursor: None,
            limit: Limit::default(),
        }
    }
}

impl EntryQuery {
    /// Whether type, custom type and cursor let an entry through.
    pub fn admits(&self, entry: &EntryHead) -> bool {
        self.entry_type.as_ref().is_none_or(|wanted| *wanted == entry.entry_type)
            && self
                .custom_type
                .as_ref()
                .is_none_or(|wanted| entry.custom_type.as_ref() == Some(wanted))
            && self.cursor.is_none_or(|cursor| match self.order {
                Order::Asc => entry.seq > cursor,
                Order::Desc => entry.seq < cursor,
            })
    }
}

/// `scan_branch` and `scan_branch_structure`: the path from an entry to its root.
///
/// The walk goes from `start` towards the root and stops behind the first entry that
/// `stop_at_type` or `stop_at_id` names. What it met is filtered, ordered, cut at the cursor
/// and limited, in this order.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BranchScan {
    /// The entry to start from.
    pub start: EntryId,
    /// The walk ends with the first entry of this type.
    #[serde(default)]
    pub stop_at_type: Option<EntryType>,
    /// The walk ends with this entry.
    #[serde(default)]
    pub stop_at_id: Option<EntryId>,
    /// Filter, order, cursor and limit.
    #[serde(default)]
    pub query: EntryQuery,
}

impl BranchScan {
    /// The whole path of an entry, newest first.
    pub fn from(start: EntryId) -> Self {
        Self { start, stop_at_type: None, stop_at_id: None, query: EntryQuery::default() }
    }

    /// Whether the walk ends with this entry.
    pub fn stops_at(&self, entry: &EntryHead) -> bool {
        self.stop_at_id.as_ref() == Some(&entry.id)
            || self.stop_at_type.as_ref() == Some(&entry.entry_type)
    }
}
