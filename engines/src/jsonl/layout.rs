//! Where a session's file stands under the root of a repository (formats §1, "Layout").

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use forkline_model::address::shortened;
use forkline_model::{Metadata, Millis, SessionId};

use crate::error::Result;

/// The longest file name that Linux file systems take, in bytes.
const NAME_BYTES_MAX: usize = 255;

const MS_PER_DAY: u64 = 24 * 60 * 60 * 1000;

/// The folder and the file of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) folder: PathBuf,
    pub(super) file: PathBuf,
}

/// Where the session of that metadata belongs.
///
/// # Errors
/// *Invalid name* for an id or a working directory that no file name can hold.
pub(super) fn place(root: &Path, metadata: &Metadata, cwd: &str) -> Result<Place> {
    let folder = root.join(folder_name(cwd)?);
    let file = folder.join(file_name(metadata.created_at, &metadata.id)?);
    Ok(Place { folder, file })
}

/// The folder of a working directory. Different directories can share one.
pub(super) fn folder_name(cwd: &str) -> Result<String> {
    let inner = cwd.strip_prefix(['/', '\\']).unwrap_or(cwd);
    let name = format!("--{}--", inner.replace(['/', '\\', ':'], "-"));
    if name.len() > NAME_BYTES_MAX {
        return Err(invalid("working directory", cwd, "is too long for a folder name"));
    }
    if name.contains('\0') {
        return Err(invalid("working directory", cwd, "holds U+0000"));
    }
    Ok(name)
}

/// Whether a name in the root is one of a working directory's folder.
pub(super) fn is_folder_name(name: &OsStr) -> bool {
    let name = name.as_encoded_bytes();
    name.len() >= 4 && name.starts_with(b"--") && name.ends_with(b"--")
}

/// Whether a name in a folder is one of a session file.
pub(super) fn is_file_name(name: &OsStr) -> bool {
    name.as_encoded_bytes().ends_with(b".jsonl")
}

/// What the names of all files end in that take this id.
pub(super) fn id_suffix(id: &SessionId) -> String {
    format!("_{}.jsonl", encode_uri_component(id.as_str()))
}

fn file_name(created_at: Millis, id: &SessionId) -> Result<String> {
    let time = iso_time(created_at).replace([':', '.'], "-");
    let name = format!("{time}{}", id_suffix(id));
    if name.len() > NAME_BYTES_MAX {
        return Err(invalid("session id", id.as_str(), "is too long for a file name"));
    }
    Ok(name)
}

fn invalid(what: &'static str, text: &str, reason: &'static str) -> crate::Error {
    forkline_model::Error::InvalidName { what, text: shortened(text), reason }.into()
}

/// Percent-encodes as JavaScript's `encodeURIComponent` does.
fn encode_uri_component(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("writing to a String does not fail");
        }
    }
    encoded
}

/// A time as JavaScript's `toISOString` writes it: UTC with milliseconds.
fn iso_time(at: Millis) -> String {
    let (days, ms) = (at.get() / MS_PER_DAY, at.get() % MS_PER_DAY);
    let (year, month, day) = civil_date(days);
    // Years of more than four digits get a sign and six digits.
    let year = if year > 9999 { format!("+{year:06}") } else { format!("{year:04}") };
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, ms) = (ms / 1000 % 60, ms % 1000);
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Year, month and day of a day counted from 1970-01-01, in the Gregorian calendar.
///
/// Counts from 0000-03-01, so that the leap day is the last day of a year, and in eras of 400
/// years, which all have 146 097 days.
fn civil_date(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_named_as_existing_readers_name_them() {
        for (cwd, expected) in [
            ("/workspace/demo", "--workspace-demo--"),
            ("C:\\work\\x", "--C--work-x--"),
            ("/", "----"),
            ("//a", "---a--"),
            ("", "----"),
        ] {
            assert_eq!(folder_name(cwd).unwrap(), expected, "{cwd}");
        }
        assert!(folder_name(&"x".repeat(251)).is_ok());
        assert!(folder_name(&"x".repeat(252)).is_err());
        assert!(folder_name("a\0b").is_err());
    }

    #[test]
    fn files_are_named_as_existing_readers_name_them() {
        let name = |ms, id: &str| file_name(Millis::new(ms).unwrap(), &SessionId::new(id).unwrap());
        for (ms, id, expected) in [
            (1_700_000_000_000, "source", "2023-11-14T22-13-20-000Z_source.jsonl"),
            (0, "", "1970-01-01T00-00-00-000Z_.jsonl"),
            (951_782_400_001, "../a", "2000-02-29T00-00-00-001Z_..%2Fa.jsonl"),
            (253_402_300_799_999, "x", "9999-12-31T23-59-59-999Z_x.jsonl"),
            (253_402_300_800_000, "x", "+010000-01-01T00-00-00-000Z_x.jsonl"),
            (
                1_700_000_000_000,
                "team/\u{3b1} 1~:\u{e9}",
                "2023-11-14T22-13-20-000Z_team%2F%CE%B1%201~%3A%C3%A9.jsonl",
            ),
        ] {
            assert_eq!(name(ms, id).unwrap(), expected);
        }
        let room = NAME_BYTES_MAX - "2023-11-14T22-13-20-000Z_.jsonl".len();
        assert!(name(1_700_000_000_000, &"x".repeat(room)).is_ok());
        assert!(name(1_700_000_000_000, &"x".repeat(room + 1)).is_err());
    }
}
