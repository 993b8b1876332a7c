//! Names and numbers as types that cannot hold an invalid value (contract §1, §2).

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// The longest id, name, namespace or key, in bytes of UTF-8.
///
/// The contract names no limit. One is needed so that what a fork must hold to route a row is
/// bounded whatever the file says; 64 KiB is far above any real name.
pub const TEXT_BYTES_MAX: usize = 64 * 1024;

/// The highest sequence: the largest integer that every JSON reader keeps exactly.
pub const SEQ_MAX: u64 = (1 << 53) - 1;

macro_rules! text_type {
    ($(#[$doc:meta])* $name:ident, $what:literal, $may_be_empty:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// Takes the text if it is valid.
            pub fn new(text: impl AsRef<str>) -> Result<Self> {
                let text = text.as_ref();
                check_text($what, text, $may_be_empty)?;
                Ok(Self(Arc::from(text)))
            }

            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(text: String) -> Result<Self> {
                Self::new(text)
            }
        }

        impl TryFrom<&str> for $name {
            type Error = Error;
            fn try_from(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.as_str().to_owned()
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }

        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&*self.0, f)
            }
        }
    };
}

text_type!(
    /// A session's id. May be empty; has no U+0000.
    SessionId, "session id", true
);
text_type!(
    /// The id of an entry or a usage row: one name space in a session. May be empty; no U+0000.
    EntryId, "entry id", true
);
text_type!(
    /// The name of a branch and of the lane on it. Not empty, no U+0000.
    BranchName, "branch name", false
);
text_type!(
    /// A namespace of values and lists. Not empty, no U+0000.
    Namespace, "namespace", false
);
text_type!(
    /// A key in a namespace. May be empty; has no U+0000.
    Key, "key", true
);
text_type!(
    /// The `customType` of a custom entry, or an entry type that is not built in. No U+0000.
    TypeName, "type name", true
);

fn check_text(what: &'static str, text: &str, may_be_empty: bool) -> Result<()> {
    let invalid = |reason| Error::InvalidName { what, text: shortened(text), reason };
    if text.is_empty() && !may_be_empty {
        return Err(invalid("is empty"));
    }
    if text.contains('\0') {
        return Err(invalid("holds U+0000"));
    }
    if text.len() > TEXT_BYTES_MAX {
        return Err(invalid("is longer than 65536 bytes"));
    }
    Ok(())
}

/// At most 80 characters of a text, for messages.
pub fn shortened(text: &str) -> String {
    match text.char_indices().nth(80) {
        Some((end, _)) => format!("{}...", text.get(..end).unwrap_or_default()),
        None => text.to_owned(),
    }
}

/// Whether a store is a value (one JSON value) or a list (elements in append order).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoreKind {
    /// One JSON value, replaced or deleted.
    Value,
    /// JSON elements, appended one by one, deleted as a whole.
    List,
}

impl StoreKind {
    /// The name used in files and messages.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Value => "value",
            Self::List => "list",
        }
    }
}

/// Where a value or a list stands. Its kind is the other half of the address and is kept apart.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Address {
    /// The namespace.
    pub namespace: Namespace,
    /// The key.
    pub key: Key,
}

impl Address {
    /// An address from two texts.
    pub fn new(namespace: impl AsRef<str>, key: impl AsRef<str>) -> Result<Self> {
        Ok(Self { namespace: Namespace::new(namespace)?, key: Key::new(key)? })
    }

    /// A built-in address: the namespace is one of this crate's constants.
    pub(crate) fn built_in(namespace: &'static str, key: &str) -> Self {
        Self {
            namespace: Namespace(Arc::from(namespace)),
            // Keys of built-in addresses are branch names and ids, which are valid keys.
            key: Key(Arc::from(key)),
        }
    }
}

/// A sequence of a session: 1 to 2^53 - 1, strictly increasing in write order (contract §1).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Seq(u64);

impl Seq {
    /// The sequence `n`, if it is one.
    pub fn new(n: u64) -> Result<Self> {
        if (1..=SEQ_MAX).contains(&n) { Ok(Self(n)) } else { Err(Error::InvalidSeq { seq: n }) }
    }

    /// The number.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for Seq {
    type Error = Error;
    fn try_from(n: u64) -> Result<Self> {
        Self::new(n)
    }
}

impl From<Seq> for u64 {
    fn from(seq: Seq) -> Self {
        seq.0
    }
}

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A point in time: Unix milliseconds, 0 to 2^53 - 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Millis(u64);

impl Millis {
    /// The Unix epoch.
    pub const EPOCH: Self = Self(0);

    /// The time `ms` milliseconds after the Unix epoch.
    pub fn new(ms: u64) -> Result<Self> {
        if ms <= SEQ_MAX { Ok(Self(ms)) } else { Err(Error::InvalidTimestamp { ms }) }
    }

    /// Milliseconds since the Unix epoch.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl TryFrom<u64> for Millis {
    type Error = Error;
    fn try_from(ms: u64) -> Result<Self> {
        Self::new(ms)
    }
}

impl From<Millis> for u64 {
    fn from(ms: Millis) -> Self {
        ms.0
    }
}

impl fmt::Display for Millis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
