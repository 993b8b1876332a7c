//! File names of sessions and of temporary files (formats §3).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use forkline_model::{Error as ModelError, SessionId};

use crate::error::Result;

/// The longest file name that Linux file systems take, less the longest side file suffix.
const NAME_BYTES_MAX: usize = 255 - "-journal".len();

/// What SQLite appends to the name of a database for its side files.
pub(super) const SIDE_SUFFIXES: [&str; 3] = ["-wal", "-shm", "-journal"];

/// How names of unfinished destinations start and end. No session's file name starts with a dot
/// or ends like this, so they are never listed and never in the way.
pub(super) const TEMP_PREFIX: &str = ".forkline-";
/// See [`TEMP_PREFIX`].
pub(super) const TEMP_SUFFIX: &str = ".sqlite-tmp";

/// The file name of a session: the id itself where that is a plain name, else its base64url.
///
/// # Errors
/// *Invalid name* when the file system could not hold it.
pub(super) fn file_name(session: &SessionId) -> Result<String> {
    let id = session.as_str();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    let name = if !id.is_empty() && id.bytes().all(is_plain) {
        format!("{id}.sqlite")
    } else {
        let units: Vec<u8> = id.encode_utf16().flat_map(u16::to_le_bytes).collect();
        format!("~{}.sqlite", base64url(&units))
    };
    if name.len() > NAME_BYTES_MAX {
        return Err(ModelError::InvalidName {
            what: "session id",
            text: forkline_model::address::shortened(id),
            reason: "is too long for a file name",
        }
        .into());
    }
    Ok(name)
}

/// Base64 with `-` and `_`, without padding.
fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let mut bits = chunk.iter().fold(0_u32, |bits, &byte| bits << 8 | u32::from(byte));
        bits <<= 8 * (3 - chunk.len());
        for place in 0..=chunk.len() {
            let digit = bits >> (18 - 6 * place) & 0x3f;
            text.push(char::from(DIGITS.get(digit as usize).copied().expect("six bits")));
        }
    }
    text
}

/// The side file of a database with that suffix.
pub(super) fn side(database: &Path, suffix: &str) -> PathBuf {
    let mut name = database.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// An absolute path as a URI that SQLite reads as exactly that path.
pub(super) fn uri(path: &Path, query: &str) -> String {
    use std::os::unix::ffi::OsStrExt as _;
    let mut text = String::from("file://");
    for &byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'/' | b'.' | b'-' | b'_' | b'~') {
            text.push(char::from(byte));
        } else {
            write!(text, "%{byte:02X}").expect("writing to a String does not fail");
        }
    }
    text.push('?');
    text.push_str(query);
    text
}

#[cfg(test)]
mod tests {
    use forkline_model::SessionId;

    use super::{base64url, file_name, uri};

    #[test]
    fn names_are_plain_or_encoded() {
        let name = |id: &str| file_name(&SessionId::new(id).unwrap()).unwrap();
        assert_eq!(name("a-B_9"), "a-B_9.sqlite");
        assert_eq!(name(""), "~.sqlite");
        assert_eq!(name("a/b"), "~YQAvAGIA.sqlite");
        assert_eq!(name("../x"), "~LgAuAC8AeAA.sqlite");
        assert_eq!(base64url(&[0xff, 0xfe, 0xfd, 0xfc]), "__79_A");
        assert!(file_name(&SessionId::new("x".repeat(300)).unwrap()).is_err());
    }

    #[test]
    fn uris_hide_what_would_be_syntax() {
        let path = std::path::Path::new("/a b/c?d#e%41");
        assert_eq!(uri(path, "mode=ro"), "file:///a%20b/c%3Fd%23e%2541?mode=ro");
    }
}
