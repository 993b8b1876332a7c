//! What an engine can refuse or fail at (contract §4).

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use forkline_model::{ErrorKind, SessionId};

/// The result of an engine operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A refusal or failure: what was wrong, where, and why.
///
/// Three outcomes of a fork can be told apart: *not committed* and every refusal mean that there
/// is no destination; *durability uncertain* means that it is complete and visible, but that its
/// folder could not be synced; success means durable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A refusal that the model knows too.
    #[error(transparent)]
    Model(#[from] forkline_model::Error),
    /// Damage in a source.
    #[error("corrupt source {place}: {reason}")]
    CorruptSource {
        /// File, and line where there is one.
        place: Place,
        /// What is wrong there.
        reason: String,
    },
    /// A format or storage version that this version does not read.
    #[error("unsupported version in {place}: {found}")]
    UnsupportedVersion {
        /// The file.
        place: Place,
        /// What it says.
        found: String,
    },
    /// The file holds another session than the one named.
    #[error("{place} holds session {found:?}, not {expected}")]
    IdentityMismatch {
        /// The file.
        place: Place,
        /// The session asked for.
        expected: SessionId,
        /// What the file says.
        found: String,
    },
    /// A legacy session that is open and not yet upgraded has no stable ids.
    #[error(
        "cannot fork the open legacy session {session}: commit to it first, which upgrades it, \
         or close it"
    )]
    OpenLegacySource {
        /// The session.
        session: SessionId,
    },
    /// A second commit in one mutation scope.
    #[error("this mutation has attempted its commit already")]
    CommitAttempted,
    /// The repository is closed.
    #[error("the repository is closed")]
    RepositoryClosed,
    /// The caller cancelled.
    #[error("cancelled")]
    Cancelled,
    /// A stated limit is passed.
    #[error("limit exceeded: {what}")]
    LimitExceeded {
        /// Which limit, and by what.
        what: String,
    },
    /// A database stayed locked for the whole busy timeout.
    #[error("{place} is locked by another process: try again when it is done")]
    Busy {
        /// The database.
        place: Place,
    },
    /// A file operation failed.
    #[error("cannot {action} {}", path.display())]
    Io {
        /// What was attempted.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A database operation failed.
    #[error("cannot {action} {}", path.display())]
    Sqlite {
        /// What was attempted.
        action: &'static str,
        /// On which database.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// A publish failed; there is no destination.
    #[error("not committed: {} was not published", path.display())]
    NotCommitted {
        /// The destination.
        path: PathBuf,
        /// Why.
        source: Box<Error>,
    },
    /// The destination is complete and visible, but its folder could not be synced.
    #[error("durability uncertain: {} is complete, but may not survive a power loss", path.display())]
    DurabilityUncertain {
        /// The destination.
        path: PathBuf,
        /// Why.
        source: Box<Error>,
    },
    /// An earlier write on this handle failed; what is on disk is what it was before.
    #[error("session {session} failed earlier and takes no more commits: close and open it again")]
    Poisoned {
        /// The session.
        session: SessionId,
    },
    /// Several failures of one closing.
    #[error("{}", list(.0))]
    Several(Vec<Error>),
}

impl Error {
    /// The kind that model and engines share.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Model(error) => error.kind(),
            Self::CorruptSource { .. } => ErrorKind::CorruptSource,
            Self::UnsupportedVersion { .. } => ErrorKind::UnsupportedVersion,
            Self::IdentityMismatch { .. } => ErrorKind::IdentityMismatch,
            Self::OpenLegacySource { .. } => ErrorKind::OpenLegacySource,
            Self::CommitAttempted => ErrorKind::CommitAttempted,
            Self::RepositoryClosed => ErrorKind::Closed,
            Self::Cancelled => ErrorKind::Cancelled,
            Self::LimitExceeded { .. } => ErrorKind::LimitExceeded,
            Self::Busy { .. } => ErrorKind::Busy,
            Self::Io { .. } | Self::Sqlite { .. } | Self::Poisoned { .. } => ErrorKind::Io,
            Self::NotCommitted { .. } => ErrorKind::NotCommitted,
            Self::DurabilityUncertain { .. } => ErrorKind::DurabilityUncertain,
            Self::Several(_) => ErrorKind::Several,
        }
    }

    /// A file operation that failed.
    pub fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Self::Io { action, path: path.into(), source }
    }

    /// Damage in a source.
    pub fn corrupt(place: impl Into<Place>, reason: impl Into<String>) -> Self {
        Self::CorruptSource { place: place.into(), reason: reason.into() }
    }

    /// The message with all its causes, one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}

fn list(errors: &[Error]) -> String {
    let texts: Vec<String> = errors.iter().map(Error::chain).collect();
    format!("{} failures: {}", errors.len(), texts.join("; "))
}

/// Where something was found wrong: a file, and a line of it where there are lines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The file or container.
    pub path: PathBuf,
    /// The line, counted from 1.
    pub line: Option<u64>,
}

impl Place {
    /// A line of a file.
    pub fn line(path: impl Into<PathBuf>, line: u64) -> Self {
        Self { path: path.into(), line: Some(line) }
    }
}

impl From<&Path> for Place {
    fn from(path: &Path) -> Self {
        Self { path: path.to_owned(), line: None }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.path.display())?;
        match self.line {
            Some(line) => write!(f, ", line {line}"),
            None => Ok(()),
        }
    }
}
