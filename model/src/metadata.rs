//! What identifies a session (contract §1), and what a fork is asked for (contract §3).

use serde::{Deserialize, Serialize};

use crate::address::{BranchName, EntryId, Millis, SessionId};

/// The only storage version there is.
pub const STORAGE_VERSION: u64 = 1;

/// A session's metadata. It never changes after creation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Metadata {
    /// The id.
    pub id: SessionId,
    /// When it was created, Unix ms.
    pub created_at: Millis,
    /// The working directory; only file-backed sessions have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The session this one was forked from or made for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_session_id: Option<SessionId>,
    /// The path that a legacy header named as parent, where its id could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub legacy_parent_session_path: Option<String>,
}

/// Which side of the named entry a branch fork takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Position {
    /// The entry itself.
    At,
    /// Its parent; nothing for a root.
    Before,
}

/// What a fork copies. There is no default.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// The whole tree with its state.
    Tree,
    /// One complete lane, up to an entry.
    Branch {
        /// The lane.
        branch: BranchName,
        /// An entry on its current path; the current tip unless given.
        #[serde(default)]
        entry: Option<EntryId>,
        /// That entry or its parent.
        position: Position,
    },
}

/// What a caller asks of a fork.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForkOptions {
    /// What is copied.
    pub scope: Scope,
    /// The destination's id; generated unless given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<SessionId>,
}

impl ForkOptions {
    /// The whole tree.
    pub fn tree() -> Self {
        Self { scope: Scope::Tree, id: None }
    }

    /// The lane `branch` at its tip.
    pub fn branch(branch: BranchName) -> Self {
        Self { scope: Scope::Branch { branch, entry: None, position: Position::At }, id: None }
    }

    /// A branch fork at `entry`; a tree fork stays what it is.
    #[must_use]
    pub fn at(self, entry: EntryId) -> Self {
        self.positioned(Some(entry), Position::At)
    }

    /// A branch fork before `entry`; a tree fork stays what it is.
    #[must_use]
    pub fn before(self, entry: EntryId) -> Self {
        self.positioned(Some(entry), Position::Before)
    }

    /// A branch fork without its tip entry; a tree fork stays what it is.
    #[must_use]
    pub fn before_tip(self) -> Self {
        self.positioned(None, Position::Before)
    }

    /// With an id of the caller's.
    #[must_use]
    pub fn with_id(mut self, id: SessionId) -> Self {
        self.id = Some(id);
        self
    }

    fn positioned(mut self, to: Option<EntryId>, side: Position) -> Self {
        if let Scope::Branch { entry, position, .. } = &mut self.scope {
            *entry = to;
            *position = side;
        }
        self
    }
}

/// Which lanes a tree fork looks at (contract §3.5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LaneAudit {
    /// Only the lane that a branch fork names.
    #[default]
    Selected,
    /// A partial lane anywhere, or a tip that names no entry, rejects a tree fork.
    Strict,
}
