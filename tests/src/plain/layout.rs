//! Where a repository puts a session, computed from formats §1 and §3 alone.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use forkline_model::{Metadata, Millis};

/// The file of a JSONL session in a repository root (formats §1).
pub fn jsonl_path(root: &Path, metadata: &Metadata) -> PathBuf {
    let cwd = metadata.cwd.as_deref().unwrap_or_default();
    let folder = cwd.strip_prefix(['/', '\\']).unwrap_or(cwd).replace(['/', '\\', ':'], "-");
    let time = iso(metadata.created_at).replace([':', '.'], "-");
    let id = percent_encoded(metadata.id.as_str());
    root.join(format!("--{folder}--")).join(format!("{time}_{id}.jsonl"))
}

/// The file name of a session in a folder of SQLite containers (formats §3).
pub fn sqlite_name(id: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if !id.is_empty() && id.bytes().all(plain) {
        return format!("{id}.sqlite");
    }
    let units: Vec<u8> = id.encode_utf16().flat_map(u16::to_le_bytes).collect();
    format!("~{}.sqlite", base64url(&units))
}

/// ISO 8601, UTC, with milliseconds. Years beyond 9999 are written as JavaScript does.
fn iso(time: Millis) -> String {
    let (days, ms) = (time.get() / 86_400_000, time.get() % 86_400_000);
    let (year, month, day) = civil(days);
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, ms) = (ms / 1000 % 60, ms % 1000);
    let year = if year > 9999 { format!("+{year:06}") } else { format!("{year:04}") };
    format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{ms:03}Z")
}

/// Year, month and day of a number of days since 1970: counted off, first by 400 years, then by
/// years, then by months.
fn civil(mut days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let mut year = 1970 + days / DAYS_OF_400_YEARS * 400;
    days %= DAYS_OF_400_YEARS;
    let is_leap = |year: u64| {
        year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
    };
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

/// What JavaScript's `encodeURIComponent` does.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.!~*'()".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            write!(encoded, "%{byte:02X}").expect("writing to a String does not fail");
        }
    }
    encoded
}

fn base64url(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let bits: Vec<bool> =
        bytes.iter().flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1 == 1)).collect();
    let digit = |six: &[bool]| {
        let value = (0..6).fold(0, |sum, bit| sum * 2 + usize::from(six.get(bit) == Some(&true)));
        DIGITS.get(value).map_or('A', |&digit| char::from(digit))
    };
    bits.chunks(6).map(digit).collect()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use forkline_model::{Metadata, Millis, SessionId};

    use super::{iso, jsonl_path, sqlite_name};

    #[test]
    fn times_are_written_as_existing_writers_do() {
        for (ms, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            (253_402_300_800_000, "+010000-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(iso(Millis::new(ms).expect("in range")), expected);
        }
    }

    #[test]
    fn names_of_files_are_those_that_existing_writers_use() {
        let metadata = Metadata {
            id: SessionId::new("team/\u{3b1} 1~:\u{e9}").expect("valid"),
            created_at: Millis::new(1_700_000_000_000).expect("in range"),
            cwd: Some("/workspace/demo".to_owned()),
            parent_session_id: None,
            legacy_parent_session_path: None,
        };
        assert_eq!(
            jsonl_path(Path::new("r"), &metadata),
            Path::new("r/--workspace-demo--")
                .join("2023-11-14T22-13-20-000Z_team%2F%CE%B1%201~%3A%C3%A9.jsonl")
        );
        assert_eq!(sqlite_name("a_B-1"), "a_B-1.sqlite");
        assert_eq!(sqlite_name("a.b"), "~YQAuAGIA.sqlite");
        assert_eq!(sqlite_name(""), "~.sqlite");
    }
}
